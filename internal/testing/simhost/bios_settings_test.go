package simhost_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

func TestNextBootResetsBIOSSettings(t *testing.T) {
	m, err := simhost.Create(filepath.Join(t.TempDir(), "m"), simhost.DefaultSpec("m", 0))
	require.NoError(t, err)
	attributes := filepath.Join(m.Dir(), "sys/class/firmware-attributes/simulated-bios/attributes")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(attributes, name))
		require.NoError(t, err)
		return strings.TrimSpace(string(text))
	}
	setting := func() string {
		settings, err := m.BIOSSettings()
		require.NoError(t, err)
		assert.Equal(t, settings["SecureBoot"], read("SecureBoot/current_value"))
		return settings["SecureBoot"]
	}
	assert.Equal(t, "Enabled", setting())
	require.NoError(t, m.SetBIOSSetting("SecureBoot", "Disabled"))
	require.ErrorContains(t, m.SetBIOSSetting("Fan", "loud"), "known are [BootMode SecureBoot SriovGlobalEnable]")
	assert.Equal(t, "Disabled", setting())
	require.NoError(t, m.Boot())
	assert.Equal(t, "Disabled", setting(), "a reboot alone resets nothing")

	require.NoError(t, os.WriteFile(filepath.Join(attributes, "reset_bios"), []byte("factory"), 0o644))
	assert.Equal(t, "Disabled", setting(), "not before the reboot")
	require.NoError(t, m.Boot())
	assert.Equal(t, "Enabled", setting())
	assert.Equal(t, "builtinsafe lastknowngood factory custom", read("reset_bios"), "nothing is selected any more")

	require.NoError(t, m.SetBIOSSetting("SecureBoot", "Disabled"))
	require.NoError(t, os.WriteFile(filepath.Join(attributes, "reset_bios"), []byte("custom"), 0o644))
	require.NoError(t, m.Boot())
	assert.Equal(t, "Disabled", setting(), "the machine keeps no custom configuration")
}
