package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// list enumerates a class from sysfs. An error means that devices may be missing from the list. The kernel can hang in
// a read for as long as a device is being reset, so even this has a deadline.
func (h *Host) list(ctx context.Context, class inventory.Class) ([]candidate, error) {
	type listed struct {
		candidates []candidate
		err        error
	}
	got, err := attempt(ctx, h, "list "+string(class), func(ctx context.Context) listed {
		candidates, err := h.enumerate(ctx, class)
		return listed{candidates, err}
	})
	if err == nil {
		err = got.err
	}
	if err != nil {
		err = fmt.Errorf("list %s devices: %w", class, err)
	}
	return got.candidates, err
}

func (h *Host) enumerate(ctx context.Context, class inventory.Class) ([]candidate, error) {
	// Nothing at all below the host root looks like a machine without devices.
	if _, err := fs.Stat(h.cfg.FS, "sys/class"); err != nil {
		return nil, fmt.Errorf("sysfs is not mounted below the host root: %w", err)
	}
	switch class {
	case inventory.NIC:
		return h.nics(ctx)
	case inventory.StorageController:
		return h.controllers()
	case inventory.Disk:
		return h.disks()
	case inventory.BIOS:
		return h.bios()
	}
	return nil, errors.New("unknown class")
}
