package step

import (
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Record is the journal's record of the execution of one job.
type Record struct {
	// Updates are the targets, one per device.
	Updates []Update `json:"updates"`
	// Steps in the order they run.
	Steps []Step `json:"steps"`
	// Inherited says that the node was already held in maintenance by an earlier job that failed.
	Inherited bool `json:"inherited,omitempty"`
	// UnderHold says that an earlier job holds the node and keeps holding it: this job does not return the node to
	// service.
	UnderHold bool `json:"underHold,omitempty"`
	// InService says that the node stays in service, because what the job changes needs no activation and disturbs nothing.
	InService bool `json:"inService,omitempty"`
	// RollbackRequired refuses the job when the running firmware of one of its devices could not be restored.
	RollbackRequired bool `json:"rollbackRequired,omitempty"`
	// Failure is why the job failed; nil while it has not.
	Failure *Failure `json:"failure,omitempty"`
	// Rollback is the state of the rollback; nil when there was none.
	Rollback *Rollback `json:"rollback,omitempty"`
	// Verdict is the last result of the health gate, nil when there is none. Nothing else writes it.
	Verdict *Verdict `json:"verdict,omitempty"`
	// RebootFor is the boot id under which a step requested a reboot; empty when none did.
	RebootFor string `json:"rebootFor,omitempty"`
	// SecondBoot says that the host was asked to reboot once more, because a device had not taken its image at the boot before, or with
	// SlowBoot because that boot was slow. Rebooted counts the reboots of the job until then.
	SecondBoot bool `json:"secondBoot,omitempty"`
	SlowBoot   bool `json:"slowBoot,omitempty"`
	Rebooted   int  `json:"rebooted,omitempty"`
	// Restarts counts how often the list of steps was restarted because a driver had changed.
	Restarts int32 `json:"restarts,omitempty"`
	// Released says that a person asked to return the held node to service.
	Released bool `json:"released,omitempty"`
	// Outcome is empty until the job has finished. A held job has finished too.
	Outcome Outcome `json:"outcome,omitempty"`
}

// Outcome says how a job ended.
type Outcome string

// The outcomes.
const (
	// Complete: every device reports its target version and the host is as healthy as before.
	Complete Outcome = "Complete"
	// Failed: the target was not reached. Failure says why, and whether the node is held.
	Failed Outcome = "Failed"
)

// Update is the target of one device.
type Update struct {
	Device string          `json:"device"`
	Class  inventory.Class `json:"class,omitempty"`
	// Version that should run; empty where the device gets settings only.
	Version inventory.Version `json:"version"`
	// Settings says that the device gets settings. NoUndo says why those that it had cannot be given back, for people; empty where they
	// can be, and until the preflight is settled.
	Settings bool   `json:"settings,omitempty"`
	NoUndo   string `json:"noUndo,omitempty"`
	// Reconfigured says that the settings were stored once more, because they were not in force when they were read back, and UndoneAgain that those
	// which the device had were.
	Reconfigured bool `json:"reconfigured,omitempty"`
	UndoneAgain  bool `json:"undoneAgain,omitempty"`
	// Needs is what the stored image, or settings, still need before they are in force. It is known once these are stored.
	Needs inventory.Activation `json:"needs,omitempty"`
	// From is the version a rollback restores, and Rollback the way to do it: None while that is not known and when it
	// is not possible. RollbackMessage says why, for people. They are known once the archive step is settled.
	From            inventory.Version  `json:"from,omitempty"`
	Rollback        inventory.Rollback `json:"rollback,omitempty"`
	RollbackMessage string             `json:"rollbackMessage,omitempty"`
	// Driver and DriverVersion name the driver that checked the image; empty until the preflight is settled.
	Driver        string `json:"driver,omitempty"`
	DriverVersion string `json:"driverVersion,omitempty"`
}

// Rollback is the state of a job's rollback. It is tried once.
type Rollback struct {
	// Devices that are rolled back; empty when that was not possible.
	Devices []string `json:"devices,omitempty"`
	// Failure is why the previous firmware could not be restored, or why the host is unhealthy with it too. A person
	// then has to act. Nil otherwise.
	Failure *Failure `json:"failure,omitempty"`
	// Done says that the previous firmware runs again and the host is healthy.
	Done bool `json:"done,omitempty"`
}

// Verdict is the result of a health gate.
type Verdict struct {
	Healthy bool `json:"healthy"`
	// BootID of the boot in which the host was checked. The verdict says nothing about another boot.
	BootID string    `json:"bootID"`
	Time   time.Time `json:"time"`
	// Complaints lists what is worse than before. A healthy host has none but that it boots slowly.
	Complaints []Complaint `json:"complaints,omitempty"`
}

// Complaint is one thing that is worse than before the job.
type Complaint struct {
	// Device of the job it concerns; empty if it concerns the host, or a device that is not part of the job.
	Device  string `json:"device,omitempty"`
	Message string `json:"message"`
	// Subject tells the complaint from others, and Class is that of the device it is about; empty where that is the host.
	Subject Subject         `json:"subject,omitzero"`
	Class   inventory.Class `json:"class,omitempty"`
	// Before says that it was wrong before the job already.
	Before bool `json:"before,omitempty"`
}

// ofHost reports whether the complaint is about the node as a whole and no device.
func (c Complaint) ofHost() bool { return c.Device == "" && c.Class == "" }

// Subject is what a complaint is about. Complaints about one subject are the same complaint, however their messages differ.
type Subject struct {
	Kind SubjectKind `json:"kind"`
	// Of is the unique id of the device; empty where it is about none. Name tells several of a kind apart: the address of a link
	// or of a gateway, the name of an executable.
	Of   string `json:"of,omitempty"`
	Name string `json:"name,omitempty"`
}

// SubjectKind is what a subject is.
type SubjectKind string

// The kinds of subjects.
const (
	// DeviceSubject: the device is gone or cannot be read, which includes all else about it.
	DeviceSubject SubjectKind = "Device"
	// VersionSubject: the device does not run the version that it should.
	VersionSubject SubjectKind = "Version"
	LinkSubject    SubjectKind = "Link"
	GatewaySubject SubjectKind = "Gateway"
	// ArraySubject has no name, because a reboot may change that.
	ArraySubject SubjectKind = "Array"
	ReadySubject SubjectKind = "Ready"
	CheckSubject SubjectKind = "Check"
	BootSubject  SubjectKind = "Boot"
)

// network reports whether something outside the host, such as a switch, explains a complaint about it too.
func (s Subject) network() bool { return s.Kind == LinkSubject || s.Kind == GatewaySubject }

// covers reports whether a complaint about it leaves open that one about the other has ended.
func (s Subject) covers(o Subject) bool {
	return s == o || s.Kind == DeviceSubject && s.Of == o.Of && o.Of != ""
}

// Evidence says what a failure is based on.
type Evidence string

const (
	// OfDevice is the zero value. It means that a device that the job changed is worse.
	OfDevice Evidence = ""
	// Network means that only the network of such a device is missing, which may have a cause outside the host.
	Network Evidence = "Network"
	// OfNode means that nothing names such a device.
	OfNode Evidence = "Node"
)

// State is the state of a step.
type State string

// The states of a step, as in the API.
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
	// Interruptions counts those attempts that were begun because the end of the one before is not known. It only grows.
	Interruptions int32 `json:"interruptions,omitempty"`
	// BootID of the boot in which the step was first begun or settled.
	BootID string `json:"bootID,omitempty"`
	// Started and Finished are the times of the last attempt.
	Started  *time.Time `json:"started,omitempty"`
	Finished *time.Time `json:"finished,omitempty"`
	Message  string     `json:"message,omitempty"`
	// Returned is the result of the last attempt; nil while it runs, and for good if the process died meanwhile.
	Returned *Returned `json:"returned,omitempty"`
	// Data is what the step keeps for its next attempt, across reboots too.
	Data []byte `json:"data,omitempty"`
	// Lasting says that what the step began goes on by itself: beginning it again only looks at that.
	Lasting bool `json:"lasting,omitempty"`
}

