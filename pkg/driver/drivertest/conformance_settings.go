package drivertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Settings are what the suite does with the settings of a device. At first no value waits for an activation.
type Settings struct {
	// Set are settings that the device takes and does not have yet.
	Set []inventory.Setting
	// Misfits are settings of known names whose values it does not take.
	Misfits []inventory.Setting
	// ReadOnly is the name of a parameter that cannot be changed; empty when all can.
	ReadOnly string
	// Stored is the value the device really stores, read without the driver and spelled as Set spells it.
	Stored func(t *testing.T, name string) string
}

// RunSettings proves that what a driver.Supplement returns follows the contract of driver.Configurer. The driver of the harness inspects and
// activates the device, and has the settings.
func RunSettings(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, c := range settingsCases() {
		t.Run(c.name, func(t *testing.T) { c.test(t, newHarness(t)) })
	}
}

func settingsCases() []conformanceCase {
	return []conformanceCase{
		{"parameters are read whole and by name", testParameters},
		{"what is set is in force after its activation", testSet},
		{"what is set outlives a reboot", testSetLasts},
		{"setting twice writes once", testSetTwice},
		{"what was read undoes a change", testSetBack},
		{"a default is taken as a value", testReset},
		{"an unknown name is rejected and nothing is written", testUnknownName},
		{"a value out of range is rejected and nothing is written", testMisfit},
		{"a read-only parameter is not written", testReadOnly},
		{"what contradicts itself is rejected", testContradiction},
		{"a setting that failed names its command and what it printed", testFailSet},
		{"a setting that lies is seen by reading back", testLieSet},
		{"a cancelled setting goes on and can be repeated", testHangSet},
		{"settings of a device that does not answer are an error", testUnreadableSettings},
		{"nonsense from the tools is no parameter", testGarbageSettings},
	}
}

func testNoSettings(t *testing.T, h Harness) {
	c, ok := h.Driver.(driver.Configurer)
	if !ok {
		return
	}
	_, err := c.Parameters(t.Context(), h.ID)
	require.ErrorIs(t, err, driver.ErrNotSupported)
	require.ErrorIs(t, c.CheckConfiguration(t.Context(), h.ID, driver.Configuration{}), driver.ErrNotSupported)
	_, err = c.Configure(t.Context(), h.ID, driver.Configuration{})
	require.ErrorIs(t, err, driver.ErrNotSupported)
}

func (h Harness) configurer() driver.Configurer { return h.Driver.(driver.Configurer) }

func (h Harness) parameters(t *testing.T, names ...string) []inventory.Parameter {
	t.Helper()
	all, err := h.configurer().Parameters(t.Context(), h.ID, names...)
	require.NoError(t, err)
	return all
}

func (h Harness) configure(t *testing.T, c driver.Configuration) inventory.Activation {
	t.Helper()
	require.NoError(t, h.configurer().CheckConfiguration(t.Context(), h.ID, c))
	need, err := h.configurer().Configure(t.Context(), h.ID, c)
	require.NoError(t, err)
	return need
}

func (h Harness) set() driver.Configuration { return driver.Configuration{Set: h.Settings.Set} }

// names are those of what is set.
func (h Harness) names() []string {
	var out []string
	for _, s := range h.Settings.Set {
		out = append(out, s.Name)
	}
	return out
}

// stored are the values the device stores of what is set.
func (h Harness) stored(t *testing.T) []inventory.Setting {
	t.Helper()
	var out []inventory.Setting
	for _, name := range h.names() {
		out = append(out, inventory.Setting{Name: name, Value: h.Settings.Stored(t, name)})
	}
	return out
}

func testParameters(t *testing.T, h Harness) {
	all := h.parameters(t)
	assert.Equal(t, all, h.parameters(t))
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
		assert.False(t, p.Pending(), p.Name)
		assert.True(t, p.Current.Known || p.Next.Known, p.Name)
		assert.NotEqual(t, "Unknown", p.Needs.String(), p.Name)
		for _, own := range p.Sets {
			assert.NotNil(t, inventory.FindParameter(all, own), "%s sets %s", p.Name, own)
		}
	}
	assert.IsIncreasing(t, names)
	asked := h.names()
	for _, name := range h.names() {
		asked = append(asked, inventory.FindParameter(all, name).Sets...)
	}
	var some []inventory.Parameter
	for _, p := range all {
		if slices.Contains(asked, p.Name) {
			some = append(some, p)
		}
	}
	assert.Equal(t, some, h.parameters(t, append(h.names(), "NO_SUCH_PARAMETER")...))
}

