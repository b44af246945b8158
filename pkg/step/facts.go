package step

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Facts is what was read in this pass.
type Facts struct {
	// BootID of the running kernel; never empty.
	BootID string
	// Devices holds what the devices of Wanted say, by name.
	Devices map[string]Device
	// Maintenance is how the maintenance of the node stands.
	Maintenance Maintenance
	// MaintenanceMessage says more about it, for people.
	MaintenanceMessage string
	// Unhealthy lists what is worse than before the job; nil and HealthKnown when nothing is.
	Unhealthy   []Complaint
	HealthKnown bool
	// HealthMessage says why the health is not known, for people.
	HealthMessage string
	// Interrupted says that the attempt of the current step is no longer followed by anybody: the process that began it
	// died, or stopped to wait for it.
	Interrupted bool
	// Waited is how long this process has waited at the current step, by the monotonic clock: since the step came up, or
	// since the attempt of it ended.
	Waited time.Duration
	// Cancel is the reason for which a person called the job off; nil when nobody did.
	Cancel *string
	// Drivers are the versions of the drivers of this process by name.
	Drivers map[string]string
	// Uptime is how long the kernel has been running; zero when that is not known.
	Uptime time.Duration
	// Expired says that the job's deadline for the first write has passed.
	Expired bool
}

// Device is what one device says now.
type Device struct {
	// Missing says that no device with the unique id of the update is there.
	Missing bool
	// Unreadable says why the device, which is there, could not be read; empty when it was.
	Unreadable string
	// Running and Stored are as in inventory.Firmware.
	Running, Stored inventory.Version
	// Activation is what an image that is stored now needs.
	Activation inventory.Activation
	// Refusal is the device's own account of why it did not take the last image; empty when it has none.
	Refusal string
	// WriteRunning says that a write to the device goes on, by whichever process; Writer says who writes, for people.
	WriteRunning bool
	Writer       string
}

// Maintenance says how the maintenance of the node stands.
type Maintenance int

// The states of the maintenance.
const (
	// MaintenanceUnknown: it could not be found out, such as while the API server is away.
	MaintenanceUnknown Maintenance = iota
	// MaintenanceNone: the product holds none.
	MaintenanceNone
	// MaintenanceRequested: it is asked for and not ready.
	MaintenanceRequested
	// MaintenanceReady: the node is out of service and drained.
	MaintenanceReady
	// MaintenanceEnding: it is being taken away, by the product or by somebody else.
	MaintenanceEnding
	// MaintenanceNotInstalled: the cluster has no such thing, so nothing may proceed.
	MaintenanceNotInstalled
)

// Limits bound how long something is waited for.
type Limits struct {
	// Read is how long a device may be missing or unreadable, after a reset or reboot above all.
	Read time.Duration
	// Reboot is how long a requested reboot may take to begin.
	Reboot time.Duration
	// Health is how long the host may take to become as healthy as it was.
	Health time.Duration
	// Boot is how long the host may need from the start of its kernel until this process sees it; zero for any time.
	Boot time.Duration
	// Maintenance is how long a maintenance that was ready may be not ready in the middle of a job.
	Maintenance time.Duration
}

// DefaultLimits are those of production.
func DefaultLimits() Limits {
	return Limits{
		Read: 2 * time.Minute, Reboot: 15 * time.Minute, Health: 10 * time.Minute, Boot: 30 * time.Minute,
		Maintenance: 10 * time.Minute,
	}
}

// Wanted says which devices must be read before Next is asked.
func Wanted(r Record) []string {
	if r.rollbackDue() {
		return r.Failure.Blames
	}
	i := r.Current()
	if i < 0 {
		return nil
	}
	switch s := r.Steps[i]; {
	case s.Device != "":
		return []string{s.Device}
	case (s.Kind == plan.Maintenance || s.Kind == plan.Reboot) && s.State == Pending:
		var all []string
		for _, u := range r.Updates {
			all = append(all, u.Device)
		}
		return all
	}
	return nil
}

// runsNothingBut reports whether the device runs the version and stores no other.
func (d Device) runsNothingBut(v inventory.Version) bool {
	return v != "" && d.answers() && d.settled(v)
}

// holds is the version the device will run after its activation, empty when it cannot tell.
func (d Device) holds() inventory.Version {
	if d.Stored != "" {
		return d.Stored
	}
	return d.Running
}

// settled reports whether the device runs the version and nothing else waits to be activated.
func (d Device) settled(v inventory.Version) bool {
	return d.answers() && d.Running == v && d.holds() == v
}

// busy says that a write goes on.
func (d Device) busy() string {
	if d.Writer == "" {
		return "a write to the device is still running; it is never killed"
	}
	return "a write to the device is still running (" + d.Writer + "); it is never killed"
}

// answers reports whether the device is there and could be read.
func (d Device) answers() bool { return !d.Missing && d.Unreadable == "" }

// complaint says why a device does not answer.
func (d Device) complaint() string {
	if d.Missing {
		return "the device is gone or other hardware is in its place"
	}
	return "the device cannot be read: " + d.Unreadable
}