// interrupted reports whether beginning the step now repeats an attempt, and is no further round of it.
func (s Step) interrupted() bool {
	return s.State == Running && !s.Lasting && (s.Returned == nil || !s.Returned.Again)
}

// erasing reports whether the step's drive was told to erase itself, or may have been, and is not known to be done.
func (s Step) erasing() bool {
	unknown := len(s.Data) > 0 && s.Returned == nil
	return s.Kind == plan.Erase && s.unfinished() && (s.Lasting || unknown)
}

func (s Step) unfinished() bool { return s.State == Pending || s.State == Running }

// Followed reports whether the step only follows what its drive does by itself, which nothing stops.
func (s Step) Followed() bool { return s.Kind == plan.Erase && s.State == Running && s.Lasting }

// outOfService reports whether a step that is not part of every update runs only while the node is out of service.
func (s Step) outOfService() bool { return s.Changes || s.OutOfService }

// Returned is the result of an attempt of a step. It is only a claim: the hardware is read to confirm it.
type Returned struct {
	// Failure is nil when the attempt claims to have succeeded.
	Failure *Failure `json:"failure,omitempty"`
	// Again says that the step has done nothing yet and can be tried again, for example when an image cannot be
	// fetched.
	Again bool `json:"again,omitempty"`
	// Needs is the activation an image still needs before it runs, after a flash or an attempted activation.
	Needs inventory.Activation `json:"needs,omitempty"`
	// From, Rollback and RollbackMessage are as in Update, for an archive step.
	From            inventory.Version  `json:"from,omitempty"`
	Rollback        inventory.Rollback `json:"rollback,omitempty"`
	RollbackMessage string             `json:"rollbackMessage,omitempty"`
	// Drivers are the devices' drivers by device name, for a preflight.
	Drivers map[string]Driver `json:"drivers,omitempty"`
	// NoUndo holds that of Update by device name, for a preflight.
	NoUndo map[string]string `json:"noUndo,omitempty"`
	// Data, Reboot and Message are for steps that are not part of every update: what the step keeps for its next
	// attempt, that the host has to reboot for it to take effect, and what it found. With Again and without a Failure
	// the step is begun once more. Of an activation, Message is why it was not made as the device declared; of settings, which of them
	// wait for the new firmware.
	Data    []byte `json:"data,omitempty"`
	Reboot  bool   `json:"reboot,omitempty"`
	Message string `json:"message,omitempty"`
	// Lasting, with Again, is that of Step from now on.
	Lasting bool `json:"lasting,omitempty"`
}

