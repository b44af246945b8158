package mutate

// tools are defects in how a profile reads and sets the settings of a vendor's tool.
func tools() []Mutant {
	const settings, listing = "pkg/driver/profile/settings.go", "pkg/driver/profile/listing.go"
	const run = "TestSettingsOfTheExamplesAreRead|TestACommit|TestADocument|TestWhatIsNoValue|TestListings|TestSettingsAreNoPart"
	return []Mutant{
		{What: "what waits for nothing is not known to be stored", File: listing, Run: run, Old: "p.Next = p.Current //", New: "p.Next = p.Default //"},
		{What: "a setting that is listed twice is changed", File: listing, Run: run, Old: "known.texts[column]; twice {", New: "known.texts[name]; twice {"},
		{What: "a line that is not understood is passed over", File: listing, Run: run,
			Old: "if slices.ContainsFunc(l.Ignore, func(p *regexp.Regexp) bool { return p.MatchString(line) }) {", New: "if len(line) > 0 {"},
		{What: "a tool is given what is not to change", File: listing, Run: run, Old: "out.Write(l.document[done:e.start])\n\t\tdone = e.end", New: "out.Write(l.document[done:e.end])\n\t\tdone = e.end"},
		{What: "a commit that was lost stays lost", File: settings, Run: run, Old: "slices.ContainsFunc(c.Set, waits)", New: "slices.ContainsFunc(c.Set, waits) && len(runs) > 0"},
		{What: "what is committed is committed again", File: settings, Run: run, Old: "return found[fieldCommitted] != \"\", err", New: "return found[\"\"] != \"\", err"},
		{What: "a value is taken for an option", File: "pkg/driver/profile/template.go", Run: run, Old: "strings.HasPrefix(b.String(), \"-\")", New: "strings.HasPrefix(b.String(), \"?\")"},
		{What: "a reset does not bring settings into force", File: "pkg/driver/profile/driver.go", Run: "TestProfilesConform/card_with_settings/what",
			Old: "\t\tif !settings {", New: "\t\tif settings || !settings {"},
		{What: "a driver without settings keeps those of the kernel away", File: "pkg/driver/configure.go", Packages: []string{"pkg/driver/profile"}, Run: run,
			Old: "!ok || open && !maybe.Configures()", New: "!ok || open && maybe == nil"},
		{What: "a person copies a command that a node made up", File: "internal/wayout/said.go", Old: "if !isOurs(command) {", New: "if command == \"\" {"},
		{What: "what fails first is cut from a catalog", File: "internal/controller/catalog/judge.go",
			Old: "return lifetime.Sooner(a.FirstFailure(), b.FirstFailure())\n\t\t})\n\t\tleft", New: "return 0\n\t\t})\n\t\tleft"},
		{What: "hours are dated by a clock that was lost", File: "internal/node/discovery/hours.go", Old: "if now.Before(created) ||", New: "if"},
		{What: "a read of the hours that hangs blames the drive", File: "pkg/driver/nvme/controller.go", Old: "mine.left = !side", New: "mine.left = true"},
		{What: "a job that waits hides what needs a person", File: "internal/explain/why.go",
			Old: "if Concern(n.Status.Conditions) == nil && !job.MayBegin()", New: "if n.Status.HeldBy == \"\" && !job.MayBegin()"},
		{What: "an update to a version that fails as early is urgent", File: "internal/lifetime/lifetime.go", Old: "has && then.PowerOnHours <=", New: "has && then.PowerOnHours <"},
	}
}
