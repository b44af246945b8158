package mutate

// configurations are defects in who gets which settings in a cluster, and when.
func configurations() []Mutant {
	const index, due, failures = "internal/match/configuration.go", "internal/due/updates.go", "internal/desired/failures.go"
	const run = "Setting"
	planner := []string{"internal/controller/planner"}
	return []Mutant{
		{What: "two rules for the settings of a device are none", File: index, Run: run, Old: "case len(claims) > 1 ||", New: "case len(claims) > 2 ||"},
		{What: "a conflict about settings leaves the firmware to change", File: index, Run: run, Old: "\t\tif out.Conflict == nil {", New: "\t\tif out.Conflict != nil {"},
		{What: "a paused template assigns settings", File: index, Run: run, Old: "case !ix.paused(claims[0]):", New: "default:"},
		{What: "an edit without effect makes settings newer", File: index, Run: run, Old: "next.Origin = d.configured.Origin //", New: "next.Origin.Rule += \"\" //"},
		{What: "quarantined settings keep the firmware of a device", File: index, Run: run, Old: "out.Conflict != nil || out.Verdict.Outcome.Due() ||", New: "out.Conflict != nil ||"},
		{What: "a lift of quarantined settings is not noticed", File: "internal/match/refresh.go", Run: run,
			Old: " || d.decision.Configuration.digestOf() == image", New: ""},
		{What: "settings of another kind's template are removed with it", File: "internal/match/lookup.go", Run: run,
			Old: "of := d.rulesOf(t.ref.Kind)\n\t\t*of = slices.DeleteFunc", New: "of := &d.rules\n\t\t*of = slices.DeleteFunc"},
		{What: "settings that are only validated are written", File: "internal/desired/settings.go", Packages: planner, Run: run,
			Old: "case c.Policy == v1alpha1.PolicyValidate:", New: "case c.Policy == \"-\":"},
		{What: "what the daemon says of other settings is taken for these", File: "internal/desired/settings.go", Packages: []string{"internal/match"}, Run: run,
			Old: "case is == nil || is.Digest != digest:", New: "case is == nil:"},
		{What: "settings go with the first hop", File: due, Packages: planner, Run: "Hop", Old: "case isLast && standing == desired.SettingsDue,", New: "case (is || isLast) && standing == desired.SettingsDue,"},
		{What: "settings that firmware may reset do not go with it", File: due, Packages: planner, Run: run,
			Old: "is && standing == desired.SettingsInForce", New: "isLast && standing == desired.SettingsFailed"},
		{What: "settings that failed keep the firmware of their device", File: due, Packages: planner, Run: run,
			Old: "case firmware.lets(f.Now) && !settings.lets(f.Now):", New: "case firmware.lets(f.Now) && settings.lets(f.Now):"},
		{What: "a queued job keeps settings that are declared otherwise", File: "internal/due/decide.go", Packages: planner, Run: run,
			Old: "a.Configuration == b.Configuration && ", New: ""},
		{What: "a failure of settings speaks against the image", File: failures, Packages: planner, Run: run,
			Old: "case j.FailedOnSettings(u.Name):", New: "case u.Name == \"\":"},
		{What: "a node that settings hold is held by other settings too", File: failures, Packages: planner, Run: run,
			Old: " && c.Digest() == u.Configuration", New: ""},
		{What: "settings are never quarantined", File: "internal/quarantine/report.go", Run: run, Old: "range j.Suspects(&u)", New: "range j.Suspects(&u)[:0]"},
		{What: "settings that were in force are quarantined with an image", File: "api/v1alpha1/firmwarejob_types.go", Packages: []string{"internal/quarantine"}, Run: run,
			Old: "u.Digest != \"\" && untouched", New: "u.Digest == \"-\" && untouched"},
	}
}
