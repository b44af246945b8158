package steps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// verifyFirmware reads the device and compares what it runs and stores with what it should. If the driver can read the
// image from the device, it also checks that the image is valid, of the version, and for exactly this board. Its digest
// is not compared with that of the flashed image: an image read from a device also contains that device's own data.
func (t Tasks) verifyFirmware(ctx context.Context, request journal.RequestedStep, u journal.Update) (*step.Returned, error) {
	d, drv, err := t.find(ctx, u)
	if err != nil {
		return nil, err
	}
	want, because, err := t.expected(u)
	if err != nil {
		return nil, err
	}
	fw := d.Firmware
	switch {
	case want == "" && request.Device != "":
		return nil, fmt.Errorf("nothing says which version %s should run: no template or pin assigns one, and no job flashed it",
			u.Device)
	case want == "":
		because = "and no desired version is known"
	case fw.Running != want:
		return nil, fmt.Errorf("the device runs %s instead of %s, %s", fw.Running, want, because)
	case fw.Stored != "" && fw.Stored != want:
		return nil, fmt.Errorf("the device runs %s but stores %s, which would run after its next activation", fw.Running, fw.Stored)
	}
	proof, err := t.readBack(ctx, d, drv)
	if err != nil {
		return nil, err
	}
	return &step.Returned{Message: fmt.Sprintf("the device runs %s, %s; %s", fw.Running, because, proof)}, nil
}

// expected is the version the device should run, and where it comes from. The target of an update, or the version a
// template or pin assigns, comes first.
func (t Tasks) expected(u journal.Update) (version inventory.Version, because string, err error) {
	if u.Version != "" {
		return inventory.NormalizeVersion(u.Version), "which is the desired version", nil
	}
	if t.Applied == nil {
		return "", "", nil
	}
	last, err := t.Applied(u.UniqueID)
	if err != nil || last == nil {
		return "", "", err
	}
	return inventory.NormalizeVersion(last.Version), "which job " + last.Job + " installed", nil
}

// readBack lets the driver check the image the device runs, and says what that proved.
func (t Tasks) readBack(ctx context.Context, d inventory.Device, drv driver.Driver) (string, error) {
	archiver, ok := drv.(driver.Archiver)
	if !ok || d.Firmware.Rollback != inventory.RollbackReadBack {
		return "its image cannot be read back, so only the version it reports was compared", nil
	}
	dir := filepath.Join(t.Scratch, "verify-firmware")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil { // a crash may have left an image
		return "", fmt.Errorf("make directory for the image: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "image")
	if err := archiver.Archive(ctx, d.Identity, path); err != nil {
		return "", fmt.Errorf("read the image from the device: %w", err)
	}
	img, err := driver.Measure(path, d.Firmware.Running)
	if err != nil {
		return "", fmt.Errorf("hash the image that was read: %w", err)
	}
	var rejected *driver.RejectedError
	switch err := drv.Check(ctx, d.Identity, img); {
	case errors.As(err, &rejected):
		return "", fmt.Errorf("the image read from the device is not valid: %s", rejected.Reason)
	case err != nil:
		return "", fmt.Errorf("check the image read from the device: %w", err)
	}
	return "its image was read back and is valid for its board", nil
}

// verifyInventory compares the devices of the machine with those it should have. Devices of other kinds are ignored.
func (t Tasks) verifyInventory(ctx context.Context, expected []journal.Expectation) (*step.Returned, error) {
	devices, err := t.Machine.Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("it is not known whether a device is missing: %w", err)
	}
	if len(expected) == 0 {
		return known(devices)
	}
	var differences []string
	for _, e := range expected {
		if d := difference(e, devices); d != "" {
			differences = append(differences, d)
		}
	}
	if len(differences) > 0 {
		return nil, errors.New(strings.Join(differences, "; "))
	}
	return &step.Returned{Message: fmt.Sprintf("%d devices; every kind has the expected number", len(devices))}, nil
}

// known is the check when the step runs as part of an update, which has no expected devices: that all devices can be
// listed and read.
func known(devices []inventory.Device) (*step.Returned, error) {
	var unread []string
	for _, d := range devices {
		if d.Err != nil {
			unread = append(unread, d.Err.Error())
		}
	}
	if len(unread) > 0 {
		return nil, errors.New(strings.Join(unread, "; "))
	}
	const message = "%d devices; all of them can be read, and no expected devices are given"
	return &step.Returned{Message: fmt.Sprintf(message, len(devices))}, nil
}

// difference says how the devices of one kind differ from the expected ones; empty when they do not.
func difference(e journal.Expectation, devices []inventory.Device) string {
	kind := match.NewSelector(compile(e.Selector))
	var found, doubtful []string
	for _, d := range devices {
		switch facts := match.DeviceFrom(d.Identity); {
		case kind.Matches(facts):
			found = append(found, d.UniqueID)
		case d.Err != nil && kind.MayMatch(facts):
			doubtful = append(doubtful, d.Err.Error())
		}
	}
	slices.Sort(found)
	slices.Sort(doubtful)
	text := fmt.Sprintf("%s: %d expected, %d found", describe(e.Selector), e.Count, len(found))
	if len(found) > 0 {
		text += " (" + strings.Join(found, ", ") + ")"
	}
	switch {
	case len(doubtful) > 0:
		return text + "; some that may match cannot be read: " + strings.Join(doubtful, ", ")
	case len(found) != e.Count:
		return text
	}
	return ""
}

// compile makes the selector one of the API, so that it means the same in a template.
func compile(s journal.Selector) v1alpha1.DeviceSelector {
	return v1alpha1.DeviceSelector{
		Class: v1alpha1.DeviceClass(s.Class), Vendor: s.Vendor, Models: s.Models, BoardIDs: s.BoardIDs, SerialNumbers: s.SerialNumbers,
		PCIAddresses: s.PCIAddresses,
	}
}

func describe(s journal.Selector) string {
	parts := slices.Concat([]string{string(s.Class), s.Vendor}, s.Models, s.BoardIDs, s.SerialNumbers, s.PCIAddresses)
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}
