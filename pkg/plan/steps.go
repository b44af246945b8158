package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Kind is the name of a step.
type Kind string

// The steps of an update, in the order they run.
const (
	// Preflight fetches and checks every image before the node is disturbed.
	Preflight Kind = "preflight"
	// Archive makes sure that what one device runs can be restored, or records that it cannot.
	Archive Kind = "archive"
	// Maintenance takes the node out of service.
	Maintenance Kind = "maintenance"
	// Flash stores the image on one device.
	Flash Kind = "flash"
	// Restore writes back to one device what ran before. In a rollback it takes the place of Flash.
	Restore Kind = "restore"
	// Configure stores settings in one device; in a rollback, those that it had before.
	Configure Kind = "configure"
	// Activate makes one device run what it stores, and puts its settings into force, where no reboot is needed for that.
	Activate Kind = "activate"
	// Reboot restarts the host once, for every device that needs it.
	Reboot Kind = "reboot"
	// Verify reads one device back.
	Verify Kind = "verify"
	// Health compares the host with its baseline. It is the only step that writes health verdicts.
	Health Kind = "health"
	// Release returns the node to service.
	Release Kind = "release"
)

// The steps that are not part of an update unless they are switched on.
const (
	// VerifyInventory compares the devices of the host with those it should have.
	VerifyInventory Kind = "verify-inventory"
	// VerifyFirmware reads one device and compares what it runs with what it should run.
	VerifyFirmware Kind = "verify-firmware"
	// ResetBIOSSettings resets the settings of the system firmware to their defaults.
	ResetBIOSSettings Kind = "reset-bios-settings"
	// Erase erases one drive. It is never part of an update.
	Erase Kind = "erase"
)

// The arguments of Erase.
const (
	// EraseSerialNumber is that of the drive, and is required.
	EraseSerialNumber = "serialNumber"
	// EraseMethod is how it is erased; absent for the first way that the drive offers.
	EraseMethod = "method"
)

// Step is one step of a job on one host.
type Step struct {
	Kind Kind `json:"kind"`
	// Device the step works on; empty for a step of the whole host.
	Device string `json:"device,omitempty"`
	// Priority orders the steps: higher runs first.
	Priority int32 `json:"priority"`
	// Rollback says that the step is part of a rollback.
	Rollback bool `json:"rollback,omitempty"`
	// Interruptible says that a cancellation ends the step at once and not right after it.
	Interruptible bool `json:"interruptible,omitempty"`
	// Task marks a step that is not part of every update, and Changes one of them that changes a device or the host.
	Task    bool `json:"task,omitempty"`
	Changes bool `json:"changes,omitempty"`
	// OutOfService says that the step runs only while the node is out of service, also where it changes nothing.
	OutOfService bool `json:"outOfService,omitempty"`
	// Deadline without progress after which a person is alerted; zero for none.
	Deadline time.Duration `json:"deadline,omitempty"`
	// Arguments are those of the request, in its order.
	Arguments []Argument `json:"arguments,omitempty"`
}

// Argument is a value that a step takes by a name.
type Argument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Writes reports whether the step changes a device or the host, so that it needs the maintenance and is not repeated
// more than once.
func (s Step) Writes() bool {
	switch s.Kind {
	case Flash, Restore, Configure, Activate, Reboot:
		return true
	}
	return s.Changes
}

// Target is one device of a job.
type Target struct {
	Device string
	Class  inventory.Class
	// Driver names the driver of the device, whose own steps apply to it too; empty for none.
	Driver string
	// Settings says that the device gets settings, and SettingsOnly that it gets no firmware.
	Settings, SettingsOnly bool
}

// gets reports whether the job does the step for the device, if it is for devices of its kind.
func (t Target) gets(k Kind) bool {
	switch k {
	case Configure:
		return t.Settings
	case Archive, Flash:
		return !t.SettingsOnly
	}
	return true
}

// HostInterface is the interface of a step that works on the whole host. The interface of a step of a device is the name of
// its class, or of the driver that adds the step.
const HostInterface = "node"

// Definition declares a step.
type Definition struct {
	Kind Kind
	// Interface is what the step belongs to: HostInterface, a device class, or the name of the driver that adds it.
	Interface string
	// Priority orders the steps: higher runs first, and 0 is switched off.
	Priority int32
	// Interruptible, Changes and Deadline are those of Step.
	Interruptible, Changes bool
	Deadline               time.Duration
	// Arguments are the names of those that the step takes; others are refused.
	Arguments []string
}

