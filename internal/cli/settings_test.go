package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func (s *stage) settings(t *testing.T, device string) (cli.Settings, error) {
	t.Helper()
	return cli.ReadSettings(t.Context(), s.scan(t), s.hardware.Drivers, device)
}

func TestSettingsAreListed(t *testing.T) {
	s := newStage(t)
	found := s.scan(t)
	card := found.Devices[len(found.Devices)-1]
	for _, d := range found.Devices {
		if len(d.PCI) > 0 && d.PCI[0].String() == "0000:3b:00.0" {
			card = d
		}
	}
	c, err := s.hardware.Drivers.Configurer(card)
	require.NoError(t, err)
	_, err = c.Configure(t.Context(), card.Identity, driver.Configuration{Set: []inventory.Setting{{Name: "numVFs", Value: "8"}}})
	require.NoError(t, err)

	all, err := s.settings(t, "")
	require.NoError(t, err)
	golden.Equal(t, "testdata/settings.table", print(t, cli.Table, all))
	for _, device := range []string{card.UniqueID, "0000:3b:00.1", "ENS1F0NP0"} {
		one, err := s.settings(t, device)
		require.NoError(t, err)
		require.Len(t, one.Devices, 1)
		golden.Equal(t, "testdata/settings-card.wide", print(t, cli.Wide, one.Wide()))
		golden.Equal(t, "testdata/settings-card.json", print(t, cli.JSON, one))
	}
}

func TestWhoseSettingsCannotBeReadIsSaid(t *testing.T) {
	s := newStage(t)
	_, err := s.settings(t, "nvme0")
	require.ErrorContains(t, err, "driver nvme reads and changes no settings")
	_, err = s.settings(t, "eth9")
	require.ErrorIs(t, err, cli.ErrNoDevice)
	require.NoError(t, s.SetFault(simhost.Fault{Kind: simhost.Fail, Tool: "mstconfig", Device: "nic0", ExitCode: 3, Stderr: "-E- Device is busy"}))
	all, err := s.settings(t, "")
	require.ErrorContains(t, err, "Device is busy")
	assert.Contains(t, print(t, cli.Table, all), "Device is busy")
	require.NoError(t, os.Remove(filepath.Join(s.ToolPath(), "mstconfig")))
	_, err = s.settings(t, "0000:5e:00.0")
	require.ErrorContains(t, err, "mstconfig")
}
