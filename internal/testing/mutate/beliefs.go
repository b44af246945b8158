package mutate

// beliefs are defects of what is believed of a node, and of requests of a person.
func beliefs() []Mutant {
	const (
		set       = "internal/quarantine/set.go"
		report    = "internal/quarantine/report.go"
		clearance = "pkg/plan/clearance.go"
		retry     = "internal/controller/planner/retry.go"
	)
	return []Mutant{
		{What: "the report of a job that was never admitted is believed", File: report, Old: "if !j.Admitted() {", New: "if j.Admitted() && !j.Admitted() {"},
		{What: "a device without a model has its image quarantined", File: report, Old: ` || u.Model == ""`, New: ""},
		{What: "blame of another device is believed", File: report, Old: "u.Name != blamed.Device || ", New: ""},
		{What: "one node quarantines for the fleet", File: set, Old: "fleet || len(nodes) > 1 && len(sure) > 0:", New: "fleet || len(sure) > 0:"},
		{What: "a second node confirms nothing", File: set, Old: "fleet || len(nodes) > 1 && len(sure) > 0:", New: "fleet:"},
		{What: "a node that missed its network quarantines alone", File: set, Old: "len(sure) > 0 || len(nodes) > 1:", New: "len(nodes) > 0:"},
		{What: "a quarantine of a policy is for every policy", File: set, Old: `pool == "" || slices.Contains(e.Policies, pool)`, New: "true"},
		{What: "a lift covers what is reported after it", File: set, Old: "if len(m.Reports) >= maxReports || m.ReportsNotListed > 0 {",
			New: "if len(m.Reports) >= 0 {"},
		{What: "a quarantine that is listed goes where room is scarce", File: "internal/quarantine/size.go", Old: "if !is && cost > room {", New: "if _ = is; cost > room {"},
		{What: "a report that blocks a policy goes where room is scarce", File: "internal/quarantine/size.go",
			Old: "if first(r) || e.Scope != v1alpha1.QuarantineFleet && had(r) {", New: `if first(r) || e.Scope == "never" && had(r) {`},
		{What: "what was lifted is quarantined again", File: set, Old: "if needed[job] && len(e.Lifted) < maxLifted {", New: "if needed[job] && len(e.Lifted) < 0 {"},
		{What: "a request clears what failed under it", File: clearance, Old: "(under == nil || string(c) != *under)", New: "true"},
		{What: "the removal of a request is one", File: clearance, Old: `c != "" && (`, New: `(`},
		{What: "a pause after a failure is counted by the clock of the node", File: retry,
			Old: "f.failed[j.UID].Add(", New: "j.Status.CompletionTime.Add("},
	}
}
