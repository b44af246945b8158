package mutate

// queues are defects in which jobs are made while the queue of a policy is full.
func queues() []Mutant {
	const room, act = "internal/queue/queues.go", "internal/controller/planner/act.go"
	return []Mutant{
		{What: "one node more than maxQueued waits", File: room, Old: "if q.left() > 0 && (isNext", New: "if q.left() >= 0 && (isNext"},
		{What: "a node that no limit refuses takes no room", File: room,
			Old: "if _, again := q.entered[job]; !again {", New: "if _, again := q.entered[job]; again {"},
		{What: "a full queue refuses the nodes of the open wave", File: act,
			Old: "case limited && f.settings.InWave:", New: "case limited && f.settings.InWave && job.Name == \"\":", Run: "Queue"},
	}
}

// views are defects in what the operator's cache keeps, which the tests of its readers must notice.
func views() []Mutant {
	return []Mutant{{What: "the cache forgets the labels of a Node", File: "internal/trim/trim.go", Old: "o.Labels[shared(k)] = shared(v)",
		New: "_ = v", Packages: []string{"internal/controller/planner"}, Run: "Queue|Room"}}
}

// provenances are defects in what a node says about the objects that its firmware came from.
func provenances() []Mutant {
	const decide = "internal/controller/provenance/decide.go"
	return []Mutant{
		{What: "a template that is gone is not obsolete", File: decide,
			Old: "case !exists:\n\t\treturn v1alpha1.ObsoleteDeleted", New: "case !exists:\n\t\treturn \"\""},
		{What: "a rule that is gone is not obsolete", File: decide,
			Old: "case !has:\n\t\treturn v1alpha1.ObsoleteDeleted", New: "case !has:\n\t\treturn \"\""},
		{What: "another content is not obsolete", File: decide, Old: "case hash != o.Hash:", New: "case false:"},
		{What: "a device that another pin decides for came from nothing else", File: decide, Old: "w.Digest == d.Status.Applied.Digest", New: "w.Digest != \"\""},
		{What: "what runs already keeps its old origin", File: "internal/node/discovery/decide.go", Old: "out.Origin = want.Origin", New: "_ = want"},
	}
}

// cordons are defects in whose a cordon is, and in what becomes of it.
func cordons() []Mutant {
	const window, state, contract = "internal/maintenance/nodemaintenance/node.go", "internal/maintenance/nodemaintenance/state.go", "TestContractWithLabStandIn"
	in := []string{"internal/testing/maintenancetest"}
	return []Mutant{
		{What: "a node that somebody else has is put into maintenance", File: window, Old: "neighbour.Has(node) != \"\" ||", New: "neighbour.Has(node) == \"x\" ||", Packages: in, Run: contract},
		{What: "a node that a person cordoned is put into maintenance", File: window, Old: "whose != ours && neighbour.Cordoned(node) != \"\")", New: "whose != ours && neighbour.Cordoned(node) == \"x\")", Packages: in, Run: contract},
		{What: "a maintenance that replaces one removed by force leaves its cordon", File: window, Old: "if whose == ours {", New: "if whose == ours && n.Was == nil {", Packages: in, Run: contract},
		{What: "a node that others need by now is uncordoned", File: window, Old: "case whose == others &&", New: "case whose == unknown &&", Packages: in, Run: contract},
		{What: "the cordon of a person counts as that of the maintenance", File: state, Old: "case was == is:", New: "case was.Node == is.Node:", Packages: in, Run: contract},
		{What: "a queued job takes a node that somebody else has", File: "internal/schedule/admit.go", Old: "if c.node.Taken == \"\" {", New: "if c.node.Taken == \"\" || c.node.Cordoned {"},
		{What: "a cordoned node is not taken", File: "internal/controller/rollout/taken.go", Old: "} else if isTaken(n) {", New: "} else if isTaken(n) && !n.Spec.Unschedulable {"},
		{What: "the cordon of a shared maintenance counts as somebody else's", File: "internal/controller/rollout/taken.go", Old: "if shared[name] {", New: "if shared[name] && was != nil {", Run: "^TestOthersCordonWaits$"},
		{What: "a stale cordon is believed", File: "internal/controller/rollout/taken.go", Old: "if !was[name] {", New: "if was[name] {"},
		{What: "a maintenance is promised that nobody requested", File: "internal/status/job.go", Old: "now.Phase == step.MaintenanceEnding) && now.Node == \"\":",
			New: "now.Phase == step.MaintenanceEnding || lost) && now.Node == \"\":"},
		{What: "a node that was uncordoned is said to stay out of service", File: "internal/status/job.go", Old: "case now.Phase == step.MaintenanceBroken:", New: "case now.Phase == step.MaintenanceBroken && lost:"},
		{What: "the cache forgets who has a Node", File: "internal/trim/trim.go", Old: "neighbour.Trim(o)", New: "neighbour.Trim(o)\n\to.Annotations, o.Spec.Taints = nil, nil"},
	}
}

// drains are defects in how the operator takes a node out of service and returns it.
func drains() []Mutant {
	const decide = "internal/controller/maintenance/decide.go"
	return []Mutant{
		{What: "a node that somebody else cordoned is uncordoned", File: decide, Old: "d.uncordon, d.disown, d.again = ours, marked && !ours, false",
			New: "d.uncordon, d.disown, d.again = ours || f.node.Spec.Unschedulable, marked && !ours, false"},
		{What: "a node that a person cordoned again is uncordoned", File: "internal/controller/maintenance/decide.go", Old: "return who != fieldOwner })",
			New: "return who != fieldOwner && len(n.Annotations) == 0 })"},
		{What: "the cordon of somebody else becomes the operator's", File: decide,
			Old: "if !f.node.Spec.Unschedulable || isOurs(f.node) {", New: "if !f.node.Spec.Unschedulable || isOurs(f.node) || f.answer == nil {"},
		{What: "a node without an admitted job is drained", File: decide, Old: "case !f.admitted:", New: "case !f.admitted && f.left != nil:"},
		{What: "pods are evicted from a node that is not cordoned", File: decide,
			Old: "case !f.node.Spec.Unschedulable:", New: "case !f.node.Spec.Unschedulable && f.left != nil:"},
		{What: "a node that somebody else has is drained", File: decide, Old: "case !f.begun() && taken(f.node) != \"\":", New: "case !f.begun() && taken(f.node) == \"x\":"},
		{What: "a node that somebody has by now is uncordoned", File: decide, Old: "isOurs(f.node) && len(signs) == 0", New: "isOurs(f.node)"},
		{What: "a node is called drained while pods are left", File: decide, Old: "case f.left.Done():", New: "case f.left.Done() || len(f.left.Pods) == 1:"},
	}
}
