package steps_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// R003-5: the settings are back at their defaults after the reboot the step asks for.
func TestResetBIOSSettings(t *testing.T) {
	b := newBench(t)
	m, err := simhost.Create(filepath.Join(b.tasks.Root, "m"), simhost.DefaultSpec("m", 0))
	require.NoError(t, err)
	require.NoError(t, m.SetBIOSSetting("SecureBoot", "Disabled"))
	b.tasks.Root = m.Dir()
	for range 2 { // once more after a crash
		ret := b.run(plan.ResetBIOSSettings, journal.RequestedStep{}, journal.Update{})
		b.succeeds(ret, "the settings are reset (factory) at the next boot")
		assert.True(t, ret.Reboot)
	}
	require.NoError(t, m.Boot())
	settings, err := m.BIOSSettings()
	require.NoError(t, err)
	assert.Equal(t, "Enabled", settings["SecureBoot"])
}

func TestResetOfSettingsThatCannotBeHadSaysWhy(t *testing.T) {
	const file = "attributes/reset_bios"
	for name, c := range map[string]struct {
		files   map[string]string
		message string
	}{
		"no such class":          {nil, "this machine's firmware offers no attributes to the kernel"},
		"no reset":               {map[string]string{"thinklmi/attributes/pending_reboot": "0\n"}, "but no reset of them"},
		"no reset to defaults":   {map[string]string{"vendor/" + file: "lastknowngood custom\n"}, "offers no reset to its defaults"},
		"several":                {map[string]string{"a/" + file: "factory\n", "b/" + file: "factory\n"}, "it is not known which one to use"},
		"nothing but the safe":   {map[string]string{"vendor/" + file: "builtinsafe custom\n"}, ""},
		"selected already":       {map[string]string{"vendor/" + file: "builtinsafe [factory] custom\n"}, ""},
		"another one selected":   {map[string]string{"vendor/" + file: "[builtinsafe] factory custom\n"}, ""},
		"firmware without class": {map[string]string{}, "this machine's firmware offers no attributes to the kernel"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			class := filepath.Join(b.tasks.Root, "sys/class/firmware-attributes")
			if c.files != nil {
				require.NoError(t, os.MkdirAll(class, 0o755))
			}
			for path, text := range c.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(class, path)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(class, path), []byte(text), 0o644))
			}
			ret := b.run(plan.ResetBIOSSettings, journal.RequestedStep{}, journal.Update{})
			if c.message != "" {
				b.fails(ret, c.message)
				return
			}
			b.succeeds(ret, "at the next boot")
		})
	}
}

func TestAttributeThatLeadsOutOfTheMachineIsRefused(t *testing.T) {
	b := newBench(t)
	dir := filepath.Join(b.tasks.Root, "sys/class/firmware-attributes/vendor/attributes")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(dir, "reset_bios")))
	b.fails(b.run(plan.ResetBIOSSettings, journal.RequestedStep{}, journal.Update{}), "escapes")
}
