package simhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// Disk is the file that stands for the block device of a SCSI disk, or of an NVMe drive's namespace. It has holes where nothing was written.
func (m *Machine) Disk(key string) string {
	if strings.HasPrefix(key, "nvme") {
		key += "n1"
	}
	return filepath.Join(m.dir, "dev", key)
}

// makeDisk makes the file.
func (m *Machine) makeDisk(key string, sectors int64) error {
	path := m.Disk(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(sectors*512), f.Close())
}

// eraseDisk makes it read as zeros.
func (m *Machine) eraseDisk(key string, sectors int64) error {
	return errors.Join(os.Truncate(m.Disk(key), 0), os.Truncate(m.Disk(key), sectors*512))
}

// nvmeSanitize begins a sanitize operation. nvme-cli prints nothing then.
func nvmeSanitize(c *call, t *nvmeTarget, o options) (int, error) {
	names := map[string]uint64{"exit-failure": 1, "start-block-erase": 2, "start-overwrite": 3, "start-crypto-erase": 4}
	action, err := strconv.ParseUint(o.values["sanact"], 0, 8)
	if named, ok := names[o.values["sanact"]]; ok {
		action, err = named, nil
	}
	passes, err2 := strconv.ParseUint(defaultTo(o.values["owpass"], "0"), 0, 8)
	switch {
	case err != nil || err2 != nil || action < 1 || action > 4:
		return c.fail(1, "Invalid Sanitize Action\n")
	case passes > 15:
		return c.fail(1, "OWPASS out of range [0-15]\n")
	case action != 3 && (o.has("owpass") || o.has("oipbp") || o.has("ovrpat")):
		return c.fail(1, "SANACT is not Overwrite\n")
	}
	command := uint32(action) | uint32(passes)<<4
	if o.has("ause") {
		command |= 1 << 3
	}
	if status := t.controller.StartSanitize(command); status != nvmectrl.Success {
		code, _ := c.nvmeFailed(status)
		return code, c.refused(t.Key, "Sanitize", Image{}, status.String())
	}
	err = c.do(job{
		op:    Operation{Device: t.Key, Action: "Sanitize", Detail: fmt.Sprintf("action %d", action)},
		begin: t.change(func(c *nvmectrl.Controller) { c.StartSanitize(command) }),
	})
	if errors.Is(err, errBusy) {
		return c.nvmeFailed(nvmectrl.SanitizeInProgress)
	}
	return 0, errors.Join(err, t.err)
}

// nvmeSanitizeLog prints the log. Each reading is a step of the operation. The faults of the operation "erase" are those of its last step: Fail makes it
// fail, Lie makes the drive claim that it is done and leave all data, and Hang keeps it from ending.
func nvmeSanitizeLog(c *call, t *nvmeTarget, _ options) (int, error) {
	if t.Sanitizes == 0 {
		return c.nvmeFailed(nvmectrl.InvalidLogPage)
	}
	var now nvmectrl.Sanitize
	err := c.m.update(func(s *state) error {
		now = s.NVMe[t.Key].Sanitize
		if now.Status != nvmectrl.Sanitizing {
			return nil
		}
		next := now
		if next.Left > 1 {
			next.Advance()
			s.NVMe[t.Key].Sanitize = next
			return nil
		}
		f, err := c.m.strike("nvme", t.Key, "erase", Fail, Lie, Hang)
		switch {
		case err != nil:
			return err
		case f == nil:
			err = c.m.eraseDisk(t.Key, t.Sectors)
		case f.Kind == Hang:
			return nil
		case f.Kind == Fail:
			next.Fails = true
		}
		next.Advance()
		next.Fails = false
		s.NVMe[t.Key].Sanitize = next
		return err
	})
	if err != nil {
		return 0, err
	}
	texts := map[nvmectrl.SanitizeStatus]string{
		nvmectrl.NeverSanitized: "The NVM subsystem has never been sanitized.",
		nvmectrl.SanitizeDone:   "Most Recent Sanitize Command Completed Successfully.",
		nvmectrl.Sanitizing:     "Sanitize in Progress.",
		nvmectrl.SanitizeBroken: "Most Recent Sanitize Command Failed.",
	}
	erased := 0
	if now.Erased() {
		erased = 1
	}
	unknown := uint32(0xffffffff)
	c.printf("%s\n", indented(object{{t.Key, object{
		{"sprog", now.Progress()},
		{"sstat", object{
			{"global_erased", erased}, {"no_cmplted_passes", 0}, {"status", fmt.Sprintf("(%d) %s", now.Status, texts[now.Status])},
		}},
		{"cdw10_info", now.Command}, {"time_over_write", unknown}, {"time_block_erase", unknown}, {"time_crypto_erase", unknown},
		{"time_over_write_no_dealloc", unknown}, {"time_block_erase_no_dealloc", unknown}, {"time_crypto_erase_no_dealloc", unknown},
	}}}, colonC))
	return 0, nil
}