// Driver names the driver of a device.
type Driver struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Failure is why a job or an attempt of a step failed.
type Failure struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Step and Device name where it happened; Device is empty when no single device is to blame.
	Step   plan.Kind `json:"step"`
	Device string    `json:"device,omitempty"`
	// Held says that the node stays in maintenance until a person releases it or a newer job takes over.
	Held bool `json:"held,omitempty"`
	// Blames lists the devices whose new firmware is or may be at fault. It is empty when the failure says nothing
	// about the flashed images.
	Blames []string `json:"blames,omitempty"`
	// Settings says that it is about the settings of Device, and says nothing about its image.
	Settings bool `json:"settings,omitempty"`
	// Evidence is what Blames is based on.
	Evidence Evidence `json:"evidence,omitempty"`
	// Complaints of the health gate that failed.
	Complaints []Complaint `json:"complaints,omitempty"`
}

// Reason names why a job failed. The values are the condition reasons of the API.
type Reason string

// The reasons.
const (
	ImageRejected          Reason = "ImageRejected"
	ParameterInvalid       Reason = "ParameterInvalid"
	ImageUnavailable       Reason = "ImageUnavailable"
	SignatureMissing       Reason = "SignatureMissing"
	SignatureInvalid       Reason = "SignatureInvalid"
	SignatureUntrusted     Reason = "SignatureUntrusted"
	StorageFailed          Reason = "StorageFailed"
	JobRejected            Reason = "JobRejected"
	HardwareChanged        Reason = "HardwareChanged"
	ReadFailed             Reason = "ReadFailed"
	NotUpdatable           Reason = "NotUpdatable"
	DowngradeForbidden     Reason = "DowngradeForbidden"
	MaintenanceUnavailable Reason = "MaintenanceUnavailable"
	MaintenanceLost        Reason = "MaintenanceLost"
	WriteFailed            Reason = "WriteFailed"
	WriteUnprotected       Reason = "WriteUnprotected"
	UnlockUnavailable      Reason = "UnlockUnavailable"
	ActivationFailed       Reason = "ActivationFailed"
	RebootFailed           Reason = "RebootFailed"
	VerifyFailed           Reason = "VerifyFailed"
	Unhealthy              Reason = "Unhealthy"
	UnhealthyBefore        Reason = "UnhealthyBefore"
	TimedOut               Reason = "TimedOut"
	PowerCycleRequired     Reason = "PowerCycleRequired"
	Cancelled              Reason = "Cancelled"
	ArchiveFailed          Reason = "ArchiveFailed"
	RollbackUnavailable    Reason = "RollbackUnavailable"
	Quarantined            Reason = "Quarantined"
	DeviceUnhealthy        Reason = "DeviceUnhealthy"
	AttemptsExhausted      Reason = "AttemptsExhausted"
	StepFailed             Reason = "StepFailed"
)

