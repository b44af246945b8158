package driver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Support says how well a driver supports a device. The best driver is chosen; a tie is an error.
type Support int

// Levels of support.
const (
	SupportNone Support = iota
	SupportGeneric
	SupportMainline
	SupportVendor
)

// Driver reads and writes one kind of device. All methods except Write and Activate only read.
type Driver interface {
	// Name is the driver's stable name, such as "nvme".
	Name() string
	// Version changes when the driver's behaviour does.
	Version() string
	// Support says how well the driver supports a device, judged by its identity from sysfs. It does no I/O.
	Support(id inventory.Identity) Support
	// Inspect reads the device itself, never a cache of the kernel. It returns the identity completed with what the
	// device reports (board id, serial number, stable unique id) and the firmware it runs and stores.
	Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error)
	// Updater writes the devices the driver supports.
	Updater
}

// Updater changes a device. Its writing commands take a lock named after the device's unique id as completed by Inspect, so that a write
// that outlived the process that began it is found again.
type Updater interface {
	// Check verifies that the image is sound and is for exactly this board and version. It returns a *RejectedError
	// when it is not, and another error when it could not be checked. It writes nothing.
	Check(ctx context.Context, id inventory.Identity, img Image) error
	// Write stages the image and returns what its activation needs. It classifies the tool's exit code; the caller
	// verifies success by reading the device back. It returns nil when the device already holds the image.
	Write(ctx context.Context, id inventory.Identity, img Image, progress Progress) (inventory.Activation, error)
	// Activate makes the stored image run, and puts stored settings into force, by the given kind of activation, DeviceReset or
	// DriverReload; the caller performs the other kinds. It returns what is still needed: ActivateNone when nothing is, or a more disruptive
	// kind when the device reports that this one is not enough. An error that is a *NotEnoughError says the same with the
	// reason; see StillNeeded.
	Activate(ctx context.Context, id inventory.Identity, kind inventory.Activation) (inventory.Activation, error)
}

// Archiver is a Driver that can read the running image from devices whose Firmware.Rollback is ReadBack.
type Archiver interface {
	// Archive reads the image the device runs into the new file at path. It changes nothing on the device. Afterwards
	// Check of the same device accepts the file, and Write restores the image.
	Archive(ctx context.Context, id inventory.Identity, path string) error
}

// HourMeter is a Driver of devices that count the hours for which they were powered on.
type HourMeter interface {
	// PowerOnHours reads the count. The error wraps ErrNotSupported where the device keeps none.
	PowerOnHours(ctx context.Context, id inventory.Identity) (int64, error)
}

// Reverter is a Driver of devices whose Firmware.Rollback is Slot: they keep the previous firmware in a slot.
type Reverter interface {
	// Revert selects the slot that holds the version, so that it runs next, and returns what its activation needs. It
	// writes to the device as Write does, under the same lock. It returns nil when the device already holds the
	// version, and an error that wraps ErrNotSupported when no slot holds it.
	Revert(ctx context.Context, id inventory.Identity, version inventory.Version) (inventory.Activation, error)
}

// LiveActivator is a Driver that can activate some of its devices while they are in use: the device pauses, and is not reset.
type LiveActivator interface {
	// ActivateLive is Activate for DeviceReset without any reset. It returns what is still needed: ActivateNone when the stored
	// image runs, and otherwise ActivateDeviceReset or a more disruptive kind.
	ActivateLive(ctx context.Context, id inventory.Identity) (inventory.Activation, error)
}

// Stepper is a Driver that provides steps of its own for its devices.
type Stepper interface {
	// Steps lists them. Their names are unique over all drivers, and none is the name of a step of this product.
	Steps() []Step
	// RunStep runs one step on one device, from its beginning or, with the data it returned last, from where it stopped. It
	// is called again after a crash or a reboot with the data that was kept, and repeating it must be harmless. Commands
	// that change the device take the same lock as those of Updater.
	RunStep(ctx context.Context, c StepCall) (StepResult, error)
}

// StepCall is one call of a step.
type StepCall struct {
	// Identity of the device, as Inspect completed it.
	Identity inventory.Identity
	// Name of the step.
	Name string
	// Data is what the last call returned; nil for the first one.
	Data []byte
}

// Step declares a step that a driver provides.
type Step struct {
	// Name has lower-case letters, digits and dashes, at most 63.
	Name string
	// Priority is where the step runs in an update: higher runs earlier, and 0 means only on request.
	Priority int32
	// Changes says that the step changes the device: the node is in maintenance while it runs, and a cancellation lets it
	// finish. A step that changes nothing ends with its context.
	Changes bool
	// Deadline is the time without progress after which the job is reported as stalled; zero for none.
	Deadline time.Duration
}

// StepResult is the result of one call of a step.
type StepResult struct {
	// Data is kept for the next call and survives reboots; at most 4 KiB.
	Data []byte
	// Again says that the step is not done and is to be called again at once.
	Again bool
	// Reboot says that what the step did takes effect with a reboot. The job makes one for all its steps.
	Reboot bool
	// Message says what was found or done, for people.
	Message string
}

