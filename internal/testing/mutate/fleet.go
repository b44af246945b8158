package mutate

// queues are defects in which jobs are made while the queue of a policy is full.
func queues() []Mutant {
	const room, act = "internal/queue/queues.go", "internal/controller/planner/act.go"
	return []Mutant{
		{What: "one node more than maxQueued waits", File: room, Old: "if q.left() > 0 && (isNext", New: "if q.left() >= 0 && (isNext"},
		{What: "a node that no limit refuses takes no room", File: room,
			Old: "if _, again := q.entered[job]; !again {", New: "if _, again := q.entered[job]; again {"},
		{What: "a full queue refuses the nodes of the open wave", File: act,
			Old: "job != nil && (f.Settings.InWave ||", New: "job != nil && (f.Settings.InWave && job.Name == \"\" ||", Run: "Queue"},
		{What: "a policy whose spec is invalid queues its canaries", File: room, Old: "q.closed && !again {", New: "q.closed && again {",
			Packages: []string{"internal/controller/planner"}, Run: "InvalidPolicy"},
		{What: "the nodes of an invalid policy are queued by the default one", File: "internal/schedule/policy.go",
			Old: "meant >= 0 && all[i].isDefault()", New: "meant >= 0 && !all[i].isDefault()",
			Packages: []string{"internal/controller/planner"}, Run: "InvalidPolicy"},
	}
}

// views are defects in what the operator's cache keeps, which the tests of its readers must notice.
func views() []Mutant {
	return []Mutant{{What: "the cache forgets the labels of a Node", File: "internal/trim/trim.go", Old: "o.Labels[shared(k)] = shared(v)",
		New: "_ = v", Packages: []string{"internal/controller/planner"}, Run: "Queue|Room"}}
}

// doors are defects in what a person is told who has to end a state.
func doors() []Mutant {
	return []Mutant{
		{What: "a daemon that ended since its last report is called ready", File: "internal/controller/node/gather.go", Packages: []string{"internal/controller/node"},
			Run: "TestTrouble", Old: "(since == nil || end.FinishedAt.After(since.Time))", New: "since == nil"},
		{What: "a retry releases the node", File: "internal/wayout/wayout.go", Packages: []string{"internal/operator"}, Run: "TestWaysOutOfFailure",
			Old: "Request(\"nfw\", node, \"retry\")", New: "Request(\"nfw\", node, \"release\")"},
	}
}

// provenances are defects in what a node says about the objects that its firmware came from.
func provenances() []Mutant {
	const decide = "internal/controller/provenance/decide.go"
	return []Mutant{
		{What: "a template that is gone is not obsolete", File: decide,
			Old: "case !exists:\n\t\treturn v1alpha1.ObsoleteDeleted", New: "case !exists:\n\t\treturn \"\""},
		{What: "a rule that is gone is not obsolete", File: decide,
			Old: "case !has:\n\t\treturn v1alpha1.ObsoleteDeleted", New: "case !has:\n\t\treturn \"\""},
		{What: "another content is not obsolete", File: decide, Old: "case hash != o.Hash:", New: "case hash == \"\":"},
		{What: "a device that another pin decides for came from nothing else", File: decide, Old: "w.Digest == d.Status.Applied.Digest", New: "w.Digest != \"\""},
		{What: "what runs already keeps its old origin", File: "internal/node/discovery/applied.go", Old: "out.Origin = origin\n", New: "_ = origin\n"},
	}
}

