package discovery_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// R003-3: nodes that are equal but for what is of one unit have one baseline, in whatever order their devices are found.
func TestEqualNodesReportOneBaseline(t *testing.T) {
	baselineOf := func(change func(*bench)) string {
		b := newBench(t)
		b.host.found.Machine = &inventory.Machine{Manufacturer: "Lenovo", Model: "7X21", SerialNumber: "J1"}
		change(b)
		b.seen(t)
		return b.node(t).Status.Baseline
	}
	want := baselineOf(func(*bench) {})
	require.Regexp(t, "^[0-9a-f]{16}$", want)
	assert.Equal(t, want, baselineOf(func(b *bench) {
		found := &b.host.found
		found.Devices = []inventory.Device{bios(), drive("ee"), card("ff")}
		found.Devices[1].SerialNumber, found.Devices[1].PCI, found.Devices[1].Node = "S2", []inventory.PCIAddress{{Bus: 9}}, "nvme7"
		found.Devices[2].Ports[0].MAC, found.Devices[2].Ports[0].NetDevice = "b8:ce:f6:00:00:02", "eth3"
		found.Machine.SerialNumber, found.BootID = "J2", "boot-7"
	}))
	for name, change := range map[string]func(*bench){
		"a drive less":          func(b *bench) { b.host.found.Devices = slices.Delete(b.host.found.Devices, 1, 2) },
		"another version":       func(b *bench) { b.host.found.Devices[0].Firmware.Running = "22.41.1000" },
		"another board":         func(b *bench) { b.host.found.Devices[0].BoardID = "MT_0000000360" },
		"another machine model": func(b *bench) { b.host.found.Machine.Model = "7X22" },
	} {
		assert.NotEqual(t, want, baselineOf(change), name)
	}
}

// A baseline is what was read, or it is absent: a device that cannot be read may not be what it was.
func TestABaselineIsKnownOrAbsent(t *testing.T) {
	b := newBench(t)
	b.seen(t)
	was := b.node(t).Status.Baseline
	require.NotEmpty(t, was)
	whole := slices.Clone(b.host.found.Devices)

	b.host.found.Devices[0] = broken(whole[0])
	b.seen(t)
	assert.Empty(t, b.node(t).Status.Baseline)
	b.host.found.Devices = slices.Clone(whole)
	b.seen(t)
	assert.Equal(t, was, b.node(t).Status.Baseline)

	b.host.found.Incomplete = map[inventory.Class]error{inventory.Disk: errors.New("no bus")}
	b.seen(t)
	assert.Empty(t, b.node(t).Status.Baseline, "nobody knows which drives there are")
	b.host.found.Incomplete = nil
	b.host.found.Devices = append(whole, card("aa"))
	b.seen(t)
	assert.Empty(t, b.node(t).Status.Baseline, "two of one identity")
}

// The settings that are declared count by the value in force, and are never taken from what is desired.
func TestABaselineCountsSettingsInForce(t *testing.T) {
	b := tuned(t)
	b.seen(t)
	plain := b.node(t).Status.Baseline
	require.NotEmpty(t, plain)
	b.configure(t, numVFs(8))
	require.NoError(t, b.Publish(t.Context()))
	assert.Equal(t, plain, b.node(t).Status.Baseline, "nobody has looked at what was declared since")
	b.seen(t)
	four := b.node(t).Status.Baseline
	assert.NotEqual(t, plain, four)

	b.settings.all[2] = parameter("numVFs", "4", "8")
	b.seen(t)
	assert.Equal(t, four, b.node(t).Status.Baseline, "8 is stored, and 4 is in force")
	b.settings.all[2] = parameter("numVFs", "8", "8")
	b.seen(t)
	eight := b.node(t).Status.Baseline
	assert.NotEqual(t, four, eight)

	b.settings.err = errors.New("the tool said no")
	b.seen(t)
	assert.Empty(t, b.node(t).Status.Baseline)
	b.settings.err = nil
	b.settings.all[0] = parameter("A", "7", "7")
	b.seen(t)
	assert.Equal(t, eight, b.node(t).Status.Baseline, "nobody declares A")
}