// Passing reports whether a failure for this reason says nothing about the image: the cause may pass, and the same update
// may be planned again without a person's request.
func (r Reason) Passing() bool {
	switch r {
	case ImageUnavailable, StorageFailed, ReadFailed, JobRejected, HardwareChanged, MaintenanceUnavailable, MaintenanceLost, TimedOut,
		UnhealthyBefore, WriteUnprotected, SignatureMissing: // the operator may have the signature later
		return true
	}
	return false
}

// New returns the record of a job that has not begun.
func New(steps []plan.Step, updates ...Update) Record {
	r := Record{Updates: updates}
	for _, s := range steps {
		r.Steps = append(r.Steps, Step{Step: s, State: Pending})
	}
	return r
}

// Refused returns the record of a job that cannot begin.
func Refused(reason Reason, message string) Record {
	return Record{Failure: &Failure{Reason: reason, Message: message, Step: plan.Preflight}}
}

// Hold returns the record of a job that runs while an earlier one holds the node.
func Hold(r Record) Record {
	r = r.Clone()
	r.UnderHold = true
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Kind == plan.Release {
			s.State, s.Message = Skipped, "an earlier job holds the node and keeps holding it"
		}
	}
	return r
}

// Clone returns a deep copy of everything that Apply and Report change.
func (r Record) Clone() Record {
	r.Updates = append([]Update(nil), r.Updates...)
	r.Steps = append([]Step(nil), r.Steps...)
	return r
}

// Current is the index of the step that runs or is to run next, or -1 when there is none. After a failure it is one of
// the remaining verification steps, of those whose drive may be erasing itself, the steps of the rollback, or the release if the node is returned to service.
func (r Record) Current() int {
	if r.Outcome != "" {
		return -1
	}
	for i, s := range r.Steps {
		if s.unfinished() && (r.Failure == nil || r.rollsBack() && s.Rollback || r.runsAfterFailure(s.Kind) || s.State == Running && s.erasing()) {
			return r.sideBySide(i)
		}
	}
	return -1
}

// sideBySide is the step that is current while the drive of step i erases itself: one whose drive is done, or was told and not looked at since, or
// else the next one that has its drive begin, so that the drives of a host erase themselves side by side.
func (r Record) sideBySide(i int) int {
	if !r.Steps[i].Followed() {
		return i
	}
	next := i
	for j := i; j < len(r.Steps) && r.Steps[j].Kind == plan.Erase; j++ {
		switch s := r.Steps[j]; {
		case s.Followed() && s.Returned != nil:
			return j
		case next == i && r.Failure == nil && s.unfinished() && !s.Followed():
			next = j
		}
	}
	return next
}

// Beside lists the steps other than i that follow what their drives do by themselves.
func (r Record) Beside(i int) []int {
	var out []int
	for j, s := range r.Steps {
		if j != i && s.Followed() {
			out = append(out, j)
		}
	}
	return out
}

// rollsBack reports whether the steps of the rollback run.
func (r Record) rollsBack() bool { return r.Rollback != nil && r.Rollback.Failure == nil }

// RolledBack reports whether the previous firmware was restored and the host is healthy with it.
func (r Record) RolledBack() bool { return r.Rollback != nil && r.Rollback.Done }

// Evidence is what the blame is based on. What was mended by the previous firmware is the firmware's doing.
func (r Record) Evidence() Evidence {
	switch {
	case r.Failure == nil:
		return OfDevice
	case r.Failure.Settings || slices.ContainsFunc(r.Failure.Blames, r.told): // which of the two it was is not known
		return OfNode
	case r.RolledBack():
		return OfDevice
	}
	return r.Failure.Evidence
}

// told reports whether the job began to change settings of the device.
func (r Record) told(device string) bool {
	s := r.configureOf(device, false)
	return s != nil && s.Attempt > 0
}

// Flashed reports whether the job changed the firmware of the device, or activated what it found stored.
func (r Record) Flashed(device string) bool {
	wrote := r.writeOf(device, false)
	return wrote != nil && (wrote.Attempt > 0 || wrote.State == Skipped && r.update(device).From != "")
}

// NeedsIntervention reports whether nothing more is done until a person acts: new firmware is at fault and the previous
// firmware could not be restored.
func (r Record) NeedsIntervention() bool {
	return r.Failure != nil && len(r.Failure.Blames) > 0 && r.Rollback != nil && r.Rollback.Failure != nil && !r.Released
}

