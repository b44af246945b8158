package mstflint

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestParseResetLevels(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		// later is what an image needs that is burned later, now what the stored one does.
		later, now inventory.Activation
		resets     []string
	}{
		"level 3 is a device reset": {"reset-4.21.0-level3.txt", inventory.ActivateDeviceReset, inventory.ActivateDeviceReset, []string{"3"}},
		"a live patch of what is stored does not hide level 3": {
			"reset-4.26.1-live-patch.txt", inventory.ActivateDeviceReset, inventory.ActivateDeviceReset, []string{"0", "3"},
		},
		"level 4 is a reboot": {"reset-4.21.0-level4.txt", inventory.ActivateReboot, inventory.ActivateReboot, nil},
		"level 3 that nobody can synchronise leaves the live patch": {
			"reset-4.28.0-no-sync.txt", inventory.ActivateReboot, inventory.ActivateDeviceReset, []string{"0"},
		},
		"level 3 that the driver synchronises is a device reset": {
			"reset-4.33.0-driver-sync.txt", inventory.ActivateDeviceReset, inventory.ActivateDeviceReset, []string{"3"},
		},
		"level 3 that the firmware alone synchronises is not used": {
			"reset-4.33.0-firmware-sync.txt", inventory.ActivateReboot, inventory.ActivateReboot, nil,
		},
		"no level 3 without a list of owners": {"reset-4.33.0-no-sync.txt", inventory.ActivateReboot, inventory.ActivateReboot, nil},
		"no level needs a power-cycle":        {"reset-4.21.0-none.txt", inventory.ActivatePowerCycle, inventory.ActivatePowerCycle, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseResetLevels(golden(t, c.file))
			require.NoError(t, err)
			assert.Equal(t, c.later, got.expects())
			assert.Equal(t, c.now, got.needs())
			assert.Equal(t, c.resets, got.resets())
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
			for _, kind := range []inventory.Activation{got.expects(), got.needs()} {
				assert.Contains(t, []inventory.Activation{
					inventory.ActivateDeviceReset, inventory.ActivateReboot, inventory.ActivatePowerCycle,
				}, kind)
			}
		}
	})
}
