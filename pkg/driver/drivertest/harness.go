package drivertest

import (
	"testing"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Harness is one device of a driver, with functions that make it misbehave. The device runs a version that is neither
// Image's nor Other's, and stores no other.
type Harness struct {
	Driver driver.Driver
	// ID is the device's identity from the host's tables, before the driver completes it.
	ID inventory.Identity
	// Image and Other are good images of two versions for the device.
	Image, Other driver.Image
	// Previous is a good image of the version the device runs.
	Previous driver.Image
	// WrongBoard is a good image for another board.
	WrongBoard driver.Image
	// Damaged is an image for the device that was truncated before it was hashed.
	Damaged driver.Image
	// SelfDescribing says that images contain their version.
	SelfDescribing bool
	// Reboot restarts the machine.
	Reboot func(t *testing.T)
	// Garbage makes every tool print nonsense and exit with 0.
	Garbage func(t *testing.T)
	// Unreadable makes the device not answer.
	Unreadable func(t *testing.T)
	// FailWrite makes the writing tool print the text to standard error and fail without any change.
	FailWrite func(t *testing.T, stderr string)
	// LieWrite makes the writing tools report success without any change.
	LieWrite func(t *testing.T)
	// HangWrite makes the writing tool pause in the middle. Started reports whether it waits; release lets it continue.
	HangWrite func(t *testing.T) (started func() bool, release func())
	// WriteRunning reports whether a writing tool runs under the lock, whoever waits for it.
	WriteRunning func(t *testing.T, lock string) bool
	// FailRead makes the tool that reads an image from the device fail in the middle.
	FailRead func(t *testing.T)
	// FailErase makes the next erasure fail at its end; only for a driver of devices that can be erased.
	FailErase func(t *testing.T)
	// Settings of the device; nil when the driver reads and changes none.
	Settings *Settings
	// Stored is the version the device really stores, read without the driver.
	Stored func(t *testing.T) inventory.Version
}