// runsAfterFailure reports whether a step of this kind still runs after a failure: the remaining devices are read back
// so that their state is known, and a node that is not held is released.
func (r Record) runsAfterFailure(k plan.Kind) bool {
	switch k {
	case plan.Verify:
		return r.Failure.Step == plan.Verify && r.Failure.Reason != Cancelled // which nobody is to blame for
	case plan.Release:
		return (!r.Failure.Held || r.Released) && (r.began(plan.Maintenance) || r.Inherited)
	}
	return false
}

// Wrote reports whether a step that changes a device or the host was begun.
func (r Record) Wrote() bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Writes() && s.Attempt > 0 })
}

// Reboots is how often the job requested a reboot that then happened.
func (r Record) Reboots() int {
	n := r.Rebooted
	for _, s := range r.Steps {
		if s.Kind == plan.Reboot && s.State == Succeeded {
			n++
		}
	}
	return n
}

// rebootAttempts is how often the job requested a reboot, whether or not it happened.
func (r Record) rebootAttempts() int32 {
	var n int32
	for _, s := range r.Steps {
		if s.Kind == plan.Reboot {
			n += s.Attempt
		}
	}
	return n
}

// resettable reports whether a device gets firmware and settings, so that each activation of firmware may reset these and take a second one.
func (r Record) resettable() bool {
	return slices.ContainsFunc(r.Updates, func(u Update) bool { return u.Settings && u.Version != "" })
}

// mostReboots bounds how often the job requests a reboot, and updateReboots how often before its rollback.
func (r Record) mostReboots() int32 {
	if r.resettable() {
		return MaxReboots + 2
	}
	return MaxReboots
}

func (r Record) updateReboots() int32 {
	if r.resettable() {
		return MaxReboots
	}
	return MaxReboots - 1
}

// InMaintenance reports whether the job holds the maintenance, or an earlier one held it for this job.
func (r Record) InMaintenance() bool {
	s := r.step(plan.Maintenance)
	return r.Inherited || r.UnderHold || s != nil && s.State == Succeeded
}

// Cleans reports whether the job cleans the host: its steps run out of service, whether or not they change anything.
func (r Record) Cleans() bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.OutOfService })
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

// writeOf is the step that stores the device's target: the flash, or in a rollback the restore.
func (r Record) writeOf(device string, rollback bool) *Step {
	for i, s := range r.Steps {
		if (s.Kind == plan.Flash || s.Kind == plan.Restore) && s.Device == device && s.Rollback == rollback {
			return &r.Steps[i]
		}
	}
	return nil
}

// Touched reports whether the job began to change the device.
func (r Record) Touched(device string) bool {
	for _, s := range r.Steps {
		if s.Device == device && s.Writes() && s.Attempt > 0 {
			return true
		}
	}
	u := r.update(device)
	return u != nil && u.Needs != inventory.ActivateNone
}

// configureOf is the step that gives the device settings.
func (r Record) configureOf(device string, rollback bool) *Step {
	for i, s := range r.Steps {
		if s.Kind == plan.Configure && s.Device == device && s.Rollback == rollback {
			return &r.Steps[i]
		}
	}
	return nil
}

// mayHide reports whether the device may hold an image of this job that waits for activation without reporting it.
func (r Record) mayHide(device string, dev Device) bool {
	wrote := r.writeOf(device, false)
	return dev.Stored == "" && wrote != nil && wrote.Attempt > 0
}

// changed lists the updates whose firmware or settings the job began to change. Steps that are not part of an update change
// neither.
func (r Record) changed() []Update {
	var out []Update
	for _, u := range r.Updates {
		if (u.Version != "" || u.Settings) && r.Touched(u.Device) {
			out = append(out, u)
		}
	}
	return out
}

// Target returns the version the device should run when the step is done: the target or, in a rollback, the version that
// ran before.
func (r Record) Target(device string, rollback bool) inventory.Version {
	u := r.update(device)
	switch {
	case u == nil:
		return ""
	case rollback:
		return u.From
	}
	return u.Version
}

// Expected returns the version the device should run at this point of the job.
func (r Record) Expected(device string) inventory.Version {
	return r.Target(device, r.Rollback != nil && slices.Contains(r.Rollback.Devices, device))
}

func (r Record) update(device string) *Update {
	for i := range r.Updates {
		if r.Updates[i].Device == device {
			return &r.Updates[i]
		}
	}
	return nil
}
