package step

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Record is what the journal says of the execution of one job.
type Record struct {
	// Updates are the targets, one a device.
	Updates []Update `json:"updates"`
	// Steps in the order they run.
	Steps []Step `json:"steps"`
	// Inherited says that the node was already held in maintenance by an earlier job that failed.
	Inherited bool `json:"inherited,omitempty"`
	// Failure is why the job failed; nil while it has not.
	Failure *Failure `json:"failure,omitempty"`
	// Released says that a person asked to return the held node to service.
	Released bool `json:"released,omitempty"`
	// Outcome is empty until the job has finished. A held job has finished too.
	Outcome Outcome `json:"outcome,omitempty"`
}

// Outcome says how a job ended.
type Outcome string

// The outcomes.
const (
	// Complete: every device was read back at its target and the host is as healthy as before.
	Complete Outcome = "Complete"
	// Failed: the target was not reached. Failure says why, and whether the node is held.
	Failed Outcome = "Failed"
)

// Update is the target of one device.
type Update struct {
	Device  string            `json:"device"`
	Version inventory.Version `json:"version"`
	// Needs is what the stored image still needs before it runs. It is known once the flash step is settled.
	Needs inventory.Activation `json:"needs,omitempty"`
}

// State is where a step stands.
type State string

// The states of a step. They are those of the API.
const (
	Pending   State = "Pending"
	Running   State = "Running"
	Succeeded State = "Succeeded"
	StepFault State = "Failed"
	Skipped   State = "Skipped"
)

// Step is one step with its history.
type Step struct {
	plan.Step
	State State `json:"state"`
	// Attempt counts how often the step was begun. It only grows.
	Attempt int32 `json:"attempt,omitempty"`
	// BootID under which the step was begun or settled first.
	BootID string `json:"bootID,omitempty"`
	// Started and Finished are the times of the last attempt.
	Started  *time.Time `json:"started,omitempty"`
	Finished *time.Time `json:"finished,omitempty"`
	Message  string     `json:"message,omitempty"`
	// Returned is what the last attempt returned; nil while it runs, and for ever when the process died meanwhile.
	Returned *Returned `json:"returned,omitempty"`
}

// Returned is what an attempt of a step said. It is a claim: the hardware is read before it is believed.
type Returned struct {
	// Failure is nil when the attempt claims to have succeeded.
	Failure *Failure `json:"failure,omitempty"`
	// Again says that the step did nothing yet and is worth trying again, such as when an image cannot be fetched.
	Again bool `json:"again,omitempty"`
	// Needs is what a flashed image, or one an activation was tried on, still needs before it runs.
	Needs inventory.Activation `json:"needs,omitempty"`
}

// Failure is why a job or an attempt of a step failed.
type Failure struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Step and Device name where it happened; Device is empty where no single device is to blame.
	Step   plan.Kind `json:"step"`
	Device string    `json:"device,omitempty"`
	// Held says that the node stays in maintenance until a person releases it or a newer job takes over.
	Held bool `json:"held,omitempty"`
}

// Reason names why a job failed. The values are the condition reasons of the API.
type Reason string

// The reasons.
const (
	ImageRejected          Reason = "ImageRejected"
	ImageUnavailable       Reason = "ImageUnavailable"
	DeviceChanged          Reason = "DeviceChanged"
	ReadFailed             Reason = "ReadFailed"
	NotUpdatable           Reason = "NotUpdatable"
	DowngradeForbidden     Reason = "DowngradeForbidden"
	MaintenanceUnavailable Reason = "MaintenanceUnavailable"
	MaintenanceLost        Reason = "MaintenanceLost"
	WriteFailed            Reason = "WriteFailed"
	ActivationFailed       Reason = "ActivationFailed"
	RebootFailed           Reason = "RebootFailed"
	VerifyFailed           Reason = "VerifyFailed"
	Unhealthy              Reason = "Unhealthy"
	TimedOut               Reason = "TimedOut"
	PowerCycleRequired     Reason = "PowerCycleRequired"
	Cancelled              Reason = "Cancelled"
)

// New makes the record of a job that has not begun.
func New(targets []plan.Target, versions map[string]inventory.Version) Record {
	var r Record
	for _, t := range targets {
		r.Updates = append(r.Updates, Update{Device: t.Device, Version: versions[t.Device]})
	}
	for _, s := range plan.Steps(targets) {
		r.Steps = append(r.Steps, Step{Step: s, State: Pending})
	}
	return r
}

// Clone shares nothing with r that Apply or Report change.
func (r Record) Clone() Record {
	r.Updates = append([]Update(nil), r.Updates...)
	r.Steps = append([]Step(nil), r.Steps...)
	return r
}

// Current is the index of the step that runs or is to run next, or -1 when there is none. After a failure it is the
// release where the node is to be returned to service, and the rest of the verification where that failed.
func (r Record) Current() int {
	if r.Outcome != "" {
		return -1
	}
	for i, s := range r.Steps {
		if s.State != Pending && s.State != Running {
			continue
		}
		if r.Failure == nil || r.runsAfterFailure(s.Kind) {
			return i
		}
	}
	return -1
}

// runsAfterFailure: the remaining devices are read back though one of them failed, so that what is true of them is
// known; and a node that is not held is released.
func (r Record) runsAfterFailure(k plan.Kind) bool {
	switch k {
	case plan.Verify:
		return r.Failure.Step == plan.Verify
	case plan.Release:
		return (!r.Failure.Held || r.Released) && (r.began(plan.Maintenance) || r.Inherited)
	}
	return false
}

// Wrote reports whether a step that changes a device or the host was begun.
func (r Record) Wrote() bool {
	for _, s := range r.Steps {
		if s.Writes() && s.Attempt > 0 {
			return true
		}
	}
	return false
}

// Reboots is how often the job asked for a reboot and got it.
func (r Record) Reboots() int {
	if s := r.step(plan.Reboot); s != nil && s.State == Succeeded {
		return 1
	}
	return 0
}

// InMaintenance reports whether the job holds the maintenance, or an earlier one held it for this job.
func (r Record) InMaintenance() bool {
	s := r.step(plan.Maintenance)
	return r.Inherited || s != nil && s.State == Succeeded
}

func (r Record) began(k plan.Kind) bool {
	s := r.step(k)
	return s != nil && s.Attempt > 0
}

func (r Record) step(k plan.Kind) *Step {
	for i := range r.Steps {
		if r.Steps[i].Kind == k {
			return &r.Steps[i]
		}
	}
	return nil
}

func (r Record) flashOf(device string) *Step {
	for i := range r.Steps {
		if r.Steps[i].Kind == plan.Flash && r.Steps[i].Device == device {
			return &r.Steps[i]
		}
	}
	return nil
}

func (r Record) update(device string) *Update {
	for i := range r.Updates {
		if r.Updates[i].Device == device {
			return &r.Updates[i]
		}
	}
	return nil
}
