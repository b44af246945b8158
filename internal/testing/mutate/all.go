package mutate

import "slices"

// All lists the defects that the tests must notice.
func All() []Mutant {
	return slices.Concat(plans(), matches(), schedules(), rollouts(), queues(), views(), provenances(), drains(), doors(), cordons(), signals(), steps(), gates(), admissions(), beliefs(), settings(), erasures(), configurations(), tools(), wirings(), traces(), versions())
}
