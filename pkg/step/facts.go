package step

import (
	"cmp"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Facts is what was read in this pass.
type Facts struct {
	// BootID of the running kernel; never empty.
	BootID string
	// Devices holds the state of the devices of Wanted, by name.
	Devices map[string]Device
	// Maintenance is the state of the node's maintenance.
	Maintenance Maintenance
	// MaintenanceMessage explains it, for people.
	MaintenanceMessage string
	// Unhealthy lists what is worse than before the job. If HealthKnown is set, nil means that nothing is.
	Unhealthy   []Complaint
	HealthKnown bool
	// HealthMessage says why the health is not known, for people.
	HealthMessage string
	// Clean is how long every check of the health gate has found nothing worse; Complaining is how long every check has found something.
	Clean, Complaining time.Duration
	// Isolation is what is known while the API server cannot be asked; nil while it answers. Unhealthy then lists what is
	// worse on the host itself.
	Isolation *Isolation
	// Interrupted says that no process waits for the attempt of the current step any more: the process that began it
	// died or stopped waiting.
	Interrupted bool
	// Waited is how long this process has waited at the current step, by the monotonic clock: since the step became
	// current, or since its attempt ended.
	Waited time.Duration
	// Cancel is the reason why a person cancelled the job; nil when there was no cancellation.
	Cancel *string
	// CancelForce says that the cancellation begins no further round and no repetition of a step that is not part of every update. CancelGrace
	// says that a running step that may be interrupted still has time to end by itself.
	CancelForce, CancelGrace bool
	// Drivers are the versions of the drivers of this process by name.
	Drivers map[string]string
	// Boot is how long this boot took, and BootBefore how long the one before the job.
	Boot, BootBefore BootTime
	// OtherKernel is the release of the kernel that runs and of that before the job, for people; empty where they are the same or
	// not known.
	OtherKernel string
	// Kexec says that the running kernel was started by the one before it, which resets no hardware, and the one before the job was not.
	Kexec bool
	// Expired says that the job's deadline for the first write has passed.
	Expired bool
	// Unasked says that it is not known whether a person cancelled the job while this process did not run.
	Unasked bool
}

// Isolation is the state of a host that cannot ask the API server.
type Isolation struct {
	// Message says why the API server cannot be asked, for people.
	Message string
	// Reached says that it could be asked in this job, before anything was changed.
	Reached bool
	// Lasted is for how long the API server could not be asked while the host had a complaint that a device that
	// the job changed may explain. Looks without a complaint interrupt it only once they have lasted for Limits.Soak.
	Lasted time.Duration
	// Until is when Limits.Isolation ends, for people; zero while Lasted is zero.
	Until time.Time
}

// Device is the current state of one device.
type Device struct {
	// Missing says that no device with the unique id of the update exists.
	Missing bool
	// Unreadable says why a device that exists could not be read; empty when it was read.
	Unreadable string
	// Running and Stored are as in inventory.Firmware.
	Running, Stored inventory.Version
	// Slots are the versions in the slots of a device that has several.
	Slots []inventory.Version
	// Activation is what a newly stored image needs before it runs; ActivationMessage says why it is not less.
	Activation        inventory.Activation
	ActivationMessage string
	// Refusal is the device's own report of why it did not take the last image; empty when it reports none.
	Refusal string
	// Settings is the state of the settings that the current step is about; zero where it is about none.
	Settings Settings
	// Hold says why the device must not be disturbed now, such as that its array is degraded; empty when it may be.
	Hold string
	// WriteRunning says that a write to the device is running, by whichever process; Writer names that process, for
	// people.
	WriteRunning bool
	Writer       string
}

// Settings is what a device has of the settings that a step is about.
type Settings struct {
	// Unread says why they could not be read; empty when they were.
	Unread string
	// Unset lists those that are not in force, with what the device has instead, for people. Unstored are those of them that no activation
	// brings into force, and Need is the activation that the others need. Unreported counts those of Unstored of which the device does not
	// say what it stores.
	Unset, Unstored []string
	Need            inventory.Activation
	Unreported      int
	// Doubted says that the device does not report whether all that it stores is in force. DoubtedNeed is what brings into force what a job
	// may have stored of that, and no health gate has found good since.
	Doubted     bool
	DoubtedNeed inventory.Activation
	// Lost says that all of Unset are lost at each boot. Quiet says that bringing them into force needs no activation and disturbs nothing
	// that runs on the node.
	Lost, Quiet bool
	// Used says that the device does not take the settings because something uses it that a drain may move; empty where that is not so. It is
	// known before the maintenance and before the first write.
	Used string
}

// Maintenance is the state of the node's maintenance.
type Maintenance int

// The states of the maintenance.
const (
	// MaintenanceUnknown: it could not be read, for example because the API server is unreachable.
	MaintenanceUnknown Maintenance = iota
	// MaintenanceNone: the product holds no maintenance.
	MaintenanceNone
	// MaintenanceRequested: it is requested and not ready yet.
	MaintenanceRequested
	// MaintenanceReady: the node is out of service and drained.
	MaintenanceReady
	// MaintenanceBroken: it is declared ready, and the node is in service: somebody took it back, or it was registered again.
	MaintenanceBroken
	// MaintenanceEnding: it is being ended, by the product or by somebody else.
	MaintenanceEnding
	// MaintenanceNotInstalled: the cluster has no maintenance API, so nothing may proceed.
	MaintenanceNotInstalled
)

// Limits bound how long a job waits for something.
type Limits struct {
	// Read is how long a device may be missing or unreadable, as after a reset or reboot.
	Read time.Duration
	// Reboot is how long a requested reboot may take to begin.
	Reboot time.Duration
	// Health is how long the host may take to become as healthy as it was, while the API server can be asked.
	Health time.Duration
	// Soak is how long every check must find the host healthy before the gate passes; zero means a single check.
	Soak time.Duration
	// Isolation is how long a host that its update may have cut off waits for the API server before it rolls back.
	Isolation time.Duration
	// Boot is how long the host may take from the start of its kernel until its own services can start; zero for no
	// limit. The start of this process does not count, because it may have waited for an API server or a registry.
	Boot time.Duration
	// Maintenance is how long a maintenance that was ready may be unready during a job.
	Maintenance time.Duration
}

// DefaultLimits returns the limits for production.
func DefaultLimits() Limits {
	return Limits{
		Read: 2 * time.Minute, Reboot: 15 * time.Minute, Health: 10 * time.Minute, Boot: 30 * time.Minute,
		Maintenance: 10 * time.Minute, Isolation: 10 * time.Minute,
	}
}

// Wanted returns the names of the devices that must be read before Next is called.
func Wanted(r Record) []string {
	if r.rollbackDue() {
		return r.Failure.Blames
	}
	i := r.Current()
	if i < 0 {
		return nil
	}
	switch s := r.Steps[i]; {
	case s.Device != "" && !r.begins(s):
		return []string{s.Device}
	case r.begins(s), s.Kind == plan.Maintenance && s.State == Pending, s.Kind == plan.Reboot && (s.State == Pending || refused(s)):
		var all []string
		for _, u := range r.Updates {
			all = append(all, u.Device)
		}
		return all
	}
	return nil
}

// begins reports whether the step would be the first that writes, before which all devices are asked whether they take their settings.
func (r Record) begins(s Step) bool {
	return (s.Kind == plan.Flash || s.Kind == plan.Configure) && s.State == Pending && !s.Rollback && !r.Wrote()
}

// runsNothingBut reports whether the device runs the version and stores no other.
func (d Device) runsNothingBut(v inventory.Version) bool {
	return v != "" && d.answers() && d.settled(v)
}

// holds is the version the device will run after its activation, empty when it does not report one.
func (d Device) holds() inventory.Version { return cmp.Or(d.Stored, d.Running) }

// settled reports whether the device runs the version and nothing else waits to be activated.
func (d Device) settled(v inventory.Version) bool {
	return d.answers() && d.Running == v && d.holds() == v
}

// busy is the message that a write is running.
func (d Device) busy() string {
	if d.Writer == "" {
		return "a write to the device is still running; it is never killed"
	}
	return "a write to the device is still running (" + d.Writer + "); it is never killed"
}

// answers reports whether the device exists and could be read.
func (d Device) answers() bool { return !d.Missing && d.Unreadable == "" }

// configured reports whether the settings of the step are in force, as far as the device reports that and nothing may still wait in it.
func (d Device) configured() bool {
	return d.answers() && d.Settings.Unread == "" && len(d.Settings.Unset) == 0 && d.Settings.DoubtedNeed == inventory.ActivateNone
}

// enforced reports whether all settings that the device stores are known to be in force.
func (d Device) enforced() bool {
	s := d.Settings
	return d.answers() && s.Unread == "" && !s.Doubted && len(s.Unset) == len(s.Unstored)
}

// complaint says why a device does not answer.
func (d Device) complaint() string {
	if d.Missing {
		return "the device is gone or other hardware is in its place"
	}
	return "the device cannot be read: " + d.Unreadable
}
