package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

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