func testSet(t *testing.T, h Harness) {
	before := h.parameters(t)
	need := h.configure(t, h.set())
	assert.Equal(t, h.Settings.Set, h.stored(t))
	for _, s := range h.Settings.Set {
		was, p := inventory.FindParameter(before, s.Name), inventory.FindParameter(h.parameters(t), s.Name)
		assert.False(t, was.Stores(s.Value))
		assert.True(t, p.Stores(s.Value) || !p.Next.Known, "%s stores %s", s.Name, p.Next)
		assert.LessOrEqual(t, p.Needs, need)
		assert.LessOrEqual(t, was.Needs, need, "a change of it costs what was said before")
		assert.Equal(t, p.Needs != inventory.ActivateNone && p.Current.Known && p.Next.Known, p.Pending())
	}
	h.activate(t, need)
	h.activate(t, h.configure(t, h.set())) // what a boot took away is given again
	for _, s := range h.Settings.Set {
		p := inventory.FindParameter(h.parameters(t), s.Name)
		assert.True(t, p.Runs(s.Value) || !p.Current.Known, "%s is %s", s.Name, p.Current)
	}
	assert.Equal(t, inventory.ActivateNone, h.configure(t, h.set()))
}

func testSetLasts(t *testing.T, h Harness) {
	h.activate(t, h.configure(t, h.set()))
	h.Reboot(t)
	for _, s := range h.Settings.Set {
		p := inventory.FindParameter(h.parameters(t), s.Name)
		assert.Equal(t, !p.Volatile, p.Stores(s.Value) || !p.Next.Known && p.Runs(s.Value), s.Name)
	}
}

func testSetTwice(t *testing.T, h Harness) {
	before := h.parameters(t)
	need := h.configure(t, h.set())
	for _, s := range inventory.Differing(h.Settings.Set, before) {
		if p := inventory.FindParameter(before, s.Name); p != nil && !p.Current.Known {
			assert.GreaterOrEqual(t, need, p.Needs, "%s was written, and nothing says that it is in force", s.Name)
		}
	}
	if !inventory.FindParameter(before, h.Settings.Set[0].Name).Next.Known {
		assert.Equal(t, need, h.configure(t, h.set()), "what a device does not say is written again, which is harmless")
		return
	}
	h.FailWrite(t, "a second write")
	again, err := h.configurer().Configure(t.Context(), h.ID, h.set())
	require.NoError(t, err, "the device stores the values already")
	if inventory.FindParameter(h.parameters(t), h.Settings.Set[0].Name).Current.Known {
		assert.Equal(t, need, again, "what waits for an activation goes on waiting")
	}
}

func testSetBack(t *testing.T, h Harness) {
	before := h.parameters(t)
	stored := h.stored(t)
	if len(inventory.Undo(h.Settings.Set, before)) == 0 {
		t.Skip("the device does not say what it stores")
	}
	h.activate(t, h.configure(t, h.set()))
	h.activate(t, h.configure(t, driver.Configuration{Set: inventory.Undo(h.Settings.Set, before)}))
	assert.Equal(t, stored, h.stored(t))
	assert.Equal(t, before, h.parameters(t))
}

func testReset(t *testing.T, h Harness) {
	h.activate(t, h.configure(t, h.set()))
	for _, name := range h.names() {
		p := *inventory.FindParameter(h.parameters(t, name), name)
		if !p.Default.Known {
			continue
		}
		h.activate(t, h.configure(t, driver.Configuration{Set: []inventory.Setting{{Name: p.Name, Value: p.Default.Value}}}))
		after := inventory.FindParameter(h.parameters(t, name), name)
		assert.True(t, after.Stores(p.Default.Value) || !after.Next.Known && after.Runs(p.Default.Value), "%s stores %s", p.Name, after.Next)
		assert.False(t, after.Pending())
	}
}

// assertRefused asserts that neither call takes the configuration and that nothing is written.
func (h Harness) assertRefused(t *testing.T, c driver.Configuration, names ...string) {
	t.Helper()
	before := h.stored(t)
	h.FailWrite(t, "nothing is to be written")
	check := h.configurer().CheckConfiguration(t.Context(), h.ID, c)
	_, set := h.configurer().Configure(t.Context(), h.ID, c)
	for _, err := range []error{check, set} {
		assertRejected(t, err)
		for _, name := range names {
			assert.ErrorContains(t, err, name)
		}
	}
	assert.Equal(t, before, h.stored(t))
}

