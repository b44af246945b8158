package chaos

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is something that goes wrong.
type Kind string

// The kinds of faults.
const (
	// KillDaemon kills the daemon. A write that runs goes on in its worker.
	KillDaemon Kind = "kill-daemon"
	// KillWorker kills the tool that writes: the device keeps the old image, holds garbage or has just taken the new one.
	KillWorker Kind = "kill-worker"
	// KillBoth kills daemon and worker.
	KillBoth Kind = "kill-both"
	// Stop asks the daemon to end, as a rolling update of it does.
	Stop Kind = "stop"
	// Upgrade kills the daemon, whose successor brings another version of the driver.
	Upgrade Kind = "upgrade"
	// Reboot restarts the host without being asked.
	Reboot Kind = "reboot"
	// PowerCut cuts the power of host and devices: what was not synced may be gone or torn.
	PowerCut Kind = "power-cut"
	// DiskFull fills the disk of the state directory for a while, and ReadOnly makes it read-only.
	DiskFull Kind = "disk-full"
	ReadOnly Kind = "read-only"
	// SyncFails reports a write of the journal as failed that is on disk nevertheless.
	SyncFails Kind = "sync-fails"
	// APIAway takes the API server away for a while.
	APIAway Kind = "api-away"
	// ClockStep steps the time of day by a day, back or forth.
	ClockStep Kind = "clock-step"
	// Swap puts other hardware of the same kind in the device's slot.
	Swap Kind = "swap"
	// Steal takes the maintenance away.
	Steal Kind = "steal-maintenance"
	// Cancel is a person who calls the job off.
	Cancel Kind = "cancel"
	// Mute makes a device not answer for a while.
	Mute Kind = "mute"
	// Unwell takes a link down for a while.
	Unwell Kind = "unwell"
	// ToolHangs makes the tool run into its deadline; the write goes on and ends later.
	ToolHangs Kind = "tool-hangs"
	// ToolLies makes the tool report a success that is none.
	ToolLies Kind = "tool-lies"
	// ToolFails makes the tool fail without any change, and ToolFailsLate after it has succeeded.
	ToolFails     Kind = "tool-fails"
	ToolFailsLate Kind = "tool-fails-late"
	// Truncate and Flip damage an image on its way.
	Truncate Kind = "truncate"
	Flip     Kind = "flip"
	// IgnoreReboot accepts the request for a reboot and does nothing; RefuseReboot fails it once, for a while or for ever; SlowReboot begins it so late
	// that the daemon is started once more under the old boot; SlowBoot makes the host need very long.
	IgnoreReboot Kind = "ignore-reboot"
	RefuseReboot Kind = "refuse-reboot"
	SlowReboot   Kind = "slow-reboot"
	SlowBoot     Kind = "slow-boot"
	// LatePod starts the daemon long after the host has booted: the registry or the API server was away.
	LatePod Kind = "late-pod"
	// ClockLost makes the host boot with another time of day: a day off, or that of a machine whose battery is empty.
	ClockLost Kind = "clock-lost"
	// SlowMaintenance makes a maintenance that was asked for ready hours later, or never. LapsedMaintenance makes one that was
	// ready not ready, for a while or for good.
	SlowMaintenance   Kind = "slow-maintenance"
	LapsedMaintenance Kind = "lapsed-maintenance"
	// FetchFails keeps images from being fetched for a while; FetchRefused says that the image will never be had.
	FetchFails   Kind = "fetch-fails"
	FetchRefused Kind = "fetch-refused"
	// Kexec loads a kernel that the host starts without a reset, once or three times.
	Kexec Kind = "kexec"
	// CheckFails makes an executable of required.d fail, for a minute or an hour.
	CheckFails Kind = "check-fails"
	// APIErrors makes the API server answer errors for a while. A node whose update needs to be taken back does not wait for it.
	APIErrors Kind = "api-errors"
	// BystanderDies takes a drive that is none of the job's away at the next boot, for good.
	BystanderDies Kind = "bystander-dies"
	// ArrayDegrades takes a drive that is none of the job's out of an array for a while, and lets the array rebuild.
	ArrayDegrades Kind = "array-degrades"
	// SlowImage makes the firmware of the machine take ten times as long at its boots with new firmware: at each, at the next one, or at
	// each by a clock that the boots before did not have.
	SlowImage Kind = "slow-image"
)

