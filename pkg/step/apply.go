package step

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Apply returns the record that must be journalled before the action is executed. It does not change r.
func Apply(r Record, a Action, bootID string, now time.Time) Record {
	r = r.Clone()
	switch a.Verb {
	case Begin:
		s := &r.Steps[a.Step]
		if s.interrupted() {
			s.Interruptions++
		}
		s.State, s.Attempt, s.Returned, s.Message = Running, s.Attempt+1, nil, ""
		s.Started, s.Finished, s.BootID = &now, nil, bootID
	case Settle:
		r.settle(a, bootID, now)
	case RollBack:
		r.rollBack(a)
	case Restart:
		r.restart(a.Message)
	case RepeatGate:
		r.rejudge()
	case RebootAgain:
		r.SlowBoot = r.forSpeed(a)
		r.rebootAgain(a.Message, bootID)
	case ConfigureAgain:
		r.configureAgain(a)
	case Finish:
		r.Outcome = a.Outcome
		for i := range r.Steps {
			if r.Steps[i].State == Pending && (r.Failure == nil || !r.Failure.Held || r.Released || r.Steps[i].Kind != plan.Release) {
				r.Steps[i].State, r.Steps[i].Message = Skipped, "not reached"
			}
			if s := &r.Steps[i]; s.Kind == plan.Erase && s.State == Running { // it was about to tell its drive when another one failed
				s.State, s.Message, s.Finished = Skipped, "its drive was not told to erase itself", &now
			}
		}
	}
	return r
}

func (r *Record) settle(a Action, bootID string, now time.Time) {
	s := &r.Steps[a.Step]
	s.BootID = cmp.Or(s.BootID, bootID)
	s.State, s.Message = a.State, a.Message
	if s.Attempt > 0 {
		s.Finished = &now
	}
	switch s.Kind {
	case plan.Maintenance:
		r.InService = a.InService || r.InService && a.State == Skipped && r.Wrote() // its steps were begun again
	case plan.Flash, plan.Restore, plan.Activate:
		r.update(s.Device).Needs = a.Needs
	case plan.Configure:
		u := r.update(s.Device)
		u.Needs = max(u.Needs, a.Needs)
	case plan.Archive:
		if ret := s.Returned; ret != nil && a.State == Succeeded {
			u := r.update(s.Device)
			u.From, u.Rollback, u.RollbackMessage = ret.From, ret.Rollback, ret.RollbackMessage
		}
	case plan.Preflight:
		r.noteDrivers(s.Returned)
	case plan.Health:
		r.judge(a, bootID, now)
	}
	if ret := s.Returned; ret != nil && ret.Reboot {
		r.RebootFor = bootID
	}
	if a.Failure != nil {
		r.fail(a, s.Rollback)
	}
}

func (r *Record) noteDrivers(ret *Returned) {
	if ret == nil {
		return
	}
	for i := range r.Updates {
		d := ret.Drivers[r.Updates[i].Device]
		r.Updates[i].Driver, r.Updates[i].DriverVersion = d.Name, d.Version
		if ret.Failure == nil {
			r.Updates[i].NoUndo = ret.NoUndo[r.Updates[i].Device]
		}
	}
}

// judge writes the verdict of the health gate. A job that was cancelled before its gate finished has none.
func (r *Record) judge(a Action, bootID string, now time.Time) {
	if a.State == Skipped || a.Failure != nil && a.Failure.Reason != Unhealthy {
		return
	}
	r.Verdict = &Verdict{Healthy: a.State == Succeeded, BootID: bootID, Time: now, Complaints: a.Complaints}
	if r.Verdict.Healthy && r.rollsBack() {
		rollback, failure := *r.Rollback, *r.Failure
		rollback.Done, failure.Held = true, false
		r.Rollback, r.Failure = &rollback, &failure
	}
}

// rebootAgain resets the record to the reboot of the update. What was counted stays.
func (r *Record) rebootAgain(why, bootID string) {
	r.Rebooted = r.Reboots()
	r.SecondBoot, r.RebootFor = true, bootID
	for i := range r.Steps {
		if s := &r.Steps[i]; !s.Rollback && (s.Kind == plan.Reboot || s.Kind == plan.Verify || s.Kind == plan.Health) {
			s.State, s.Returned, s.BootID, s.Message = Pending, nil, "", why
		}
	}
}

