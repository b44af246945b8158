package devlink

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

// withVirtualFunctions is a machine whose adapter has virtual functions.
func withVirtualFunctions(n string) sysfstest.Machine {
	m := sysfstest.NewMachine()
	m.Files("sys/bus/pci/devices/0000:3b:00.1", map[string]string{"sriov_numvfs": n})
	return m
}

// The kernel driver would take them away.
func TestAnAdapterWithVirtualFunctionsIsNotReset(t *testing.T) {
	a, id := broadcom()
	a.Stored = "1.1.0"
	k := newFakeKernel(t, a)
	d := New(runnerOf(t, k), withVirtualFunctions("3"), k.dial)
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, fw.Activation)
	assert.Equal(t, "InUse: 0000:3b:00.1 has 3 virtual functions, which a reset would remove", fw.ActivationMessage)
	need, why, err := driver.StillNeeded(d.Activate(t.Context(), id, inventory.ActivateDriverReload))
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	assert.Contains(t, why, "InUse")
	after, err := k.load()
	require.NoError(t, err)
	assert.Equal(t, a, after, "nothing was activated")

	need, err = New(runnerOf(t, k), withVirtualFunctions("0"), k.dial).Activate(t.Context(), id, inventory.ActivateDriverReload)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need)
}

// A card in two slots comes back whole only if both of its halves are reset together.
func TestTwoSlotAdapterIsNotReset(t *testing.T) {
	a, id := broadcom()
	a.Stored = "1.1.0"
	id.PCI = append(id.PCI, inventory.PCIAddress{Bus: 0xaf})
	k := newFakeKernel(t, a)
	d := New(runnerOf(t, k), withVirtualFunctions("0"), k.dial)
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, fw.Activation)
	assert.Contains(t, fw.ActivationMessage, "0000:af:00.0 (Socket-Direct)")
	_, why, err := driver.StillNeeded(d.Activate(t.Context(), id, inventory.ActivateDriverReload))
	require.NoError(t, err)
	assert.Contains(t, why, "Socket-Direct")
	after, err := k.load()
	require.NoError(t, err)
	assert.Equal(t, a, after, "nothing was activated")
}

func TestABlueFieldIsUpdatedInNICModeAloneAndNeverReset(t *testing.T) {
	for manager, refusal := range map[string]string{"host": "", "card": "in DPU mode: its own processors control it", "": "its mode cannot be read"} {
		a := adapter{
			Handle: "pci/0000:3b:00.0", VersionName: "fw.version", Board: [2]string{"fw.psid", "MT_0000000540"}, Running: "24.41.1000",
			ForImages: "MT_0000000540", Switch: manager,
		}
		k := newFakeKernel(t, a)
		id := card("mlx5_core", "a2d6")
		d := New(runnerOf(t, k), sysfstest.NewMachine(), k.dial)
		_, fw, err := d.Inspect(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, inventory.ActivateReboot, fw.Activation)
		assert.Contains(t, fw.ActivationMessage, "another mode")
		img := drivertest.SaveImage(t, "24.42.1000", []byte("MLNX.MFA2.XZ.00!"))
		checked := d.Check(t.Context(), id, img)
		if refusal == "" {
			assert.Empty(t, fw.ReadOnly)
			require.NoError(t, checked)
			continue
		}
		assert.Contains(t, fw.ReadOnly, refusal)
		require.ErrorContains(t, checked, refusal)
		_, err = d.Write(t.Context(), id, img, nil)
		require.ErrorContains(t, err, refusal)
		after, err := k.load()
		require.NoError(t, err)
		assert.Equal(t, a, after, "nothing was written")
	}
}
