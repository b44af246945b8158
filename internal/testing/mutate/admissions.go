package mutate

// admissions are defects in what the API server accepts. Their tests need one.
func admissions() []Mutant {
	const definitions = "deploy/kustomize/crd/nodefirmware.io_"
	rule := func(what, kind, test, before, after string) Mutant {
		return Mutant{What: what, File: definitions + kind + ".yaml", Old: before, New: after, Copies: 2, Packages: []string{"api/v1alpha1"}, Run: "^" + test + "$"}
	}
	const own = "deploy/policy/daemon-own-node.yaml"
	policy := func(what, before, after string) Mutant {
		return Mutant{What: what, File: own, Old: before, New: after, Packages: []string{"deploy"}, Run: "^TestPolicyHoldsEvenWhereARoleGivesTooMuch$"}
	}
	pod := func(what, before, after string) Mutant {
		return Mutant{What: what, File: "deploy/kustomize/pod-strategy/job-pods.yaml", Old: before, New: after, Packages: []string{"deploy"},
			Run: "^TestEveryoneStaysInTheirRole$/^node-firmware-system$/^operator_make_a_pod"}
	}
	operator := func(what, file, before, after string) Mutant {
		return Mutant{What: what, File: "deploy/policy/operator-" + file + ".yaml", Old: before, New: after, Packages: []string{"deploy"},
			Run: "^TestEveryoneStaysInTheirRole$/^node-firmware-system$/^operator_"}
	}
	return []Mutant{
		operator("the operator says what a node runs", "objects", "k in variables.before && variables.after[k] == variables.before[k])", "k != '')"),
		operator("the operator says that a node is ready", "objects", "variables.before.?conditions.orValue([]).filter(c, !(c.type in variables.types))",
			"variables.after.?conditions.orValue([]).filter(c, !(c.type in variables.types))"),
		operator("the operator answers every request", "objects", "['scan', 'retry', 'release'].all(", "['scan', 'retry'].all("),
		operator("the operator ends a person's job by deleting it", "objects", "|| oldObject.spec.task.type == 'Update' ||", "|| oldObject.spec.task.type != '' ||"),
		operator("the operator reports in the daemons' name", "events", `e.?reportingController.orValue("") == "node-firmware-operator"`, `e.?reportingController.orValue("") != ""`),
		operator("the operator reports about whatever is in its namespace", "events", `e.regarding.?kind.orValue("") == "Lease" && `, ""),
		pod("a pod of a job has what the daemons have not", "&& !(k in variables.model && object.spec[k] == variables.model[k])", "&& k in variables.model && object.spec[k] != variables.model[k]"),
		pod("a pod of a job lacks what the daemons have", "!(k in variables.ownOfPod) && !(k in object.spec)", "!(k in variables.ownOfPod) && false"),
		pod("a container of a job has what the daemon has not", "!(k in variables.daemon && variables.job[k] == variables.daemon[k])",
			"(k in variables.daemon && variables.job[k] != variables.daemon[k])"),
		pod("a container of a job lacks what the daemon has", "&& !(k in variables.absent) && !(k in variables.job)", "&& k in variables.absent && !(k in variables.job)"),
		pod("a probe of the daemon ends the pod of a job", "&& (k in variables.absent || !(", "&& (k == 'x' || !("),
		pod("a pod of a job is owned by another node", "&& o.name == object.spec.nodeName &&", "&&"),
		policy("a daemon writes the objects of another node", "expression: object == null || variables.objectNode == variables.claim",
			"expression: object == null || variables.claim != ''"),
		policy("a daemon deletes the objects of another node", "expression: oldObject == null || variables.oldObjectNode == variables.claim",
			"expression: oldObject == null || variables.claim != ''"),
		policy("a daemon chooses firmware", " && !has(object.spec.firmware) && !has(object.spec.configuration) && !has(object.spec.origin))", ")"),
		policy("a daemon changes a spec that a role lets it change", "|| request.operation != 'UPDATE' || variables.isStatus\"", "|| request.operation != 'UPDATE' || true\""),
		policy("a daemon admits its own job", "|| variables.operatorConditions == variables.oldOperatorConditions\"", "|| variables.operatorConditions.size() < 9\""),
		policy("a daemon takes the names that another node needs",
			`object != null && (object.metadata.name == variables.claim`, `object != null && (object.metadata.name != variables.claim`),
		{What: "a daemon takes the name of the BIOS of a node that is named as its devices begin", File: own, Packages: []string{"deploy"},
			Old: ` && object.metadata.name != p + "bios"`, New: ``, Run: "^TestEveryoneStaysInTheirRole$/^node-firmware-system$/^a_take_the_name"},
		rule("a job moves to another node", "firmwarejobs", "TestFirmwareJobValidation",
			"message: nodeName is immutable\n                  rule: self == oldSelf", "message: nodeName is immutable\n                  rule: size(self) > 0"),
		rule("a job is edited to do something else", "firmwarejobs", "TestRequireValidation",
			"message: task is immutable; create a new job\n                  rule: self == oldSelf", "message: task is immutable; create a new job\n                  rule: self.type == oldSelf.type"),
		rule("a cancellation is taken back", "firmwarejobs", "TestFirmwareJobValidation",
			"'!has(oldSelf.cancel) || has(self.cancel)'", "'!has(oldSelf.cancel) || has(self.task)'"),
		rule("a job of type Steps has devices", "firmwarejobs", "TestStepsJobValidation",
			"self.type == 'Backup' || has(self.devices)", "self.type in ['Backup', 'Steps'] || has(self.devices)"),
		rule("the path of an image leads out of its archive", "firmwaresources", "TestFirmwareSourceValidation",
			" && !self.matches('(^|/)[.][.](/|$)')", ""),
		rule("an address carries a password", "firmwaresources", "TestFirmwareSourceValidation",
			"|| !self.matches('^[a-z]+://[^/]*@')", "|| !self.matches('^@')"),
		rule("an edge leads from a version to itself", "firmwaresources", "TestUpgradePathsValidation",
			"|| !(self.to in self.from) && ", "|| "),
		rule("a device moves to another node", "nodedevices", "TestNodeDeviceValidation", "rule: self == oldSelf", "rule: size(self) > 0"),
		rule("a machine is chosen by nothing", "firmwaretemplates", "TestFirmwareTemplateValidation",
			"rule: has(self.vendor) || has(self.model)", "rule: 'true'"),
		rule("settings come from nobody", "nodedevices", "TestDeviceConfigurationValidation",
			"(has(self.firmware) || has(self.configuration)) == has(self.origin)", "has(self.origin) || !has(self.firmware)"),
		rule("a rule of settings says nothing", "configurationtemplates", "TestConfigurationTemplateValidation",
			"has(self.settings) || has(self.parameters) ||", "has(self.settings) || has(self.policy) ||"),
		rule("parameters fill a device", "configurationtemplates", "TestConfigurationTemplateValidation", "<= 16384", "<= 26384"),
		rule("a pin is for the devices of every vendor by accident", "nodefirmwares", "TestNodeFirmwareValidation",
			"rule: self.class == 'BIOS' || has(self.vendor) ", "rule: self.class != '' || has(self.vendor) "),
		rule("a budget is more than all", "rolloutpolicies", "TestRolloutPolicyValidation", "(100|[1-9]?[0-9])%$''))", "([1-9]?[0-9]|[1-9][0-9][0-9])%$''))"),
	}
}
