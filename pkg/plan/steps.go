package plan

import (
	"cmp"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Kind is the name of a step.
type Kind string

// The steps of a job, in the order they run.
const (
	// Preflight fetches and checks every image before the node is disturbed.
	Preflight Kind = "preflight"
	// Maintenance takes the node out of service.
	Maintenance Kind = "maintenance"
	// Flash stores the image on one device.
	Flash Kind = "flash"
	// Activate makes one device run what it stores, where no reboot is needed for that.
	Activate Kind = "activate"
	// Reboot restarts the host once, for every device that needs it.
	Reboot Kind = "reboot"
	// Verify reads one device back.
	Verify Kind = "verify"
	// Health compares the host with what it was before.
	Health Kind = "health"
	// Release returns the node to service.
	Release Kind = "release"
)

// Step is one step of a job on one host.
type Step struct {
	Kind Kind `json:"kind"`
	// Device the step works on; empty for a step of the whole host.
	Device string `json:"device,omitempty"`
	// Priority orders the steps: higher runs first.
	Priority int32 `json:"priority"`
}

// Writes reports whether the step changes a device or the host, so that it needs the maintenance and is not repeated
// more than once.
func (s Step) Writes() bool { return s.Kind == Flash || s.Kind == Activate || s.Kind == Reboot }

// Target is one device of a job.
type Target struct {
	Device string
	Class  inventory.Class
}

// The priorities of the steps that work on the whole host. Steps of a device lie between them: system firmware
// first, then network adapters, then drives.
const (
	priorityPreflight   = 1000
	priorityMaintenance = 900
	priorityFlash       = 800
	priorityActivate    = 700
	priorityReboot      = 600
	priorityVerify      = 500
	priorityHealth      = 400
	priorityRelease     = 300
)

// Steps lists the steps of a job in the order they run. Devices of one class run in order of name.
func Steps(targets []Target) []Step {
	steps := []Step{
		{Kind: Preflight, Priority: priorityPreflight},
		{Kind: Maintenance, Priority: priorityMaintenance},
		{Kind: Reboot, Priority: priorityReboot},
		{Kind: Health, Priority: priorityHealth},
		{Kind: Release, Priority: priorityRelease},
	}
	for _, t := range targets {
		rank := classRank(t.Class)
		steps = append(steps,
			Step{Kind: Flash, Device: t.Device, Priority: priorityFlash + rank},
			Step{Kind: Activate, Device: t.Device, Priority: priorityActivate + rank},
			Step{Kind: Verify, Device: t.Device, Priority: priorityVerify + rank})
	}
	slices.SortFunc(steps, func(a, b Step) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Device, b.Device))
	})
	return steps
}

func classRank(c inventory.Class) int32 {
	switch c {
	case inventory.BIOS:
		return 30
	case inventory.NIC:
		return 20
	case inventory.Disk:
		return 10
	}
	return 0
}