// harmless faults explain no complaint about sound firmware: they end processes, take the cluster away or change the time.
var harmless = []Kind{
	KillDaemon, Stop, Upgrade, DiskFull, ReadOnly, SyncFails, APIAway, ClockStep, Cancel, Truncate, Flip, IgnoreReboot, RefuseReboot,
	SlowReboot, Kexec, LatePod, ClockLost, SlowMaintenance, LapsedMaintenance, FetchFails, FetchRefused, APIErrors, BystanderDies, SlowImage,
}

// Fault is one fault at one boundary.
type Fault struct {
	// At is the number of the boundary, counted from 1 over the life of the host. The fault strikes there, or at the next
	// boundary where it can.
	At   int  `json:"at"`
	Kind Kind `json:"kind"`
	// Arg chooses among the variants of the kind: how torn, how long, which device.
	Arg int `json:"arg,omitempty"`
}

// String names the fault and the boundary at which it is injected.
func (f Fault) String() string { return fmt.Sprintf("%s/%d at %d", f.Kind, f.Arg, f.At) }

// Phase says where in an operation a boundary lies.
type Phase string

// The phases.
const (
	Before Phase = "before"
	Inside Phase = "inside"
	After  Phase = "after"
)

// Op is a boundary of the transaction.
type Op struct {
	Name   string `json:"name"`
	Phase  Phase  `json:"phase"`
	Device string `json:"device,omitempty"`
}

// String names the boundary.
func (o Op) String() string {
	if o.Device == "" {
		return fmt.Sprintf("%s %s", o.Phase, o.Name)
	}
	return fmt.Sprintf("%s %s %s", o.Phase, o.Name, o.Device)
}

// The operations with boundaries. Those of the archive's files begin with opFile.
const (
	opPass     = "pass"
	opWait     = "wait"
	opSave     = "save"
	opFind     = "find"
	opScan     = "scan"
	opReady    = "node-ready"
	opFetch    = "fetch"
	opCheck    = "check"
	opArchive  = "archive"
	opWrite    = "write"
	opRevert   = "revert"
	opActivate = "activate"
	// opConfigure stores settings, and opSettings reads them.
	opConfigure = "configure"
	opSettings  = "read-settings"
	opReboot    = "reboot-request"
	opSchedule  = "schedule-maintenance"
	opState     = "read-maintenance"
	opRelease   = "release-maintenance"
	opRequired  = "required.d"
	opTask      = "task"
	// opErase tells a drive to erase itself, opErasure reads how far it is, and opSample what it stores.
	opErase   = "erase"
	opErasure = "read-erasure"
	opSample  = "read-samples"
	opGuard   = "guard"
	opUnguard = "unguard"
	opUse     = "use"
	opFile    = "file-"
)

// family is a set of kinds and the boundaries at which they can be injected.
type family struct {
	kinds []Kind
	// variants are how many values of Arg make a difference.
	variants int
	can      func(Op) bool
}

func anywhere(Op) bool { return true }

func at(names ...string) func(Op) bool {
	return func(o Op) bool { return slices.Contains(names, o.Name) }
}

func on(phase Phase, names ...string) func(Op) bool {
	return func(o Op) bool { return o.Phase == phase && slices.Contains(names, o.Name) }
}

// acting reports whether the boundary is not one between reads.
func acting(o Op) bool {
	return !at(opWait, opFind, opScan, opReady, opCheck, opState, opUse, opSettings, opErasure, opSample)(o)
}

// losing reports whether a power cut at the boundary may lose or tear something in more than one way.
func losing(o Op) bool {
	return at(opWrite, opRevert, opConfigure, opActivate, opArchive)(o) || on(After, opSave)(o) || strings.HasPrefix(o.Name, opFile)
}

