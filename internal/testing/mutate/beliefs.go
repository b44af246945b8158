package mutate

// beliefs are defects of what is believed of a node, and of requests of a person.
func beliefs() []Mutant {
	const (
		set       = "internal/quarantine/set.go"
		report    = "internal/quarantine/report.go"
		clearance = "pkg/plan/requested.go"
		retry     = "internal/due/updates.go"
	)
	return []Mutant{
		{What: "the report of a job that was never admitted is believed", File: report, Old: "if !j.Admitted() {", New: "if j.Admitted() && !j.Admitted() {"},
		{What: "blame of another device is believed", File: report, Old: "u.Name != blamed.Device || ", New: ""},
		{What: "what can have no quarantine is believed", File: report, Old: `v1alpha1.QuarantineName(content, u.Model) == ""`, New: "false"},
		{What: "one node quarantines for the fleet", File: set, Old: "len(nodes) > 1 && len(sure) > 0 ||", New: "len(sure) > 0 ||"},
		{What: "a second node confirms nothing", File: set, Old: "len(nodes) > 1 && len(sure) > 0 || ", New: ""},
		{What: "many jobs of one node quarantine for the fleet", File: set, Old: "len(nodes) >= maxReports:", New: "len(reports) >= maxReports:"},
		{What: "the confirmation of a person counts for nothing", File: set, Old: "state == v1alpha1.QuarantineConfirmed || ", New: ""},
		{What: "a node that missed its network quarantines alone", File: set, Old: "len(sure) > 0 || len(nodes) > 1:", New: "len(nodes) > 0:"},
		{What: "a quarantine of a policy is for every policy", File: set, Old: `pool == "" || slices.Contains(Policies(q), pool)`, New: "true"},
		{What: "a lift is taken for one as long as it is there", File: set, Old: " || q.Status.ObservedGeneration == q.Generation {", New: " {"},
		{What: "a lift covers what is reported after it", File: set, Old: "if len(listed) < maxReports {", New: "if len(listed) < 0 {"},
		{What: "a lift leaves out what the list has no room for", File: set, Old: "case at < 0 && isCovered(q.Status.Reports, r):", New: "case at < 0 && q.Name == \"\":"},
		{What: "what was lifted is quarantined again", File: set, Old: "case all[at].State == v1alpha1.ReportLifted:", New: "case all[at].State == \"\":"},
		{What: "a job that is gone takes its report back", File: set, Old: "if j := job(r.Job); j != nil && j.Failed()", New: "if j := job(r.Job); j == nil || j.Failed()"},
		{What: "another job of the same name takes a report back", File: set, Old: " && !j.CreationTimestamp.After(r.Time.Time) {", New: " {"},
		{What: "a request clears what failed under it", File: clearance, Old: "(under == nil || string(c) != *under)", New: "true"},
		{What: "the removal of a request is one", File: clearance, Old: `c != "" && (`, New: `(`},
		{What: "a pause after a failure is counted by the clock of the node", File: retry, Packages: []string{"internal/controller/planner"},
			Old: "f.Failed[j.UID].Add(", New: "j.Status.CompletionTime.Add("},
	}
}
