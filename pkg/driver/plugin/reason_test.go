package plugin_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// inUse is a plugin's driver of a card that is not reset, because it is in use.
type inUse struct {
	*drivertest.Simulated
	// before is what an inspection says, reason what an activation says.
	before, reason string
}

func (d inUse) Inspect(ctx context.Context, id inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	id, fw, err := d.Simulated.Inspect(ctx, id)
	fw.Activation, fw.ActivationMessage = inventory.ActivateReboot, d.before
	return id, fw, err
}

func (d inUse) Activate(context.Context, inventory.Identity, inventory.Activation) (inventory.Activation, error) {
	return 0, &driver.NotEnoughError{Needs: inventory.ActivateReboot, Reason: d.reason}
}

// Why a reset was not done, or will not be, is said by a plugin as by a driver of the daemon.
func TestPluginSaysWhyNoReset(t *testing.T) {
	const reason = "InUse: 0000:3b:00.0 has 8 virtual functions"
	for name, c := range map[string]struct{ says, want string }{
		"a reason":              {reason, reason},
		"a reason of two lines": {"InUse:\n8 of them", "InUse: 8 of them"},
		"no reason":             {"", ""},
		"a very long reason":    {strings.Repeat("x", 5000), text.Clip(strings.Repeat("x", 5000), 4096)},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			sim, id := simulated(inventory.Firmware{Activation: inventory.ActivateDeviceReset})
			serve(t, inUse{sim, reason, c.says}, socket(m.dir, "acme-nic"))
			directory := m.directory()
			require.True(t, refresh(t, directory))
			drv, err := directory.Drivers(m.runner).For(id)
			require.NoError(t, err)
			_, fw, err := drv.Inspect(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, inventory.ActivateReboot, fw.Activation)
			assert.Equal(t, reason, fw.ActivationMessage)
			need, got, err := driver.StillNeeded(drv.Activate(t.Context(), id, inventory.ActivateDeviceReset))
			require.NoError(t, err)
			assert.Equal(t, inventory.ActivateReboot, need)
			assert.Equal(t, c.want, got)
		})
	}
}

// picky is a plugin's driver that rejects something.
type picky struct {
	*drivertest.Simulated
	err error
}

func (d picky) Check(context.Context, inventory.Identity, driver.Image) error { return d.err }

// What a plugin rejects is said as a driver of the daemon says it: settings are no image.
func TestPluginSaysWhatItRejects(t *testing.T) {
	for want, err := range map[string]error{
		"image rejected: wrong board":                           driver.Rejectf("wrong board"),
		"settings rejected: MODE takes 1":                       driver.RejectSettingsf("MODE takes 1"),
		"two lines rejected: why":                               &driver.RejectedError{Of: "two\nlines", Reason: "why"},
		text.Clip(strings.Repeat("x", 99), 64) + " rejected: y": &driver.RejectedError{Of: strings.Repeat("x", 99), Reason: "y"},
	} {
		m := newMachine(t)
		sim, id := simulated(inventory.Firmware{Activation: inventory.ActivateDeviceReset})
		serve(t, picky{sim, err}, socket(m.dir, "acme-nic"))
		directory := m.directory()
		require.True(t, refresh(t, directory))
		drv, err := directory.Drivers(m.runner).For(id)
		require.NoError(t, err)
		rejected := new(driver.RejectedError)
		require.ErrorAs(t, drv.Check(t.Context(), id, drivertest.NewImage(t, id.BoardID, "2.0.0")), &rejected)
		assert.Equal(t, want, rejected.Error())
	}
}