// signals are defects in what a Node says of its firmware.
func signals() []Mutant {
	return []Mutant{
		{What: "each step of a rollout is a write of the Node", File: "internal/status/onnode.go", Old: "was.Reason == c.Reason {", New: "false {"},
		{What: "a job that changes no firmware makes its node not compliant", File: "internal/status/onnode.go", Old: "was.Status == corev1.ConditionTrue:", New: "false:"},
		{What: "a node is compliant while it is flashed", File: "internal/controller/nodecondition/decide.go", Old: "slices.ContainsFunc(f.devices, isBehind)", New: "false && slices.ContainsFunc(f.devices, isBehind)", Run: "TestANodeThatIsFlashedIsNotCompliant"},
		{What: "what is not to be said any more stays on the Node", File: "internal/controller/nodecondition/decide.go", Old: "slices.Contains(f.kinds, config.NodeConditionsCompliance)", New: "(true || slices.Contains(f.kinds, config.NodeConditionsCompliance))"},
		{What: "the Lease of somebody else is taken", File: "internal/controller/maintenance/lease.go", Old: "l.isOurs() || l.now.After(l.expires())", New: "l.isOurs() || l.now.Before(l.expires())"},
		{What: "a Lease is never renewed", File: "internal/controller/maintenance/lease.go", Old: "!l.isOurs() || l.now.After(", New: "!l.isOurs() || false && l.now.After("},
		{What: "what medik8s was told outlives its job", File: "internal/controller/maintenance/lease.go", Old: "f.admitted && (f.begun()", New: "(f.begun()"},
		{What: "nobody says who took a Lease that ran out", File: "internal/controller/maintenance/decide.go", Old: "d = say(f, v1alpha1.MaintenanceDrained, f.too())", New: "_ = f.too()", Packages: []string{"internal/testing/maintenancetest"}, Run: "TestALostLeaseIsNamed"},
		{What: "a Lease is given back while its node stays cordoned", File: "internal/controller/maintenance/lease.go", Old: "(wanted || f.kept())", New: "wanted"},
		{What: "a job says of its maintenance what was so when it began", File: "internal/node/job/status.go", Old: "cmp.Or(said(s.Look), said(s.Maintenance), st.Message)", New: "cmp.Or(st.Message, said(s.Look), said(s.Maintenance))", Run: "TestWhoTakesTheNodeMeanwhileIsNamed"},
		{What: "the label of a person is removed", File: "internal/controller/maintenance/lease.go", Old: "!has && marked", New: "!has && labelled"},
		{What: "a Lease is not asked for", File: "internal/controller/controller.go", Old: ".Agreeing(c.Medik8sLeases, time.Now)", New: "", Packages: []string{"cmd/firmware-operator"}, Run: "TestShippedOperatorTakesTheLeaseOfMedik8s"},
		{What: "a Node says that it is drained though somebody uncordoned it", File: "internal/controller/nodecondition/decide.go", Old: "&& f.node.Spec.Unschedulable {", New: "{"},
		{What: "what others say of a maintenance is overwritten", File: "internal/controller/nodecondition/decide.go", Old: "others == nil || status.IsOurs(*others)", New: "true || others == nil"},
		{What: "a maintenance is planned once more when it is over", File: "internal/controller/nodecondition/decide.go", Old: "l.Planned = !over &&", New: "l.Planned = (!over || true) &&"},
		{What: "a job that has ended keeps its node in maintenance", File: "api/v1alpha1/firmwarejob_types.go", Old: "return j.Admitted() && (!j.Ended() || j.Held())", New: "return j.Admitted() || j.Held()", Packages: []string{"internal/controller/nodecondition"}},
		{What: "the operator clears what others say of a maintenance", File: "deploy/policy/operator-nodes.yaml", Old: "variables.shared && c.?reason.orValue('') == 'FirmwareUpdate'))\n         ==", New: "variables.shared && (true || c.?reason.orValue('') == 'FirmwareUpdate')))\n         ==", Packages: []string{"deploy"}, Run: "TestEveryoneStaysInTheirRole"},
		{What: "the cache forgets what the Node says", File: "internal/trim/trim.go", Old: "&& !slices.Contains(status.OnNodeTypes, c.Type)", New: "|| slices.Contains(status.OnNodeTypes, c.Type)", Packages: []string{"internal/controller/nodecondition"}},
	}
}

