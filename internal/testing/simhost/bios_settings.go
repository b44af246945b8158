package simhost

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The settings of the simulated system firmware with their defaults.
var biosDefaults = map[string]string{"BootMode": "UEFI", "SecureBoot": "Enabled", "SriovGlobalEnable": "Disabled"}

// biosResets are the kinds of reset the system firmware knows.
var biosResets = []string{"builtinsafe", "lastknowngood", "factory", "custom"}

const (
	biosAttributes = "sys/devices/virtual/firmware-attributes/simulated-bios/attributes"
	biosResetFile  = biosAttributes + "/reset_bios"
)

// renderBIOSSettings adds /sys/class/firmware-attributes (Documentation/ABI/testing/sysfs-class-firmware-attributes of
// the kernel).
func renderBIOSSettings(t tree, s *state) {
	for name, standard := range biosDefaults {
		t.attrs(biosAttributes+"/"+name, "type", "enumeration", "display_name", name, "default_value", standard,
			"current_value", s.BIOS.setting(name))
	}
	t.file(biosAttributes, "pending_reboot", "0\n", 0o444)
	t.file(biosAttributes, "reset_bios", strings.Join(biosResets, " ")+"\n", 0o644)
	t.link("sys/class/firmware-attributes/simulated-bios", filepath.Dir(biosAttributes))
}

func (b *biosState) setting(name string) string {
	if v, ok := b.Settings[name]; ok {
		return v
	}
	return biosDefaults[name]
}

// resetSettings performs the reset that the host wrote into reset_bios since the last boot. The machine keeps no custom
// or earlier configuration, so those kinds change nothing.
func (m *Machine) resetSettings(s *state) error {
	path := filepath.Join(m.dir, biosResetFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the machine is being created
	}
	if err != nil {
		return err
	}
	switch strings.TrimSpace(string(text)) {
	case "factory", "builtinsafe":
		s.BIOS.Settings = nil
	}
	tree := tree{}
	renderBIOSSettings(tree, s)
	return m.writeEntry(path, tree[biosResetFile])
}

// BIOSSettings are the settings of the system firmware.
func (m *Machine) BIOSSettings() (map[string]string, error) {
	s, err := m.view()
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for name := range biosDefaults {
		settings[name] = s.BIOS.setting(name)
	}
	return settings, nil
}

// SetBIOSSetting changes a setting, as a person does in the setup menu.
func (m *Machine) SetBIOSSetting(name, value string) error {
	if _, ok := biosDefaults[name]; !ok {
		return fmt.Errorf("set BIOS setting %s: known are %v", name, slices.Sorted(maps.Keys(biosDefaults)))
	}
	return m.update(func(s *state) error {
		if s.BIOS.Settings == nil {
			s.BIOS.Settings = map[string]string{}
		}
		s.BIOS.Settings[name] = value
		return nil
	})
}
