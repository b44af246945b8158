package drivertest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func configurable(t *testing.T) (*drivertest.Simulated, inventory.Identity) {
	t.Helper()
	sim, id := simulated(inventory.ActivateReboot)
	sim.Give(card, parameters(inventory.ActivateReboot)...)
	return sim, id
}

func TestNewFirmwareBringsAParameter(t *testing.T) {
	sim, id := configurable(t)
	sim.Bring(card, "2.0.0", inventory.Parameter{Name: "NEW", Current: inventory.Read("0")})
	set := driver.Configuration{Set: []inventory.Setting{{Name: "NEW", Value: "1"}}}
	require.ErrorContains(t, sim.CheckConfiguration(t.Context(), id, set), "no parameter NEW")
	write(t, sim, id, drivertest.NewImage(t, board, "2.0.0"))
	require.ErrorContains(t, sim.CheckConfiguration(t.Context(), id, set), "no parameter NEW")
	sim.Reboot()
	require.NoError(t, sim.CheckConfiguration(t.Context(), id, set))
	_, err := sim.Configure(t.Context(), id, set)
	require.NoError(t, err)
	assert.Equal(t, "1", sim.Parameter(card, "NEW").Current.Value)
}

func TestAFlashMayResetTheParameters(t *testing.T) {
	sim, id := configurable(t)
	sim.Tell(card, "numVFs", "8")
	sim.Reboot()
	assert.Equal(t, "8", sim.Parameter(card, "numVFs").Current.Value)
	sim.Inject(card, drivertest.FlashResets)
	write(t, sim, id, drivertest.NewImage(t, board, "2.0.0"))
	assert.Equal(t, "8", sim.Parameter(card, "numVFs").Current.Value)
	sim.Reboot()
	assert.Equal(t, "0", sim.Parameter(card, "numVFs").Next.Value)
	assert.Equal(t, "0", sim.Parameter(card, "numVFs").Current.Value)
}

func TestAConfigurationCutOffIsCompletedByAnother(t *testing.T) {
	sim, id := configurable(t)
	sim.Inject(card, drivertest.HalfConfigure)
	set := driver.Configuration{Set: []inventory.Setting{{Name: "SRIOV_EN", Value: "True"}, {Name: "numVFs", Value: "8"}}}
	_, err := sim.Configure(t.Context(), id, set)
	require.ErrorIs(t, err, command.ErrLost)
	assert.Equal(t, "True", sim.Parameter(card, "SRIOV_EN").Next.Value)
	assert.Equal(t, "0", sim.Parameter(card, "numVFs").Next.Value)
	sim.Clear(card)
	needs, err := sim.Configure(t.Context(), id, set)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, needs)
	assert.Equal(t, "8", sim.Parameter(card, "numVFs").Next.Value)
}

func TestVolatileValuesAreLostWithTheBoot(t *testing.T) {
	sim, _ := simulated(inventory.ActivateReboot)
	sim.Give(card, inventory.Parameter{Name: "sriov_numvfs", Current: inventory.Read("0"), Default: inventory.Read("0"), Volatile: true})
	sim.Tell(card, "sriov_numvfs", "4")
	assert.Equal(t, "4", sim.Parameter(card, "sriov_numvfs").Current.Value)
	sim.Reboot()
	assert.Equal(t, "0", sim.Parameter(card, "sriov_numvfs").Current.Value)
}

func TestTheDriverThatReadADeviceConfiguresIt(t *testing.T) {
	sim, id := configurable(t)
	set := driver.Set{sim}
	c, err := set.Configurer(inventory.Device{Identity: id, Firmware: &inventory.Firmware{}, Driver: sim.Name()})
	require.NoError(t, err)
	all, err := c.Parameters(t.Context(), id)
	require.NoError(t, err)
	assert.Len(t, all, 3)
	_, err = set.Configurer(inventory.Device{Identity: id})
	assert.ErrorContains(t, err, "no driver reads the device")
}

func TestADeviceThatDoesNotSayWhatIsInForceNeedsItsActivation(t *testing.T) {
	sim, id := simulated(inventory.ActivateReboot)
	sim.Give(card, inventory.Parameter{Name: "MODE", Next: inventory.Read("1"), Needs: inventory.ActivateReboot})
	for _, want := range []inventory.Activation{inventory.ActivateReboot, inventory.ActivateNone} {
		needs, err := sim.Configure(t.Context(), id, driver.Configuration{Set: []inventory.Setting{{Name: "MODE", Value: "2"}}})
		require.NoError(t, err)
		assert.Equal(t, want, needs, "the second time nothing is written")
	}
}
