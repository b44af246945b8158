package devlink

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Zero switches SR-IOV off and leaves the number alone, as with mstflint: it is what comes back when it is switched on.
func TestNumVFsIsTwoParametersOfTheFirmware(t *testing.T) {
	a, id := broadcom()
	a.Params = []fakeParam{{"enable_sriov", 6, 2, "true", "false"}, {"total_vfs", 3, 2, "8", "16"}}
	k := newFakeKernel(t, a)
	d := New(runnerOf(t, k), simulatedTree(), k.dial)
	read := func() inventory.Parameter {
		all, err := d.Parameters(t.Context(), id, inventory.SettingNumVFs)
		require.NoError(t, err)
		require.Len(t, all, 3, "with those that it sets")
		return *inventory.FindParameter(all, inventory.SettingNumVFs)
	}
	assert.Equal(t, inventory.Read("8"), read().Next)
	assert.Equal(t, inventory.Read("0"), read().Default)
	needs, err := d.Configure(t.Context(), id, driver.Configuration{Set: []inventory.Setting{{Name: inventory.SettingNumVFs, Value: "0"}}})
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, needs)
	assert.Equal(t, inventory.Read("0"), read().Next)
	now, err := k.load()
	require.NoError(t, err)
	assert.Equal(t, []fakeParam{{"enable_sriov", 6, 2, "false", "false"}, {"total_vfs", 3, 2, "8", "16"}}, now.Params)
	a.Params = a.Params[:1]
	require.NoError(t, k.save(a))
	all, err := d.Parameters(t.Context(), id, inventory.SettingNumVFs)
	require.NoError(t, err)
	assert.Empty(t, all, "without the number there is only a switch")
}
