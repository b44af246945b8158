package mutate

// rollouts are defects in how an update spreads over a pool: its waves, halts, windows and topology budgets.
func rollouts() []Mutant {
	const waves, halt, follow, plan = "internal/schedule/waves.go", "internal/schedule/halt.go", "internal/schedule/follow.go",
		"internal/schedule/rollout.go"
	const fit, topology = "internal/schedule/window.go", "internal/schedule/topology.go"
	const calendar, wall = "internal/schedule/window/calendar.go", "internal/schedule/window/wall.go"
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
		{What: "a node that a failed job holds does not halt its update", File: halt, Old: "case f.held:", New: "case f.held && r.Failed > 1:"},
		{What: "a wave in which every node failed does not halt its update", File: halt,
			Old: "r.Succeeded == 0 && r.Failed > 0 {", New: "r.Succeeded == 0 && r.Failed > 100 {"},
		{What: "a halt concerns the nodes with the same version only", File: halt,
			Old: "other.Model == e.Model && other.Digest == e.Digest {", New: "other.Model == e.Model && other.From == e.From && other.Digest == e.Digest {"},
		{What: "a failure of a held job counts in each pass", File: halt,
			Old: "isJudged := counted[e.UID]", New: "isJudged := e.UID == \"\""},
		{What: "a job that has shown nothing counts as a failure", File: halt,
			Old: "if e.Verdict == Unknown {", New: "if e.Verdict == Unknown && j.State == Held {"},
		{What: "resume lifts a halt that came with it", File: follow,
			Old: "if o.Plan.resumes() {\n\t\t\tp.lift(o)\n\t\t}\n\t\tfailures := p.judge(o)\n",
			New: "failures := p.judge(o)\n\t\tif o.Plan.resumes() {\n\t\t\tp.lift(o)\n\t\t\tfailures = nil\n\t\t}\n"},
		{What: "a resume lifts the halts that come after it", File: plan, Old: "p.Resume != \"\" && p.Resume != p.Resumed", New: "p.Resume != \"\""},
		{What: "a deadline is ignored", File: halt, Old: "!at.IsZero() && !at.After(p.facts.Now) {", New: "!at.IsZero() && at.Before(r.Started) {"},
		{What: "a window wins over a freeze", File: calendar,
			Old: "if f, _ := w.covering(w.freezes, t, t); f != nil {", New: "if f, _ := w.covering(w.freezes, t, t); f != nil && w.always {"},
		{What: "a job is begun that does not fit into the window", File: fit,
			Old: "case !s.Closes.Before(p.facts.Now.Add(expected)):", New: "case !s.Closes.Before(p.facts.Now):"},
		{What: "a window that begins at a time shown twice in autumn begins at the second", File: wall,
			Old: "case end.IsZero() || shown.Before(end):", New: "case end.IsZero() || shown.Before(end.Add(-time.Hour)):"},
		{What: "a window that begins at a time skipped in spring is left out", File: wall,
			Old: "return start.UTC()", New: "return start.UTC().Add(24 * time.Hour)"},
		{What: "one node more than the topology budget is disturbed", File: topology, Old: "case after <= budget:", New: "case after <= budget+1:"},
		{What: "a node that is down does not count in its rack", File: topology, Old: "d.used[p.node(node).Labels[d.Key]]++",
			New: "if p.node(node).Ready {\n\t\t\td.used[p.node(node).Labels[d.Key]]++\n\t\t}"},
	}
}
