package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// EventKind says what happened.
type EventKind string

// The events of a history.
const (
	EventStart       EventKind = "daemon starts"
	EventDeath       EventKind = "daemon ends"
	EventBoot        EventKind = "host boots"
	EventFault       EventKind = "fault"
	EventSubmit      EventKind = "job is submitted"
	EventPerson      EventKind = "a person acts"
	EventSaved       EventKind = "journal is saved"
	EventRead        EventKind = "device is read"
	EventMaintenance EventKind = "maintenance is read"
	EventSchedule    EventKind = "maintenance is asked for"
	EventRelease     EventKind = "node is returned"
	EventWrite       EventKind = "write begins"
	EventRevert      EventKind = "slot is chosen"
	EventActivate    EventKind = "activation begins"
	EventConfigure   EventKind = "settings are told"
	EventTaken       EventKind = "device took it"
	EventTorn        EventKind = "write is torn"
	EventTask        EventKind = "step of a driver begins"
	EventErase       EventKind = "drive is told to erase itself"
	EventErasing     EventKind = "drive erases itself"
	EventReboot      EventKind = "reboot is asked for"
	EventRefused     EventKind = "reboot is refused"
	EventBroken      EventKind = "state is broken"
	EventAfterEnd    EventKind = "the job has ended"
	EventCutOff      EventKind = "node is cut off"
	EventReachable   EventKind = "node is reachable"
	EventGuarded     EventKind = "guard is installed"
	EventUnguarded   EventKind = "guard is removed"
	EventQuiet       EventKind = "the host is left alone"
	EventQuietOver   EventKind = "the host was left alone"
)

// returnsNode is the detail of a person's act after which the node is in service as it is.
const returnsNode = "returns the node to service"

// byKexec is the detail of a boot that reset nothing.
const byKexec = "by kexec"

// changes reports whether the event is an operation that changes a device or the host.
func (k EventKind) changes() bool {
	switch k {
	case EventWrite, EventRevert, EventConfigure, EventActivate, EventReboot, EventTask, EventErase:
		return true
	}
	return false
}

// Event is one entry of the history, with what was true at its time.
type Event struct {
	Time time.Duration
	Boot string
	// Took is how long that boot took.
	Took step.BootTime
	// Calm is when the last fault so far has ended, or will have.
	Calm time.Duration
	// Life numbers the daemon processes from 1.
	Life   int
	Kind   EventKind
	Device string
	Detail string
	// Job is the job in progress as the journal on disk has it; nil when there is none.
	Job *journal.Job
	// Record is what the journal on disk says of the device.
	Record journal.Device
	// Maintenance is an answer of the cluster.
	Maintenance step.Maintenance
	// Version was read, or is written. Digest is that of the bytes the tool is given.
	Version inventory.Version
	Digest  inventory.Digest
	// Busy devices are written by somebody at that time.
	Busy []string
	// Spec is that of a device which is changed, and Weak for how long its set of drives has had none to spare;
	// zero where the device itself has dropped out of it.
	Spec DeviceSpec
	Weak time.Duration
	// Holding are the drives that hold data, where the journal is saved.
	Holding []string
	// Archived says that the image to restore would survive a power cut now.
	Archived bool
	// Fault is what was injected.
	Fault Kind
	// Snapshot is the end of a job: what is true of host and journal.
	Snapshot *snapshot
}

// snapshot is how host and journal stood when a job ended.
type snapshot struct {
	job     journal.Job
	held    bool
	in      step.Maintenance
	stolen  bool
	guarded bool
	devices []deviceState
}

// sound reports whether nothing is wrong with the new firmware and the devices of the job.
func (s snapshot) sound() bool {
	return !slices.ContainsFunc(s.devices, func(d deviceState) bool {
		return d.gone || d.spec.Defect != drivertest.DefectNone || d.spec.Refuses || d.spec.Staged || d.spec.Unplugs
	})
}

// deviceState is what is true of one device of the job.
type deviceState struct {
	spec                      DeviceSpec
	running, stored, original inventory.Version
	// setting is in force; empty where the device has none.
	setting string
	gone    bool
	// ails says that what is wrong with the running firmware shows.
	ails bool
}

func (e Event) String() string {
	text := fmt.Sprintf("%10s %s #%d %s", e.Time.Round(time.Second), e.Boot, e.Life, e.Kind)
	if e.Device != "" {
		text += " " + e.Device
	}
	if e.Version != "" {
		text += " " + string(e.Version)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}