// Image is a verified firmware image in a local file.
type Image struct {
	// Path is an absolute path. The content was hashed after the file was last opened for writing.
	Path    string
	Version inventory.Version
	Digest  inventory.Digest
	// Size in bytes.
	Size int64
}

// RejectedError says that an image must not be written to a device, or settings not be given to it. Trying again does not help, unless InUse is set.
type RejectedError struct {
	// Of is what was rejected; empty for an image.
	Of     string
	Reason string
	// InUse says that all that is in the way is what uses the device, which may be gone once the node is drained: only then does it help to try again.
	InUse bool
}

// Error returns the reason.
func (e *RejectedError) Error() string { return cmp.Or(e.Of, "image") + " rejected: " + e.Reason }

// Rejectf returns a *RejectedError.
func Rejectf(format string, args ...any) error {
	return &RejectedError{Reason: fmt.Sprintf(format, args...)}
}

// NotEnoughError is returned by Activate for a kind of activation that was not possible or did not load the image. The device
// is usable, runs what it ran, and still stores the image.
type NotEnoughError struct {
	// Needs is the more disruptive kind that is needed.
	Needs inventory.Activation
	// Reason says why, for people.
	Reason string
}

// Error returns the reason.
func (e *NotEnoughError) Error() string { return e.Needs.String() + " is needed: " + e.Reason }

// StillNeeded merges the two ways in which Activate reports what is still needed. The reason is empty if the driver gives none; the error
// is never a *NotEnoughError.
func StillNeeded(needs inventory.Activation, err error) (still inventory.Activation, reason string, failure error) {
	if more, ok := errors.AsType[*NotEnoughError](err); ok {
		return more.Needs, more.Reason, nil
	}
	return needs, "", err
}

// ErrNotSupported says that the device does not support an operation.
var ErrNotSupported = errors.New("not supported by the device")

// String is the name of the level for messages and logs.
func (s Support) String() string {
	switch s {
	case SupportNone:
		return "None"
	case SupportGeneric:
		return "Generic"
	case SupportMainline:
		return "Mainline"
	case SupportVendor:
		return "Vendor"
	}
	return "Unknown"
}

// Progress takes the percentage done, from 0 to 100. It must not block. It is called while Write runs and by one goroutine
// at a time, which need not be Write's.
type Progress func(percent int)

// Percentage is how most tools print their progress.
var Percentage = regexp.MustCompile(`(\d{1,3})%`)

// Lines reads the progress of a tool from the lines it prints, for command.Command: the percentage is the first group of the last match of
// the pattern in a line. Only increases are reported, because tools start again from 0 for each part of an image, and never 100, which Write
// reports once the device has taken the image. The result is nil without a pattern, and if nobody wants the progress.
func (p Progress) Lines(pattern *regexp.Regexp) func(line string) {
	if p == nil || pattern == nil {
		return nil
	}
	highest := -1
	return func(line string) {
		all := pattern.FindAllStringSubmatch(line, -1)
		if len(all) == 0 {
			return
		}
		if n, err := strconv.Atoi(all[len(all)-1][1]); err == nil && n > highest && n < 100 {
			highest = n
			p(n)
		}
	}
}

// Measure describes a file that this process made, such as an image that was read from a device.
func Measure(path string, v inventory.Version) (Image, error) {
	digest, size, err := hash(path)
	return Image{Path: path, Version: v, Digest: digest, Size: size}, err
}

// HeldFor returns the command with the image for it: instead of the path, the runner gives the tool a copy that nobody can change and that
// was hashed after copying. Every command whose tool opens the image itself is run this way.
func (i Image) HeldFor(c command.Command) command.Command {
	c.Image = &command.Image{Path: i.Path, Digest: i.Digest, Size: i.Size}
	return c
}

// Verify reads the file again. It returns an error that wraps command.ErrImage when the file cannot be read, or when its size or digest is
// not that of the verified image: a changed local copy says nothing about the image itself. Drivers call it first in Check.
func (i Image) Verify() error {
	digest, size, err := hash(i.Path)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", command.ErrImage, err)
	case size != i.Size:
		return fmt.Errorf("%w: %s has %d bytes, not %d; it changed after it was verified and must be fetched again", command.ErrImage, i.Path, size, i.Size)
	case digest != i.Digest:
		return fmt.Errorf("%w: the content of %s is no longer %s; it changed after it was verified and must be fetched again", command.ErrImage, i.Path, i.Digest)
	}
	return nil
}

// Judge returns the error that a driver returned about the image, unless that is a *RejectedError and the file is not the verified image
// any more. In that case a different file was rejected, and Judge returns the error of Verify.
func (i Image) Judge(err error) error {
	if errors.As(err, new(*RejectedError)) {
		if changed := i.Verify(); changed != nil {
			return fmt.Errorf("%w (before that was seen: %s)", changed, err.Error())
		}
	}
	return err
}

func hash(path string) (digest inventory.Digest, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return digest, 0, fmt.Errorf("open image: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if size, err = io.Copy(sum, f); err != nil {
		return digest, 0, fmt.Errorf("read image %s: %w", path, err)
	}
	return inventory.Digest(sum.Sum(nil)), size, nil
}
