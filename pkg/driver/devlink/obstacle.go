package devlink

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/mdlayher/netlink"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// isBlueField reports whether an adapter has processors of its own, which may control it instead of this host.
func isBlueField(id inventory.Identity) bool {
	return id.Kernel == "mlx5_core" && strings.HasPrefix(id.DeviceID, "a2d")
}

// obstacle says why an adapter that its kernel driver could reset is not; empty when no reason is known.
func (d *Driver) obstacle(id inventory.Identity) string {
	if isBlueField(id) {
		return "a reset may bring a BlueField back in another mode"
	}
	for _, f := range id.PCI {
		if first := id.PCI[0]; f.Slot() != first.Slot() {
			return fmt.Sprintf("the card is in two slots, at %s and %s (Socket-Direct), and a reset might reach one of them alone", first, f)
		}
	}
	if d.root == nil {
		return ""
	}
	for _, f := range id.PCI {
		n, err := sysfs.VirtualFunctions(d.root, f)
		switch {
		case err != nil:
			return fmt.Sprintf("it is not known whether %s has virtual functions: %v", f, err)
		case n > 0:
			return fmt.Sprintf("InUse: %s has %d virtual functions, which a reset would remove", f, n)
		}
	}
	return ""
}

// modeRefusal says why a BlueField is not updated from this host; empty for one that may be, and for other adapters.
func (d *Driver) modeRefusal(id inventory.Identity, h Handle) string {
	if !isBlueField(id) {
		return ""
	}
	switch controls, err := d.dial.controlsSwitch(h); {
	case err != nil:
		return fmt.Sprintf("the adapter is a BlueField and its mode cannot be read: %v; in DPU mode it must not be updated from here", err)
	case !controls:
		return "the adapter is a BlueField in DPU mode: its own processors control it; update it from there, or change it to NIC mode"
	}
	return ""
}

// controlsSwitch reports whether this host controls the switch inside a device of mlx5_core, by whether the driver lets it read the
// mode of the switch (mlx5/core/eswitch_offloads.c: EPERM where another processor is the manager).
func (dial Dialer) controlsSwitch(h Handle) (bool, error) {
	c, err := dial.open()
	if err != nil {
		return false, err
	}
	defer c.Close()
	_, err = c.request(cmdEswitchGet, h, 0, func(*netlink.AttributeEncoder) {})
	switch {
	case errors.Is(err, syscall.EPERM):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("ask for the switch of %s: %w", h, err)
	}
	return true, nil
}

// Usable returns an error if the kernel does not offer devlink.
func (d *Driver) Usable() error {
	c, err := d.dial.open()
	if err != nil {
		return err
	}
	return c.Close()
}
