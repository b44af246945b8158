package mstflint

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestParseResetLevels(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       inventory.Activation
	}{
		{"level 3 is a device reset", "reset-4.21.0-level3.txt", inventory.ActivateDeviceReset},
		{"a live patch of another image does not hide level 3", "reset-4.26.1-live-patch.txt", inventory.ActivateDeviceReset},
		{"level 4 is a reboot", "reset-4.21.0-level4.txt", inventory.ActivateReboot},
		{"level 3 that nobody can synchronise needs a reboot", "reset-4.28.0-no-sync.txt", inventory.ActivateReboot},
		{"no level needs a power-cycle", "reset-4.21.0-none.txt", inventory.ActivatePowerCycle},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseResetLevels(golden(t, c.file))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestParseResetLevelsRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, out := range []string{
		"",
		"-E- Failed to open device",
		"Reset-levels:\n3: Driver restart and PCI reset -Supported\n",
		"Reset-levels:\n3: Driver restart and PCI reset -Perhaps\n4: Warm Reboot -Supported\n",
		"Reset-types:\n3: ARM only reset -Supported\n4: ARM OS shut down -Supported\n",
	} {
		_, err := parseResetLevels(out)
		assert.Error(t, err, out)
	}
}

func FuzzParseResetLevels(f *testing.F) {
	files, err := filepath.Glob("testdata/reset-*.txt")
	require.NoError(f, err)
	for _, file := range files {
		f.Add(golden(f, filepath.Base(file)))
	}
	f.Fuzz(func(t *testing.T, out string) {
		got, err := parseResetLevels(out)
		if err == nil {
			assert.Contains(t, []inventory.Activation{
				inventory.ActivateDeviceReset, inventory.ActivateReboot, inventory.ActivatePowerCycle,
			}, got)
		}
	})
}
