package drivertest

import (
	"testing"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Harness is one device that a driver knows, with the handles to make it misbehave. The device runs a version that is
// neither Image's nor Other's, and holds nothing else.
type Harness struct {
	Driver driver.Driver
	// ID is what the host's tables say of the device, before the driver completes it.
	ID inventory.Identity
	// Image and Other are good images of two versions for the device.
	Image, Other driver.Image
	// Previous is a good image of the version the device runs.
	Previous driver.Image
	// WrongBoard is a good image for another board.
	WrongBoard driver.Image
	// Damaged is an image for the device that lost its end before it was hashed.
	Damaged driver.Image
	// SelfDescribing images say which version they hold.
	SelfDescribing bool
	// Reboot restarts the machine.
	Reboot func(t *testing.T)
	// Garbage makes every tool print nonsense and exit with 0.
	Garbage func(t *testing.T)
	// Unreadable makes the device not answer.
	Unreadable func(t *testing.T)
	// FailWrite makes the tool that writes print the text to standard error and fail without any change.
	FailWrite func(t *testing.T, stderr string)
	// LieWrite makes the tools that write report success without any change.
	LieWrite func(t *testing.T)
	// HangWrite makes the tool that writes wait in the middle. Started reports whether it waits; release lets it go on.
	HangWrite func(t *testing.T) (started func() bool, release func())
	// WriteRunning reports whether a tool that writes runs under the lock, whoever waits for it.
	WriteRunning func(t *testing.T, lock string) bool
	// FailRead makes the tool that reads an image out of the device fail in the middle.
	FailRead func(t *testing.T)
	// Stored is the version the device really holds, read without the driver.
	Stored func(t *testing.T) inventory.Version
}
