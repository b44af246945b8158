package nvmetcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// load reads the state file.
func (d *Drive) load() (nvmectrl.Firmware, error) {
	file, err := d.config.FS.Open(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		slots := make([]nvmectrl.Slot, d.config.Slots)
		slots[0].Revision = d.config.Revision
		return nvmectrl.NewFirmware(slots...), nil
	}
	if err != nil {
		return nvmectrl.Firmware{}, fmt.Errorf("read state: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, 64<<10))
	if err != nil {
		return nvmectrl.Firmware{}, fmt.Errorf("read state: %w", err)
	}
	var f nvmectrl.Firmware
	if err := json.Unmarshal(content, &f); err != nil {
		return nvmectrl.Firmware{}, fmt.Errorf("read state %s: %w", d.path, err)
	}
	if len(f.Slots) != d.config.Slots {
		return nvmectrl.Firmware{}, fmt.Errorf("read state %s: %d slots for a drive of %d", d.path, len(f.Slots), d.config.Slots)
	}
	return f, nil
}

// keep stores next on disk and then makes it the state of the drive. The caller holds d.mu or has the only reference.
func (d *Drive) keep(next nvmectrl.Controller) error {
	content, err := json.MarshalIndent(next.Firmware, "", "  ")
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := durable.WriteFile(d.config.FS, d.path, append(content, '\n')); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	d.core = next
	return nil
}