// The priorities of the steps that work on the whole host, and of the stages that steps of a device are in. In each stage
// system firmware comes first, then network adapters, then storage controllers, then drives.
const (
	priorityPreflight   = 1000
	priorityArchive     = 930
	priorityMaintenance = 900
	priorityFlash       = 800
	priorityConfigure   = 750
	priorityActivate    = 700
	priorityReboot      = 600
	priorityVerify      = 500
	priorityHealth      = 400
	priorityRelease     = 300
)

// Deadlines without progress. Nothing is killed at a deadline; a person is alerted.
const (
	shortDeadline = 10 * time.Minute
	writeDeadline = 30 * time.Minute
	// eraseDeadline is for drives that report no progress while they are overwritten.
	eraseDeadline = 4 * time.Hour
)

// Definitions are the steps of package plan with their defaults, in the order they run. Those that are switched off come
// last.
func Definitions() []Definition {
	defs := []Definition{
		{Kind: Preflight, Interface: HostInterface, Priority: priorityPreflight, Interruptible: true},
		{Kind: Maintenance, Interface: HostInterface, Priority: priorityMaintenance, Interruptible: true},
		{Kind: Reboot, Interface: HostInterface, Priority: priorityReboot, Deadline: writeDeadline},
		{Kind: Health, Interface: HostInterface, Priority: priorityHealth, Interruptible: true, Deadline: writeDeadline},
		{Kind: Release, Interface: HostInterface, Priority: priorityRelease, Deadline: shortDeadline},
		{Kind: VerifyInventory, Interface: HostInterface, Interruptible: true, Deadline: shortDeadline},
		{Kind: ResetBIOSSettings, Interface: string(inventory.BIOS), Changes: true, Deadline: shortDeadline},
		{
			Kind: Erase, Interface: string(inventory.Disk), Changes: true, Deadline: eraseDeadline,
			Arguments: []string{EraseSerialNumber, EraseMethod},
		},
	}
	for _, class := range inventory.Classes() {
		rank, name := classRank(class), string(class)
		defs = append(defs,
			Definition{Kind: Archive, Interface: name, Priority: priorityArchive + rank, Interruptible: true, Deadline: writeDeadline},
			Definition{Kind: Flash, Interface: name, Priority: priorityFlash + rank, Deadline: writeDeadline},
			Definition{Kind: Configure, Interface: name, Priority: priorityConfigure + rank, Deadline: shortDeadline},
			Definition{Kind: Activate, Interface: name, Priority: priorityActivate + rank, Deadline: shortDeadline},
			Definition{Kind: Verify, Interface: name, Priority: priorityVerify + rank, Interruptible: true, Deadline: shortDeadline},
			Definition{Kind: VerifyFirmware, Interface: name, Interruptible: true, Deadline: writeDeadline})
	}
	slices.SortStableFunc(defs, compareDefinitions)
	return defs
}

// Key is how configuration names the step: the interface and the kind, in lower case, such as "nic.flash".
func (d Definition) Key() string { return strings.ToLower(d.Interface) + "." + string(d.Kind) }

// updates reports whether the step is part of every update.
func (d Definition) updates() bool { return slices.Contains(UpdateKinds, d.Kind) }

func (d Definition) step(device string) Step {
	return Step{
		Kind: d.Kind, Device: device, Priority: d.Priority, Interruptible: d.Interruptible, Task: !d.updates(),
		Changes: d.Changes, Deadline: d.Deadline,
	}
}

// compareDefinitions orders by priority. Where two interfaces have the same one, the host comes first, then system
// firmware, network adapters, storage controllers and drives, and then the drivers by name.
func compareDefinitions(a, b Definition) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.rank(), a.rank()), strings.Compare(a.Key(), b.Key()))
}

func (d Definition) rank() int32 {
	if d.Interface == HostInterface {
		return classRank(inventory.BIOS) + 1
	}
	return classRank(inventory.Class(d.Interface))
}

// UpdateKinds are the steps of an update and of its rollback.
var UpdateKinds = []Kind{Preflight, Archive, Maintenance, Flash, Restore, Configure, Activate, Reboot, Verify, Health, Release}

func classRank(c inventory.Class) int32 {
	switch c {
	case inventory.BIOS:
		return 30
	case inventory.NIC:
		return 20
	case inventory.StorageController:
		return 15
	case inventory.Disk:
		return 10
	}
	return 0
}
