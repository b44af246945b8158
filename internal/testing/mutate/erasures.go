package mutate

// erasures are defects in what is erased, how often, and what is said of it.
func erasures() []Mutant {
	const decide, samples, use = "internal/node/erase/erase.go", "internal/node/erase/sample.go", "pkg/host/volume.go"
	const scsi = "pkg/driver/scsi/erase.go"
	tests := []string{"internal/node/steps"}
	const run = "Eras|Drive|Samples"
	return []Mutant{
		{What: "any drive of that name is erased", File: decide, Packages: tests, Run: run, Old: "named == \"\" || named != strings.TrimSpace(d.SerialNumber)", New: "named == \"\""},
		{What: "a drive that another host may use is erased", File: decide, Packages: tests, Run: run, Old: "case has.Shared != \"\":", New: "case has.Shared != \"\" && has.Percent > 0:"},
		{What: "a drive is erased by another method than was asked for", File: decide, Packages: tests, Run: run,
			Old: "case !slices.Contains(has.Methods, asked):", New: "case !slices.Contains(has.Methods, asked) && len(has.Methods) == 0:"},
		{What: "a drive that is not known to have begun is told again", File: decide, Packages: tests, Run: run, Old: "\treturn true, true\n}", New: "\treturn false, false\n}"},
		{What: "a drive that was told is told again after a crash", File: decide, Packages: tests, Run: run, Old: "attempt > k.Attempt+1:", New: "attempt > k.Attempt+100:"},
		{What: "a drive that is used by now is erased", File: decide, Packages: tests, Run: run,
			Old: "volumes, err := e.Disks.Claim(ctx, d.Identity) // nobody", New: "volumes, err := e.Disks.Volumes(ctx, d.Identity) // nobody"},
		{What: "a drive that says it is done is believed", File: samples, Packages: tests, Run: run, Old: "if bytes.Equal(old, hash(block)) {", New: "if bytes.Equal(old, nil) {"},
		{What: "a drive without a log that nobody saw erase itself is told again", File: decide, Packages: tests, Run: run,
			Old: "case now.State == driver.EraseNever && !now.NoLog, ", New: "case now.State == driver.EraseNever, "},
		{What: "a drive without a log is proven erased by nothing", File: decide, Packages: tests, Run: run,
			Old: "case now.NoLog && k.Seen == \"\" && found.held == 0:", New: "case now.NoLog && k.Seen == \"\" && found.held < 0:"},
		{What: "a reset of a SAS drive hides that it erases itself", File: scsi, Packages: []string{"pkg/driver/scsi"}, Run: "Erasure",
			Old: "if now.Key != keyUnitAttention {", New: "if now.Key <= keyUnitAttention {"},
		{What: "an answer that was lost counts as a refusal", File: scsi, Packages: []string{"pkg/driver/scsi"}, Run: "Refusal",
			Old: "case slices.Contains(refusals, r.ExitCode):", New: "case len(refusals) > 0:"},
		{What: "a SAS drive that was reset is told again unseen", File: scsi, Packages: []string{"pkg/driver/scsi"}, Run: "Refusal",
			Old: "r, err := d.once(ctx, c)", New: "r, err := d.run(ctx, c)"},
		{What: "an erasure reaches the other half of a SAS drive", File: scsi, Packages: []string{"pkg/driver/drivertest"}, Run: "SASDrive",
			Old: "if units != 1 {", New: "if units < 1 {"},
		{What: "a SAS drive that is used by its other path is erased", File: "pkg/host/use.go", Packages: []string{"pkg/host"}, Run: "ClaimIsRefused",
			Old: "if i != own && leadTogether", New: "if i == own && leadTogether"},
		{What: "a SAS drive that is used by a path without a WWID is erased", File: "pkg/host/disk.go", Packages: []string{"pkg/host"}, Run: "ClaimIsRefused",
			Old: "return a.Serial != \"\" && driveAt(a)", New: "return a.Serial == \"\" && driveAt(a)"},
		{What: "a path that cannot be read is in no use", File: use, Packages: []string{"pkg/host"}, Run: "CannotBeRead",
			Old: "if p.Err != nil && mayLeadTogether(p, *own) {", New: "if p.Err != nil && leadTogether(p, *own) {"},
		{What: "a drive with two paths stores everything twice", File: use, Packages: []string{"pkg/host"}, Run: "TwoPaths",
			Old: "return v.ID == id })", New: "return v.ID == id && v.Name == b.Name })"},
		{What: "firmware that waits is lost with the erasure", File: decide, Packages: tests, Run: run, Old: "fw != nil && fw.Pending()", New: "fw == nil && fw.Pending()"},
		{What: "what a drive was told is forgotten when the steps begin again", File: "pkg/step/apply.go", Packages: tests, Run: run, Old: "if s.Kind != plan.Erase {", New: "if s.Kind != plan.Flash {"},
		{What: "a drive that takes long is given up", File: "pkg/step/record.go", Packages: tests, Run: run, Old: "s.State == Running && !s.Lasting && ", New: "s.State == Running && "},
		{What: "a drive in use is erased", File: use, Packages: []string{"pkg/host"}, Run: "Claim|Volume", Old: "if err == nil && len(by) == 0 {", New: "if err == nil && len(by) < 100 {"},
		{What: "a drive is erased by a job that was cancelled while the daemon did not run", File: "pkg/step/host.go", Packages: tests, Run: run, Old: "mayTell && d.f.Cancel == nil && d.f.Unasked", New: "mayTell && d.f.Cancel != nil && d.f.Unasked"},
		{What: "a policy erases without consent", File: "internal/cleaning/steps.go", Packages: []string{"internal/cleaning"}, Run: "Polic", Old: "if policy.Spec.Consent != policy.Name {", New: "if policy.Spec.Consent == policy.Name+policy.Name {"},
		{What: "a policy erases another number of drives than it names", File: "internal/cleaning/steps.go", Packages: []string{"internal/cleaning"}, Run: "Polic", Old: "n != want || n == 0", New: "n == 0"},
		{What: "a policy erases drives that it does not name", File: "internal/cleaning/steps.go", Packages: []string{"internal/cleaning"}, Run: "Polic",
			Old: "|| !selector.Matches(match.DeviceOf(&d))", New: "|| selector == nil"},
		{What: "a drive is erased though the job was cancelled", File: "pkg/step/cancel.go", Packages: tests, Run: run, Old: "d.s.Kind == plan.Erase && !d.s.Lasting", New: "d.s.Kind == plan.Flash && !d.s.Lasting"},
		{What: "a drive that never ends cannot be given up", File: "pkg/step/host.go", Packages: tests, Run: run, Old: "case ret == nil && (d.s.Lasting || mayTell) && d.notAgain():", New: "case ret == nil && !d.s.Lasting && d.notAgain():"},
		{What: "the drives of a node are erased one after the other", File: "pkg/step/record.go", Packages: tests, Run: run, Old: "s.unfinished() && !s.Followed():", New: "s.unfinished() && s.Followed():"},
		{What: "another drive is told after one has failed", File: "pkg/step/record.go", Packages: tests, Run: run, Old: "case next == i && r.Failure == nil && s.", New: "case next == i && s."},
		{What: "a drive that fails keeps the others from being proven", File: "pkg/step/record.go", Packages: tests, Run: run, Old: " || s.State == Running && s.erasing()) {", New: ") {"},
		{What: "a drive that takes long keeps the others from being proven", File: "internal/node/engine/follow.go", Packages: tests, Run: run, Old: "if x.glance(ctx, i) {", New: "if ctx.Err() != nil {"},
		{What: "a drive that is listed late is given up", File: "internal/node/engine/follow.go", Packages: tests, Run: run, Old: "case now-*d.gone >= x.limits().Read:", New: "case now >= *d.gone:"},
		{What: "a policy erases while drives are hidden from it", File: "internal/node/job/decide.go", Packages: []string{"internal/node/job"}, Run: "PolicyErases", Old: "if len(f.unlisted) > 0 {", New: "if len(f.unlisted) > 9 {"},
		{What: "a manifest that is applied again erases again", File: "internal/node/job/decide.go", Packages: []string{"internal/node/job"}, Run: "SameName", Old: "if len(f.erased) > 0 {", New: "if len(f.erased) > 9 {"},
	}
}