// cordons are defects in whose a cordon is, and in what becomes of it.
func cordons() []Mutant {
	const window, state, contract = "internal/maintenance/nodemaintenance/node.go", "internal/maintenance/nodemaintenance/state.go", "TestContractWithLabStandIn"
	in := []string{"internal/testing/maintenancetest"}
	return []Mutant{
		{What: "a node that somebody else has is put into maintenance", File: window, Old: "neighbour.Has(node) != \"\" && !(", New: "neighbour.Has(node) == \"x\" && !(", Packages: in, Run: contract},
		{What: "a node that a person cordoned is put into maintenance", File: window, Old: "whose != ours && neighbour.Cordoned(node) != \"\")", New: "whose != ours && neighbour.Cordoned(node) == \"x\")", Packages: in, Run: contract},
		{What: "a maintenance is requested although kured has the node besides another", File: window, Old: "!(shared && neighbour.MayShare(node))", New: "!shared"},
		{What: "a maintenance that replaces one removed by force leaves its cordon", File: window, Old: "if whose == ours {", New: "if whose == ours && n.Was == nil {", Packages: in, Run: contract},
		{What: "a cordon that was left by force stays with whoever has the node", File: state, Old: "case whose == ours:", New: "case whose == ours && neighbour.Has(node) == \"\":", Packages: in, Run: contract},
		{What: "a node that others need by now is uncordoned", File: window, Old: "case whose == others &&", New: "case whose == unknown &&", Packages: in, Run: contract},
		{What: "a node is returned under the hands of who has it", File: window, Old: "case whose != others && keeps(o, node) != \"\":", New: "case whose == others && keeps(o, node) != \"\":", Packages: in, Run: contract},
		{What: "the cordon of a person counts as that of the maintenance", File: state, Old: "case was == is:", New: "case was.Node == is.Node:", Packages: in, Run: contract},
		{What: "a queued job takes a node that somebody else has", File: "internal/schedule/admit.go", Old: "if c.node.Taken == \"\" {", New: "if c.node.Taken == \"\" || c.node.Cordoned {"},
		{What: "a cordoned node is not taken", File: "internal/controller/rollout/taken.go", Old: "} else if has != \"\" || isTaken(n) {", New: "} else if has != \"\" {", Run: "Cordon|^TestUpgrade"},
		{What: "the cordon of a shared maintenance counts as somebody else's", File: "internal/controller/rollout/taken.go", Old: "case shared[name] ||", New: "case shared[name] && r.cordoned != nil ||", Run: "^TestOthersCordonWaits$"},
		{What: "a stale cordon is believed", File: "internal/controller/rollout/taken.go", Old: "&& !r.cordoned[name] {", New: "&& r.cordoned[name] {", Run: "Cordon|^TestUpgrade"},
		{What: "an upgrade in a shared maintenance counts as somebody else's", File: "internal/controller/rollout/taken.go", Old: "has != \"\" && !neighbour.MayShare(n)", New: "has != \"\"", Run: "Cordon|^TestUpgrade"},
		{What: "who has a node besides a shared maintenance is overlooked", File: "internal/controller/rollout/taken.go", Old: "has != \"\" && !neighbour.MayShare(n)", New: "has == \"x\"", Run: "Cordon|^TestUpgrade"},
		{What: "a cordon of which nothing is known is taken for nobody's", File: "internal/controller/rollout/taken.go", Old: "case shared[name] || n == nil && err == nil:", New: "case shared[name] || err != nil:", Run: "Cordon|^TestUpgrade"},
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
		{What: "a node that somebody has by now is uncordoned", File: decide, Old: "neighbour.Keeps(f.node, f.lease.signs()...) != \"\"", New: "len(neighbour.Signs(f.node)) > 1"},
		{What: "a node that somebody had is not looked at again", File: decide, Old: "d.again = true", New: "d.again = f.answer == nil"},
		{What: "nobody is told who keeps a node", File: "internal/node/drainrequest/window.go", Old: "cmp.Or(f.answer.Message, said)\n\t\t}", New: "cmp.Or(said, f.answer.Message)\n\t\t}",
			Packages: []string{"internal/testing/maintenancetest"}, Run: "TestContractWithOwnDrain"},
		{What: "a node is called drained while pods are left", File: decide, Old: "case f.left.Done():", New: "case f.left.Done() || len(f.left.Pods) == 1:"},
	}
}