func testUnknownName(t *testing.T, h Harness) {
	const other = "NO_SUCH_PARAMETER"
	unknown := inventory.Setting{Name: other, Value: "1"}
	h.assertRefused(t, driver.Configuration{Set: append(slices.Clone(h.Settings.Set), unknown)}, other)
}

func testMisfit(t *testing.T, h Harness) {
	for _, s := range h.Settings.Misfits {
		h.assertRefused(t, driver.Configuration{Set: []inventory.Setting{s}}, s.Name, s.Value)
	}
}

func testReadOnly(t *testing.T, h Harness) {
	name := h.Settings.ReadOnly
	if name == "" {
		t.Skip("all parameters of the device can be changed")
	}
	p := h.parameters(t, name)[0]
	require.NotEmpty(t, p.ReadOnly)
	h.configure(t, driver.Configuration{Set: []inventory.Setting{{Name: name, Value: p.Next.Value}}}) // what it has already
	h.assertRefused(t, driver.Configuration{Set: []inventory.Setting{{Name: name, Value: p.Next.Value + "7"}}}, name, p.ReadOnly)
}

func testContradiction(t *testing.T, h Harness) {
	twice := driver.Configuration{Set: slices.Concat(h.Settings.Set, h.Settings.Set)}
	h.assertRefused(t, twice, h.names()...)
}

func testFailSet(t *testing.T, h Harness) {
	const text = "flash controller is locked"
	before := h.stored(t)
	h.FailWrite(t, text)
	_, err := h.configurer().Configure(t.Context(), h.ID, h.set())
	var failed *command.Error
	require.ErrorAs(t, err, &failed)
	assert.NotEmpty(t, failed.Argv)
	assert.NotZero(t, failed.ExitCode)
	assert.ErrorContains(t, err, text)
	assert.Equal(t, before, h.stored(t))
}

func testLieSet(t *testing.T, h Harness) {
	before := h.parameters(t)
	h.LieWrite(t)
	// The driver need not notice the lie, but it must not report the values as stored.
	_, _ = h.configurer().Configure(t.Context(), h.ID, h.set())
	assert.Equal(t, before, h.parameters(t))
}

func testHangSet(t *testing.T, h Harness) {
	id, _ := h.inspect(t)
	started, release := h.HangWrite(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := h.configurer().Configure(ctx, h.ID, h.set())
		failed <- err
	}()
	require.Eventually(t, started, patience, 10*time.Millisecond, "the write did not start")
	cancel()
	require.ErrorIs(t, <-failed, command.ErrStillRunning)
	assert.True(t, h.WriteRunning(t, id.UniqueID), "who comes later finds the write by the device's unique id")
	_, err := h.configurer().Configure(t.Context(), h.ID, h.set())
	require.ErrorIs(t, err, command.ErrBusy)
	release()
	require.Eventually(t, func() bool {
		_, err := h.configurer().Configure(t.Context(), h.ID, h.set())
		return err == nil
	}, patience, 10*time.Millisecond, "the device never became free")
	assert.Equal(t, h.Settings.Set, h.stored(t))
}

func testUnreadableSettings(t *testing.T, h Harness) {
	h.Unreadable(t)
	h.assertUnknown(t)
}

func testGarbageSettings(t *testing.T, h Harness) {
	h.Garbage(t)
	h.assertUnknown(t)
}

// assertUnknown asserts that a device whose parameters cannot be read is neither judged nor changed.
func (h Harness) assertUnknown(t *testing.T) {
	t.Helper()
	all, err := h.configurer().Parameters(t.Context(), h.ID)
	require.Error(t, err)
	assert.Empty(t, all)
	check := h.configurer().CheckConfiguration(t.Context(), h.ID, h.set())
	_, set := h.configurer().Configure(t.Context(), h.ID, h.set())
	for _, err := range []error{check, set} {
		require.Error(t, err)
		require.NotErrorAs(t, err, new(*driver.RejectedError), "another try may help")
		assert.NotErrorIs(t, err, driver.ErrNotSupported, "another try may help")
	}
}