func storing(o Op) bool {
	return o.Phase == Before && (o.Name == opSave || strings.HasPrefix(o.Name, opFile))
}

var families = []family{
	{[]Kind{KillDaemon}, 1, anywhere},
	{[]Kind{KillBoth, Reboot}, 3, at(opWrite, opRevert, opConfigure, opActivate, opErase)},
	{[]Kind{PowerCut}, 3, losing},
	{[]Kind{Stop}, 1, anywhere},
	{[]Kind{Reboot, PowerCut, Upgrade}, 1, acting},
	{[]Kind{DiskFull, ReadOnly}, 2, storing},
	{[]Kind{SyncFails}, 1, on(After, opSave)},
	{[]Kind{APIAway}, 2, at(opPass, opFetch, opSchedule, opState, opRelease, opReady, opWrite, opReboot)},
	{[]Kind{ClockStep}, 2, at(opPass, opWrite, opWait)},
	{[]Kind{Swap}, 1, at(opPass, opFind, opWrite, opConfigure, opActivate, opReboot, opArchive, opErase)},
	{[]Kind{Steal, Cancel}, 1, at(opPass, opState, opWrite, opConfigure, opErase)},
	{[]Kind{Mute}, 2, at(opFind, opScan, opErasure)},
	{[]Kind{Unwell}, 2, at(opScan)},
	{[]Kind{KillWorker}, 3, on(Inside, opWrite, opRevert, opConfigure, opActivate, opErase)},
	{[]Kind{ToolHangs, ToolLies, ToolFails, ToolFailsLate}, 1, on(Inside, opWrite, opRevert, opConfigure, opActivate, opErase)},
	{[]Kind{ToolFails, ToolLies}, 1, on(Inside, opArchive)},
	{[]Kind{Truncate, Flip}, 1, on(After, opFetch)},
	{[]Kind{LatePod}, 1, on(Before, opReboot)},
	{[]Kind{ClockLost}, 3, on(Before, opReboot)},
	{[]Kind{SlowMaintenance}, 2, on(Before, opSchedule)},
	{[]Kind{LapsedMaintenance}, 2, at(opState)},
	{[]Kind{FetchFails}, 2, on(Before, opFetch)},
	{[]Kind{FetchRefused}, 1, on(Before, opFetch)},
	{[]Kind{CheckFails}, 2, at(opRequired)},
	{[]Kind{KillDaemon, KillWorker, ToolHangs, ToolFails, Reboot, PowerCut}, 1, on(Inside, opTask)},
	{[]Kind{IgnoreReboot, RefuseReboot, SlowReboot, SlowBoot}, 1, on(Before, opReboot)},
	{[]Kind{APIErrors}, 2, at(opPass, opState, opReady, opWrite, opReboot)},
	{[]Kind{BystanderDies}, 1, at(opPass, opReboot)},
	{[]Kind{RefuseReboot, SlowImage}, 3, on(Before, opReboot)},
	{[]Kind{Kexec}, 2, at(opWrite, opReboot)},
	{[]Kind{ArrayDegrades}, 2, at(opUse)},
}

// possible lists the faults that can be injected at the boundary with this number.
func possible(o Op, number int) []Fault {
	seen := map[Fault]bool{}
	var out []Fault
	for _, f := range families {
		if !f.can(o) {
			continue
		}
		for _, k := range f.kinds {
			for arg := range f.variants {
				if fault := (Fault{At: number, Kind: k, Arg: arg}); !seen[fault] {
					seen[fault] = true
					out = append(out, fault)
				}
			}
		}
	}
	return out
}

// canStrike reports whether the fault can be injected at the boundary.
func (f Fault) canStrike(o Op) bool {
	return slices.ContainsFunc(families, func(g family) bool { return slices.Contains(g.kinds, f.Kind) && g.can(o) })
}

// Kinds lists all kinds of faults.
func Kinds() []Kind {
	var out []Kind
	for _, f := range families {
		for _, k := range f.kinds {
			if !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	return out
}
