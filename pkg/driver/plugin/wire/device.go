package wire

import (
	"errors"
	"fmt"
	"math"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// IdentityFrom translates an identity from a message.
func IdentityFrom(m *pluginv1.Identity) (inventory.Identity, error) {
	var t texts
	class, err := classes.from(m.GetClass())
	id := inventory.Identity{
		Class:        class,
		UniqueID:     t.take("unique_id", m.GetUniqueId(), maxText),
		Vendor:       t.take("vendor", m.GetVendor(), maxText),
		VendorID:     t.take("vendor_id", m.GetVendorId(), maxText),
		DeviceID:     t.take("device_id", m.GetDeviceId(), maxText),
		Model:        t.take("model", m.GetModel(), maxText),
		PartNumber:   t.take("part_number", m.GetPartNumber(), maxText),
		SerialNumber: t.take("serial_number", m.GetSerialNumber(), maxText),
		BoardID:      t.take("board_id", m.GetBoardId(), maxText),
		Node:         t.take("node", m.GetNode(), maxText),
		Kernel:       t.take("kernel_driver", m.GetKernelDriver(), maxText),
		Transport:    t.take("transport", m.GetTransport(), maxText),
	}
	errs := []error{err, t.err()}
	if len(m.GetPciAddresses()) > maxPCI {
		return inventory.Identity{}, fmt.Errorf("identity: %d PCI addresses, the limit is %d", len(m.GetPciAddresses()), maxPCI)
	}
	for _, s := range m.GetPciAddresses() {
		a, err := inventory.ParsePCIAddress(s)
		errs = append(errs, err)
		id.PCI = append(id.PCI, a)
	}
	if err := errors.Join(errs...); err != nil {
		return inventory.Identity{}, fmt.Errorf("identity: %w", err)
	}
	return id, nil
}

// IdentityTo translates an identity into a message.
func IdentityTo(id inventory.Identity) (*pluginv1.Identity, error) {
	class, err := classes.to(id.Class)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	m := &pluginv1.Identity{
		Class: class, UniqueId: id.UniqueID, Vendor: id.Vendor, VendorId: id.VendorID, DeviceId: id.DeviceID, Model: id.Model,
		PartNumber: id.PartNumber, SerialNumber: id.SerialNumber, BoardId: id.BoardID, Node: id.Node, KernelDriver: id.Kernel,
		Transport: id.Transport,
	}
	for _, a := range id.PCI {
		m.PciAddresses = append(m.PciAddresses, a.String())
	}
	return m, nil
}

// FirmwareFrom translates the firmware of a device from a message. An empty running version is an error, because it
// means that the device was not read.
func FirmwareFrom(m *pluginv1.Firmware) (inventory.Firmware, error) {
	var t texts
	var errs []error
	fw := inventory.Firmware{
		Running:         inventory.Version(t.take("running", m.GetRunning(), maxVersion)),
		Stored:          inventory.Version(t.take("stored", m.GetStored(), maxVersion)),
		ReadOnly:        t.take("read_only", m.GetReadOnly(), maxMessage),
		RollbackMessage: t.take("rollback_message", m.GetRollbackMessage(), maxMessage),
		LastAttempt:     t.take("last_attempt", m.GetLastAttempt(), maxMessage),

		ActivationMessage: t.take("activation_message", m.GetActivationMessage(), maxMessage),
	}
	if m.GetRunning() == "" {
		errs = append(errs, errors.New("running is empty"))
	}
	fw.Activation = keep(&errs, activations.from, m.GetActivation())
	fw.Format = keep(&errs, formats.from, m.GetFormat())
	fw.Rollback = keep(&errs, rollbacks.from, m.GetRollback())
	if len(m.GetSlots()) > maxSlots {
		return inventory.Firmware{}, fmt.Errorf("firmware: %d slots, the limit is %d", len(m.GetSlots()), maxSlots)
	}
	for _, s := range m.GetSlots() {
		if s.GetNumber() < 0 {
			errs = append(errs, fmt.Errorf("slot %d: the number is negative", s.GetNumber()))
		}
		fw.Slots = append(fw.Slots, inventory.Slot{
			Number: int(s.GetNumber()), Version: inventory.Version(t.take("slot version", s.GetVersion(), maxVersion)),
			State: keep(&errs, slotStates.from, s.GetState()),
		})
	}
	if err := errors.Join(append(errs, t.err())...); err != nil {
		return inventory.Firmware{}, fmt.Errorf("firmware: %w", err)
	}
	return fw, nil
}

// keep collects the error and returns the value.
func keep[In, Out any](errs *[]error, translate func(In) (Out, error), value In) Out {
	out, err := translate(value)
	if err != nil {
		*errs = append(*errs, err)
	}
	return out
}

// FirmwareTo translates the firmware of a device into a message.
func FirmwareTo(fw inventory.Firmware) (*pluginv1.Firmware, error) {
	var errs []error
	m := &pluginv1.Firmware{
		Running: string(fw.Running), Stored: string(fw.Stored), ReadOnly: fw.ReadOnly, RollbackMessage: fw.RollbackMessage,
		LastAttempt: fw.LastAttempt, ActivationMessage: fw.ActivationMessage, Activation: keep(&errs, activations.to, fw.Activation), Format: keep(&errs, formats.to, fw.Format),
		Rollback: keep(&errs, rollbacks.to, fw.Rollback),
	}
	for _, s := range fw.Slots {
		if s.Number < 0 || s.Number > math.MaxInt32 {
			errs = append(errs, fmt.Errorf("slot %d: no such number", s.Number))
			continue
		}
		m.Slots = append(m.Slots, &pluginv1.Slot{
			Number: int32(s.Number), Version: string(s.Version), State: keep(&errs, slotStates.to, s.State),
		})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("firmware: %w", err)
	}
	return m, nil
}

// ImageFrom translates the description of an image from a message. It does not read the file.
func ImageFrom(m *pluginv1.Image) (driver.Image, error) {
	var t texts
	img := driver.Image{
		Path: t.take("path", m.GetPath(), maxMessage), Version: inventory.Version(t.take("version", m.GetVersion(), maxVersion)), Size: m.GetSize(),
	}
	digest, err := inventory.ParseDigest(m.GetDigest())
	img.Digest = digest
	if err = errors.Join(err, t.err()); err == nil && (img.Version == "" || img.Size < 0) {
		err = errors.New("it needs a version and a size")
	}
	if err != nil {
		return driver.Image{}, fmt.Errorf("image: %w", err)
	}
	return img, nil
}

// ImageTo translates the description of an image into a message.
func ImageTo(img driver.Image) *pluginv1.Image {
	return &pluginv1.Image{Path: img.Path, Version: string(img.Version), Digest: img.Digest.String(), Size: img.Size}
}

// pairs is a translation of an enum. Values that are not in it are errors in both directions.
type pairs[Ours, Theirs comparable] []pair[Ours, Theirs]

type pair[Ours, Theirs comparable] struct {
	ours   Ours
	theirs Theirs
}

func (p pairs[Ours, Theirs]) from(value Theirs) (Ours, error) {
	for _, one := range p {
		if one.theirs == value {
			return one.ours, nil
		}
	}
	var none Ours
	return none, fmt.Errorf("%T has the unknown value %v", value, value)
}

func (p pairs[Ours, Theirs]) to(value Ours) (Theirs, error) {
	for _, one := range p {
		if one.ours == value {
			return one.theirs, nil
		}
	}
	var none Theirs
	return none, fmt.Errorf("%T has the value %v, which the protocol does not know", value, value)
}

var classes = pairs[inventory.Class, pluginv1.Class]{
	{inventory.NIC, pluginv1.Class_CLASS_NIC},
	{inventory.Disk, pluginv1.Class_CLASS_DISK},
	{inventory.BIOS, pluginv1.Class_CLASS_BIOS},
	{inventory.StorageController, pluginv1.Class_CLASS_STORAGE_CONTROLLER},
}

var supports = pairs[driver.Support, pluginv1.Support]{
	{driver.SupportGeneric, pluginv1.Support_SUPPORT_GENERIC},
	{driver.SupportMainline, pluginv1.Support_SUPPORT_MAINLINE},
	{driver.SupportVendor, pluginv1.Support_SUPPORT_VENDOR},
}

var activations = pairs[inventory.Activation, pluginv1.Activation]{
	{inventory.ActivateNone, pluginv1.Activation_ACTIVATION_NONE},
	{inventory.ActivateDeviceReset, pluginv1.Activation_ACTIVATION_DEVICE_RESET},
	{inventory.ActivateDriverReload, pluginv1.Activation_ACTIVATION_DRIVER_RELOAD},
	{inventory.ActivateReboot, pluginv1.Activation_ACTIVATION_REBOOT},
	{inventory.ActivatePowerCycle, pluginv1.Activation_ACTIVATION_POWER_CYCLE},
}

var rollbacks = pairs[inventory.Rollback, pluginv1.Rollback]{
	{inventory.RollbackNone, pluginv1.Rollback_ROLLBACK_NONE},
	{inventory.RollbackReadBack, pluginv1.Rollback_ROLLBACK_READ_BACK},
	{inventory.RollbackSlot, pluginv1.Rollback_ROLLBACK_SLOT},
	{inventory.RollbackImage, pluginv1.Rollback_ROLLBACK_IMAGE},
}

var formats = pairs[inventory.VersionFormat, pluginv1.VersionFormat]{
	{inventory.FormatPlain, pluginv1.VersionFormat_VERSION_FORMAT_PLAIN},
	{inventory.FormatDotted, pluginv1.VersionFormat_VERSION_FORMAT_DOTTED},
}

var slotStates = pairs[inventory.SlotState, pluginv1.SlotState]{
	{inventory.SlotActive, pluginv1.SlotState_SLOT_STATE_ACTIVE},
	{inventory.SlotPending, pluginv1.SlotState_SLOT_STATE_PENDING},
	{inventory.SlotReadOnly, pluginv1.SlotState_SLOT_STATE_READ_ONLY},
	{inventory.SlotIdle, pluginv1.SlotState_SLOT_STATE_IDLE},
}

// ActivationFrom translates a kind of activation from a message.
func ActivationFrom(a pluginv1.Activation) (inventory.Activation, error) { return activations.from(a) }

// ActivationTo translates a kind of activation into a message.
func ActivationTo(a inventory.Activation) (pluginv1.Activation, error) { return activations.to(a) }

// InfoFrom translates and checks a plugin's info from a message.
func InfoFrom(m *pluginv1.GetInfoResponse) (plugin.Info, error) {
	info := plugin.Info{Name: m.GetName(), Version: m.GetVersion(), Settings: m.GetSettings()}
	var errs []error
	for _, match := range m.GetMatches() {
		info.Matches = append(info.Matches, plugin.Match{
			Class: keep(&errs, classes.from, match.GetClass()), Support: keep(&errs, supports.from, match.GetSupport()),
			Vendors: match.GetVendors(), VendorIDs: match.GetVendorIds(), DeviceIDs: match.GetDeviceIds(), Models: match.GetModels(),
			Transports: match.GetTransports(), Kernel: match.GetKernelDrivers(),
		})
	}
	if err := errors.Join(append(errs, info.Check())...); err != nil {
		return plugin.Info{}, err
	}
	return info, nil
}

// InfoTo checks a plugin's info and translates it into a message.
func InfoTo(info plugin.Info) (*pluginv1.GetInfoResponse, error) {
	if err := info.Check(); err != nil {
		return nil, err
	}
	m := &pluginv1.GetInfoResponse{Status: OK(), Name: info.Name, Version: info.Version, Settings: info.Settings}
	for _, match := range info.Matches {
		class, err := classes.to(match.Class)
		support, err2 := supports.to(match.Support)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		m.Matches = append(m.Matches, &pluginv1.Match{
			Class: class, Support: support, Vendors: match.Vendors, VendorIds: match.VendorIDs, DeviceIds: match.DeviceIDs,
			Models: match.Models, Transports: match.Transports, KernelDrivers: match.Kernel,
		})
	}
	return m, nil
}
