package mutate

// gates are defects in who is found healthy, what is rolled back, and what a person's request clears.
func gates() []Mutant {
	const gate, rollback, clearance = "pkg/step/gate.go", "pkg/step/rollback.go", "pkg/plan/clearance.go"
	return []Mutant{
		{What: "a device that runs another version is verified", File: gate, Old: "case dev.Running == want:", New: "case dev.Running == want || dev.Refusal == \"\":"},
		{What: "a device that refused its image at boot is verified", File: gate,
			Old: "case dev.Running == want && dev.Refusal != \"\" && d.activatedByBoot():", New: "case dev.Running == want && dev.Refusal != \"\" && d.s.Rollback:"},
		{What: "a device that was not changed is blamed", File: gate,
			Old: "if a.Failure != nil && !d.s.Rollback && d.r.Touched(d.s.Device) {", New: "if a.Failure != nil && !d.s.Rollback {"},
		{What: "a device is not blamed for what it runs", File: gate, Old: "a.Failure.Blames = []string{d.s.Device}", New: "a.Failure.Blames = nil"},
		{What: "silence counts as health", File: gate,
			Old: "case !d.f.HealthKnown:", New: "case !d.f.HealthKnown && len(d.f.Unhealthy) > 0:"},
		{What: "a host is called healthy at its first clean look", File: gate, Old: "d.f.Clean < d.l.Soak:", New: "d.f.Clean < 0:"},
		{What: "a host has no time to become healthy", File: gate,
			Old: "case d.f.Complaining < d.l.Health && d.f.Waited < d.l.Health+d.l.Soak:", New: "case d.f.Complaining < 0:"},
		{What: "a host that is not healthy is waited for without end", File: gate,
			Old: "case d.f.Complaining < d.l.Health && d.f.Waited < d.l.Health+d.l.Soak:", New: "case d.f.Complaining >= 0:"},
		{What: "a slow boot is accepted", File: gate, Old: "d.f.BootTook > d.l.Boot && ", New: "d.f.BootTook < 0 && "},
		{What: "a node rolls back because the API server is down", File: gate,
			Old: "\tcase len(complaints) == 0 && i.Lasted == 0:\n", New: "\tcase i.Lasted > d.l.Isolation:\n\t\treturn d.unhealthy(d.f.Unhealthy)\n\tcase len(complaints) == 0 && i.Lasted == 0:\n"},
		{What: "a node that was cut off before its update rolls back", File: gate, Old: "case !i.Reached:", New: "case !i.Reached && len(complaints) == 0:"},
		{What: "a node that is cut off by its update waits for ever", File: gate, Old: "case i.Lasted >= d.l.Isolation:", New: "case i.Lasted < 0:"},
		{What: "what a dead switch explains counts against the image", File: gate, Old: "if networkOnly(complaints) {", New: "if !networkOnly(complaints) {"},
		{What: "a verdict of another boot lets the node return", File: gate,
			Old: "r.Verdict.Healthy && r.Verdict.BootID != bootID &&", New: "r.Verdict.Healthy && r.Verdict.BootID == \"\" &&"},
		{What: "nobody is blamed where no complaint names a device", File: gate, Old: "a.Failure.Blames = touched\n", New: "a.Failure.Blames = nil\n"},
		{What: "a rollback begins before everything was read back", File: rollback,
			Old: "return i < 0 || r.Steps[i].Kind != plan.Verify", New: "return i < 0 || r.Steps[i].Kind != plan.Release"},
		{What: "a rollback is decided twice", File: rollback, Old: "r.Rollback != nil || r.Released {", New: "r.Released {"},
		{What: "a device is restored under a write", File: rollback, Old: "case dev.WriteRunning:", New: "case dev.WriteRunning && dev.Missing:"},
		{What: "a device without a way back is restored", File: rollback,
			Old: "u.Rollback != inventory.RollbackNone:", New: "u.Rollback == inventory.RollbackNone:"},
		{What: "some devices are restored though one cannot be", File: rollback, Old: "if len(stuck) == 0 {", New: "if len(stuck) < len(r.Failure.Blames) {"},
		{What: "a node that cannot be restored is not held", File: rollback, Old: "Step: r.Failure.Step, Held: true,", New: "Step: r.Failure.Step,"},
		{What: "the request that was in force clears what failed under it", File: clearance, Old: "return string(c) != *under", New: "return string(c) == *under"},
		{What: "an empty request clears", File: clearance, Old: "case c == \"\":\n\t\treturn false", New: "case c == \"\":\n\t\treturn under != nil"},
		{What: "a time clears what an earlier version recorded", File: clearance,
			Old: "return !strings.HasPrefix(string(c), dated)", New: "return strings.HasPrefix(string(c), \"\")"},
	}
}
