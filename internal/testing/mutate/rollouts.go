package mutate

// rollouts are defects in how an update spreads over a pool: its waves, halts, windows and topology budgets.
func rollouts() []Mutant {
	const waves, halt, follow, plan = "internal/schedule/waves.go", "internal/schedule/halt.go", "internal/schedule/follow.go",
		"internal/schedule/rollout.go"
	const fit, topology = "internal/schedule/refuse.go", "internal/schedule/topology.go"
	const calendar, wall = "internal/schedule/window/calendar.go", "internal/schedule/window/cursor.go"
	return []Mutant{
		{What: "the next wave opens while a node of this one runs", File: waves,
			Old: "return r.running == 0 && (w.Size != nil", New: "return (w.Size != nil"},
		{What: "the first wave is left without a success", File: waves, Old: "r.isJudged() && r.succeeded() && o.halted", New: "r.isJudged() && o.halted"},
		{What: "a soak is cut short", File: follow, Old: "r.LastVerdict.Add(r.wave().Soak)", New: "r.LastVerdict.Add(r.wave().Soak / 2)"},
		{What: "a node that the open wave does not select overtakes it", File: waves,
			Old: "if !r.includes(c.node.Labels) || r.free() == 0 {", New: "if r.free() == 0 {"},
		{What: "a wave takes more nodes than its size", File: waves,
			Old: "if !r.includes(c.node.Labels) || r.free() == 0 {", New: "if !r.includes(c.node.Labels) {"},
		{What: "two updates in different waves wait for each other", File: waves,
			Old: "return before.Selector != nil && before.chooses(node)", New: "return before.Selector != nil && !before.chooses(node)"},
		{What: "a node that a failed job holds does not halt its update", File: halt,
			Old: "r.held > limit.MaxHeld && limit.MaxHeld == 0:", New: "r.held > limit.MaxHeld+1 && limit.MaxHeld == 0:"},
		{What: "a wave in which every node failed does not halt its update", File: halt,
			Old: "r.isJudged() && r.Succeeded == 0:", New: "r.isJudged() && r.Succeeded == 0 && r.Failed > 100:"},
		{What: "held nodes halt although most have succeeded", File: halt, Old: "case lenient:", New: "case lenient && limit.MaxHeld > 0:"},
		{What: "a success does not end a row of failures", File: halt, Old: "r.Succeeded, r.Consecutive = r.Succeeded+1, 0", New: "r.Succeeded++"},
		{What: "many nodes at once come from a version that nobody has come from", File: waves,
			Old: "if r.isFirstFrom(e.From) && r.runningFrom[e.From] > 0 {", New: "if r.isFirstFrom(e.From) && r.runningFrom[e.From] > 1 {"},
		{What: "a wave does not wait for nodes that are not queued", File: follow, Old: "\t\t\tr.queue = append(r.queue, queued{n, false})\n\t\t}\n\t}\n}\n\n// runs", New: "\t\t}\n\t}\n}\n\n// runs"},
		{What: "a failure of a held job counts in each pass", File: halt,
			Old: "isJudged := counted[e.UID]", New: "isJudged := e.UID == \"\""},
		{What: "a job that has shown nothing counts as a failure", File: halt,
			Old: "if e.Verdict == Unknown {", New: "if e.Verdict == Unknown && j.State == Held {"},
		{What: "resume lifts a halt that came with it", File: follow,
			Old: "if o.Plan.resumes() {\n\t\t\tp.lift(o)\n\t\t}\n\t\tfailures := p.judge(o)\n",
			New: "failures := p.judge(o)\n\t\tif o.Plan.resumes() {\n\t\t\tp.lift(o)\n\t\t\tfailures = nil\n\t\t}\n"},
		{What: "a resume lifts the halts that come after it", File: plan, Old: "p.Resume != \"\" && p.Resume != p.Resumed", New: "p.Resume != \"\""},
		{What: "an Allow wins over a Deny", File: calendar,
			Old: "if f, _ := w.covering(w.deny, t, t); f != nil {", New: "if f, _ := w.covering(w.deny, t, t); f != nil && w.always {"},
		{What: "a job is begun that does not fit into the window", File: fit,
			Old: "case !s.Closes.Before(p.facts.Now.Add(expected)):", New: "case !s.Closes.Before(p.facts.Now):"},
		{What: "a window that begins at a time shown twice in autumn begins at the second", File: wall,
			Old: "case end.IsZero() || shown.Before(end):", New: "case end.IsZero() || shown.Before(end.Add(-time.Hour)):"},
		{What: "a window that begins at a time skipped in spring is left out", File: wall,
			Old: "return start.UTC()", New: "return start.UTC().Add(24 * time.Hour)"},
		{What: "two nodes of the control plane go at once", File: topology, Old: "case other == c.node:", New: "case other.exists():"},
		{What: "a deleted node of the control plane keeps nobody", File: topology, Old: "case !other.exists():", New: "case !other.exists():\n\t\t\tcontinue\n\t\tcase len(other.holders) > 9:"},
		{What: "waves that are edited hold nothing back", File: follow, Old: "if o.Plan.Edited {", New: "if o.Plan.Edited && len(r.waves) == 0 {"},
		{What: "a hop begins its waves anew", File: follow, Old: "r.queuedFrom[other.Version]\n", New: "len(r.queuedFrom) > 0\n"},
		{What: "one node more than the topology budget is disturbed", File: topology, Old: "case after <= budget:", New: "case after <= budget+1:"},
		{What: "a node that is down does not count in its rack", File: topology, Old: "\t\t\td.used[value]++",
			New: "\t\t\tif n.Ready {\n\t\t\t\td.used[value]++\n\t\t\t}"},
	}
}
