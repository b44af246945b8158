package plugin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/plugintool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// changing is a card whose driver spells its id in another way each time.
type changing struct {
	driver.Driver
	ids []string
}

func (c *changing) Name() string    { return "acme-nic" }
func (c *changing) Version() string { return "1" }
func (c *changing) next(id inventory.Identity) inventory.Identity {
	id.UniqueID, c.ids = c.ids[0], c.ids[1:]
	return id
}

func TestUniqueIDMustNotChange(t *testing.T) {
	for name, ids := range map[string][]string{
		"another one": {"one", "two"},
		"none":        {"one", ""},
	} {
		m := newMachine(t)
		_, id := simulated(inventory.Firmware{})
		serve(t, inspecting{&changing{ids: ids}}, socket(m.dir, "acme-nic"))
		directory := m.directory()
		refresh(t, directory)
		drv := installed(t, m, directory, id)
		completed, _, err := drv.Inspect(t.Context(), id)
		require.NoError(t, err, name)
		assert.Equal(t, "one", completed.UniqueID)
		kept, fw, err := drv.Inspect(t.Context(), completed)
		require.ErrorIs(t, err, plugin.ErrInvalid, name)
		assert.Equal(t, completed, kept)
		assert.Zero(t, fw)
	}
}

func TestToolRefusesWhatIsNoRequest(t *testing.T) {
	request, err := json.Marshal(plugin.Request{Socket: "/nowhere/acme-nic.sock"})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":        {nil, 1, "usage"},
		"no JSON":        {[]string{"info", "{"}, 1, "read request"},
		"relative":       {[]string{"info", `{"Socket":"x.sock"}`}, 1, "not an absolute path"},
		"nobody serves":  {[]string{"info", string(request)}, 14, "does not answer"},
		"nobody, writes": {[]string{"write", string(request)}, 14, "does not answer"},
	} {
		var stdout, stderr strings.Builder
		assert.Equal(t, c.code, plugintool.Main(t.Context(), c.args, &stdout, &stderr), name)
		assert.Empty(t, stdout.String(), name)
		assert.Contains(t, stderr.String(), c.want, name)
	}
}

func TestExitCodesAreDistinct(t *testing.T) {
	seen := map[int]error{}
	for _, err := range []error{
		driver.ErrNotSupported, command.ErrBusy, command.ErrStillRunning, command.ErrLost, plugin.ErrNotFound, plugin.ErrVersionChanged,
		plugin.ErrCancelled, plugin.ErrWriting, plugin.ErrStopping, plugin.ErrUnavailable, plugin.ErrInvalid, command.ErrImage, driver.Rejectf("x"),
		fmt.Errorf("anything else"),
	} {
		code := plugin.ExitCode(fmt.Errorf("around: %w", err))
		assert.NotZero(t, code)
		assert.NotContains(t, seen, code, err)
		seen[code] = err
	}
	assert.Zero(t, plugin.ExitCode(nil))
}