// rejudge resets the record to the health gate.
func (r *Record) rejudge() {
	s := &r.Steps[r.gate()]
	s.State, s.Message = Pending, "checked again: the host has rebooted"
	for i := range r.Steps { // a boot may have taken settings
		if v := &r.Steps[i]; v.Kind == plan.Verify && v.Rollback == s.Rollback && v.State == Succeeded && r.configureOf(v.Device, v.Rollback) != nil {
			v.State, v.Message = Pending, s.Message
		}
	}
	if r.RolledBack() {
		rollback, failure := *r.Rollback, *r.Failure
		rollback.Done, failure.Held = false, true
		r.Rollback, r.Failure = &rollback, &failure
	}
}

// fail keeps the first failure; further failures of the verification only add to its blamed devices, those of drives that were followed to
// their end to its message, and the gate of the rollback says who is left of them.
func (r *Record) fail(a Action, rollback bool) {
	switch f := a.Failure; {
	case rollback:
		next := *r.Rollback
		if next.Done = false; next.Failure == nil {
			next.Failure = f
		}
		r.Rollback = &next
		held := *r.Failure
		held.Held = !r.InService
		if j := a.Judgement; j != nil {
			held.Blames, held.Evidence = j.Devices, j.Evidence
			held.Message = text.Clip(held.Message+". "+j.Message, maxMessage)
		}
		r.Failure = &held
	case r.Failure == nil:
		r.Failure = f
	default:
		more := *r.Failure
		more.Blames = append(slices.Clone(more.Blames), f.Blames...)
		if f.Step == plan.Erase {
			more.Message = text.Clip(more.Message+"; "+f.Device+": "+f.Message, maxMessage)
		}
		r.Failure = &more
	}
}

// rollBack gives up the rest of the update and appends the steps of the rollback.
func (r *Record) rollBack(a Action) {
	r.Rollback = &Rollback{Devices: a.Devices, Failure: a.Failure}
	if a.Failure != nil {
		return
	}
	update := r.Steps
	for i := range update {
		s := &r.Steps[i]
		back := Step{Step: s.Step, State: Pending}
		back.Rollback = true
		concerned := s.Device == "" || slices.Contains(a.Devices, s.Device)
		switch s.Kind {
		case plan.Flash:
			back.Kind = plan.Restore
			concerned = concerned && r.Flashed(s.Device)
			fallthrough
		case plan.Configure, plan.Activate, plan.Reboot, plan.Verify, plan.Health, plan.Release:
			if concerned {
				r.Steps = append(r.Steps, back)
			}
		}
		if s.State == Pending {
			r.Steps[i].State, r.Steps[i].Message = Skipped, "not reached"
		}
	}
	for _, d := range a.Devices {
		r.update(d).Needs = inventory.ActivateNone
	}
}

// restart starts the list of steps again. Counters are kept, and the maintenance stays held.
func (r *Record) restart(why string) {
	r.Restarts++
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Kind == plan.Maintenance && s.State == Succeeded || s.Kind == plan.Release && r.UnderHold {
			continue
		}
		s.State, s.Returned, s.Message = Pending, nil, "begun again: "+why
		if s.Kind != plan.Erase { // what was sent to a drive is never sent again
			s.Data = nil
		}
	}
	for i := range r.Updates {
		r.Updates[i].Driver, r.Updates[i].DriverVersion = "", ""
	}
}

// Report returns the record with the result of the running attempt of a step. It does not change r.
func Report(r Record, step int, ret Returned) Record {
	r = r.Clone()
	s := &r.Steps[step]
	s.Returned = &ret
	if ret.Data != nil {
		s.Data = ret.Data
	}
	s.Lasting = s.Lasting || ret.Lasting
	return r
}

// Release returns the record of a held job so that its node is returned to service.
func Release(r Record) Record {
	r = r.Clone()
	r.Released, r.Outcome = true, ""
	return r
}
