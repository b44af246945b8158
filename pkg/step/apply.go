package step

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Apply returns the record as it must be journalled before the action is acted upon. It does not change r.
func Apply(r Record, a Action, bootID string, now time.Time) Record {
	r = r.Clone()
	switch a.Verb {
	case Begin:
		s := &r.Steps[a.Step]
		s.State, s.Attempt, s.Returned, s.Message = Running, s.Attempt+1, nil, ""
		s.Started, s.Finished, s.BootID = &now, nil, bootID
	case Settle:
		r.settle(a, bootID, now)
	case Finish:
		r.Outcome = a.Outcome
		for i := range r.Steps {
			if r.Steps[i].State == Pending && (r.Failure == nil || !r.Failure.Held || r.Released || r.Steps[i].Kind != plan.Release) {
				r.Steps[i].State, r.Steps[i].Message = Skipped, "not reached"
			}
		}
	}
	return r
}

func (r *Record) settle(a Action, bootID string, now time.Time) {
	s := &r.Steps[a.Step]
	if s.BootID == "" {
		s.BootID = bootID
	}
	s.State, s.Message = a.State, a.Message
	if s.Attempt > 0 {
		s.Finished = &now
	}
	if s.Kind == plan.Flash || s.Kind == plan.Activate {
		r.update(s.Device).Needs = a.Needs
	}
	if a.Failure != nil && r.Failure == nil {
		r.Failure = a.Failure
	}
}

// Report returns the record with what the running attempt of a step returned. It does not change r.
func Report(r Record, step int, ret Returned) Record {
	r = r.Clone()
	r.Steps[step].Returned = &ret
	return r
}

// Release returns the record of a held job so that its node is returned to service.
func Release(r Record) Record {
	r = r.Clone()
	r.Released, r.Outcome = true, ""
	return r
}
