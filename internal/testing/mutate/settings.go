package mutate

// settings are defects in what devices are told, and in what they get back.
func settings() []Mutant {
	const decide, engine = "pkg/step/configure.go", "internal/node/engine/configure.go"
	const again = "internal/node/discovery/again.go"
	tests, scans := []string{"internal/node/engine"}, []string{"internal/node/discovery"}
	const run = "Setting|Parameter|Volatile|GivenBack|Waits|Storing|GoodSettings|LostSettings|ReadOnce"
	return []Mutant{
		{What: "a value that waits behind the one in force is left", File: "pkg/inventory/setting.go", Packages: tests, Run: run,
			Old: "case p.Runs(value) && p.Next.Known && !p.Stores(value):", New: "case p.Runs(value) && p.Next.Known && p.Current.Value == value+\"!\":"},
		{What: "what is stored and not reported in force is taken for activated", File: engine, Run: run,
			Old: "has.DoubtedNeed = max(has.DoubtedNeed, p.Needs)", New: "has.DoubtedNeed = max(has.DoubtedNeed, 0)"},
		{What: "what an earlier job changed is given back as it left it", File: engine, Run: run,
			Old: "merged(view.Devices[u.UniqueID].GoodSettings, known.before)", New: "merged(view.Devices[\"\"].GoodSettings, known.before)"},
		{What: "settings that cannot be given back are not said", File: engine, Run: run,
			Old: "if known.noUndo != \"\" && x.job.Record.RollbackRequired {", New: "if known.noUndo == \"-\" && x.job.Record.RollbackRequired {"},
		{What: "a boot in the middle is taken for a refusal", File: decide, Packages: tests, Run: "TestSettingsSurviveABoot",
			Old: "case begun && ret != nil && d.s.BootID != d.f.BootID && d.s.Attempt < d.attempts():", New: "case begun && ret == nil && d.s.BootID != d.f.BootID && d.s.Attempt < d.attempts():"},
		{What: "a device that was told halfway keeps it", File: decide, Packages: tests, Run: run,
			Old: "if !d.s.Rollback && d.r.Touched(d.s.Device) {", New: "if d.s.Rollback && d.r.Touched(d.s.Device) {"},
		{What: "a fault of a setting is one of the image", File: decide, Packages: tests, Run: "Setting",
			Old: "\ta.Failure.Settings = true\n\tif !d.s.Rollback", New: "\tif !d.s.Rollback"},
		{What: "the last attempt says what all of them need", File: decide, Packages: tests, Run: "Setting",
			Old: "if !ret.done() || d.s.Attempt > 1 {", New: "if !ret.done() {"},
		{What: "settings that a flash has reset are a failure", File: decide, Packages: tests, Run: run,
			Old: "return d.r.rebootAttempts() < d.r.updateReboots()", New: "return d.r.rebootAttempts() < 0"},
		{What: "settings are stored once more without end", File: decide, Packages: tests, Run: run,
			Old: "case d.reconfigured(u) || !d.s.Rollback && d.r.Failure != nil:", New: "case !d.s.Rollback && d.r.Failure != nil:"},
		{What: "storing once more forgets what other devices wait for", File: decide, Packages: tests, Run: run,
			Old: "u.Settings && (u.Device == at.Device || verified(u.Device))", New: "u.Settings && (u.Device != \"\" || verified(u.Device))"},
		{What: "what a boot takes is stored once", File: decide, Packages: tests, Run: run,
			Old: "case has.Lost && told.BootID != d.f.BootID, d.mayConfigureAgain(*u):", New: "case d.mayConfigureAgain(*u):"},
		{What: "settings without firmware need a reboot that does not come", File: "pkg/step/host.go", Packages: tests, Run: run,
			Old: "(told.BootID == d.f.BootID || d.f.Kexec)", New: "(told.BootID != d.f.BootID || d.f.Kexec)"},
		{What: "settings that are in force take the node out of service", File: "pkg/step/host.go", Packages: tests, Run: run,
			Old: "u.Settings && !dev.configured()", New: "u.Settings"},
		{What: "keeping a value in force costs its activation", File: "pkg/plan/configuration.go",
			Old: "needs = inventory.ActivateNone", New: "needs = p.Needs"},
		{What: "a name that nothing brings is let through", File: "pkg/plan/configuration.go", Old: "if p != nil || !firmwareComing {", New: "if p != nil || firmwareComing {"},
		{What: "a setting that needs a reset is changed on a node in service", File: engine, Packages: tests, Run: "Quiet",
			Old: "has.Quiet && p.NeedsFor(s.Value) == inventory.ActivateNone && ", New: "has.Quiet && "},
		{What: "a setting that interrupts the link is changed on a node in service", File: engine, Packages: tests, Run: "Quiet", Old: " && !p.Disturbs", New: ""},
		{What: "firmware is written on a node in service", File: "pkg/step/host.go", Packages: tests, Run: "Quiet", Old: "if u.Version != \"\" || !dev.answers()", New: "if !dev.answers()"},
		{What: "a node in service is held", File: "pkg/step/apply.go", Packages: tests, Run: "Quiet", Old: "held.Held = !r.InService", New: "held.Held = true"},
		{What: "what no gate found good is given again after a boot", File: again, Packages: scans, Run: "Given", Old: "good == nil || good.Digest != now.Digest", New: "good == nil"},
		{What: "a value is fought over with another program", File: again, Packages: scans, Run: "Given", Old: " || !d.isFirst(device.UniqueID, now)", New: ""},
		{What: "settings are given while a job has the node", File: again, Packages: scans, Run: "Given", Old: "err != nil || view.Active() != nil", New: "err != nil"},
		{What: "what a failed job left is archived as good", File: "internal/node/engine/kept.go", Packages: tests, Run: "Archived",
			Old: "plain(view.Devices[d.UniqueID].GoodSettings)...", New: "nil..."},
		{What: "archived settings do not come back", File: "internal/node/job/restore.go", Run: "Settings", Old: "len(m.Settings) > 0;", New: "len(m.Settings) < 0;"},
		{What: "what was restored is configured over again", File: "internal/node/engine/remember.go", Packages: tests, Run: "Restore",
			Old: "m.displacedSettings(u), nil", New: "nil, nil"},
	}
}
