package drivertest

// Fault is a way in which a simulated device misbehaves until the fault is cleared.
type Fault int

// The faults a device can have.
const (
	// Unreadable makes Inspect, Archive and Revert fail.
	Unreadable Fault = iota
	// FailWrite makes Write and Configure fail with the tool's error and change nothing.
	FailWrite
	// LieWrite makes Write and Configure report success and change nothing.
	LieWrite
	// BusyWrite makes Write, Revert and Configure fail because another write holds the device.
	BusyWrite
	// HangWrite makes Write, Revert and Configure wait until Simulated.Release. When its context ends it returns command.ErrStillRunning and
	// the write goes on: it ends with Release.
	HangWrite
	// FailArchive makes Archive fail and leave no file.
	FailArchive
	// FailRevert makes Revert fail and change nothing.
	FailRevert
	// WrongBoard makes Check and Write reject every image.
	WrongBoard
	// FailActivate makes Activate fail and change nothing.
	FailActivate
	// LieActivate makes Activate report that nothing more is needed though the old image still runs; the stored image
	// runs after the next reboot.
	LieActivate
	// NeedReboot makes Activate return that the device needs a reboot instead.
	NeedReboot
	// RefuseBoot makes the device discard its stored image at the next reboot or power-cycle, keep the old one and
	// report that in Firmware.LastAttempt.
	RefuseBoot
	// Quiet keeps the device from reporting what it stores.
	Quiet
	// NeedPower makes a reboot leave the stored image waiting: only a power-cycle runs it.
	NeedPower
	// FlashResets makes the device give its parameters their defaults when it begins to run other firmware.
	FlashResets
	// HalfConfigure makes Configure store the first of its values alone, and end in an unknown way (command.ErrLost).
	HalfConfigure
	// TwoBoots makes the next reboot leave the stored image waiting; the one after it runs it.
	TwoBoots
	// InUse makes CheckConfiguration and Configure reject a change of settings, because something uses the device that a drain moves.
	InUse
	// FailErase makes an erasure fail at its end.
	FailErase
	// LieErase makes an erasure claim that it is done and leave all data.
	LieErase
	// HangErase makes an erasure stay where it is.
	HangErase
	// LostErase makes Erase begin the erasure and end in an unknown way.
	LostErase
	// NoSettings makes Parameters, CheckConfiguration and Configure fail.
	NoSettings
)
