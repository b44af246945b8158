package profile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/profile"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

var (
	front = raid{PCI: "00:01:00:00", SAS: "5f4ee0801601c700", Serial: "07R001E", Product: "PERC H755N Front", Package: "52.16.1-4405"}
	rear  = raid{PCI: "00:3b:00:00", SAS: "5d09466049ac2900", Serial: "82903U3", Product: "PERC H755 Adapter", Package: "52.16.1-4405"}
)

const next = "52.26.0-5179"

// rearID is what sysfs says of the controller rear.
func rearID(subsystem string) inventory.Identity {
	return inventory.Identity{
		Class: inventory.StorageController, VendorID: "1000", DeviceID: "10e2", SubsystemVendorID: subsystem, Kernel: "megaraid_sas",
		UniqueID: "pci.1000-10e2.0000:3b:00.0", PCI: []inventory.PCIAddress{{Bus: 0x3b}},
	}
}

type raidTool struct{ name, profile, subsystem string }

var raidTools = []raidTool{{"storcli64", "storcli", "15d9"}, {"perccli64", "perccli", "1028"}}

func (r raidTool) driver(t *testing.T, all ...raid) (d *profile.Driver, dir string) {
	t.Helper()
	dir = newStorcli(t, r.name, all...)
	runner, err := command.NewExecRunner(command.Config{Path: []string{dir}, StateDir: t.TempDir()})
	require.NoError(t, err)
	return profile.New(runner, loadExamples(t)[r.profile]), dir
}

func fault(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

func pkgImage(t *testing.T) driver.Image {
	t.Helper()
	return drivertest.SaveImage(t, next, []byte("mr package "+next))
}

func eachRAIDTool(t *testing.T, test func(t *testing.T, tool raidTool)) {
	t.Helper()
	for _, tool := range raidTools {
		t.Run(tool.name, func(t *testing.T) { test(t, tool) })
	}
}

func TestControllersAreReadAndWrittenByTheirAddress(t *testing.T) {
	eachRAIDTool(t, func(t *testing.T, tool raidTool) {
		d, dir := tool.driver(t, raid{Dead: true}, front, rear)
		id, fw, err := d.Inspect(t.Context(), rearID(tool.subsystem))
		require.NoError(t, err)
		assert.Equal(t, []string{"5d09466049ac2900", "82903U3", "PERC H755 Adapter"}, []string{id.UniqueID, id.SerialNumber, id.Model})
		assert.Equal(t, inventory.Firmware{
			Running: "52.16.1-4405", Activation: inventory.ActivateReboot, RollbackMessage: "profile " + tool.profile + " declares no rollback",
		}, fw)
		require.NoError(t, d.Check(t.Context(), id, pkgImage(t)))
		need, err := d.Write(t.Context(), id, pkgImage(t), nil)
		require.NoError(t, err)
		assert.Equal(t, inventory.ActivateReboot, need)
		assert.Equal(t, map[string]string{"82903U3": next}, stored(t, dir))
	})
}

// Only the printed status shows that nothing was stored: the tool exits with 0.
func TestPrintedFailureIsAFailure(t *testing.T) {
	eachRAIDTool(t, func(t *testing.T, tool raidTool) {
		d, dir := tool.driver(t, rear)
		fault(t, dir, "fail", "")
		_, err := d.Write(t.Context(), rearID(tool.subsystem), pkgImage(t), nil)
		require.ErrorContains(t, err, `the tool reports "Failure", not Success`)
		require.ErrorContains(t, err, "image corrupted")
		require.NotErrorAs(t, err, new(*driver.RejectedError))
		assert.Empty(t, stored(t, dir))
		_, err = d.Write(t.Context(), rearID(tool.subsystem), drivertest.SaveImage(t, next, []byte("a page of a proxy")), nil)
		require.ErrorContains(t, err, "Failure")
	})
}

// The vendor documents 0 alone.
func TestNoOtherExitCodeOfAControllersToolIsASuccess(t *testing.T) {
	eachRAIDTool(t, func(t *testing.T, tool raidTool) {
		for _, code := range []string{"1", "2", "46", "255"} {
			d, dir := tool.driver(t, rear)
			fault(t, dir, "exit", code)
			_, err := d.Write(t.Context(), rearID(tool.subsystem), pkgImage(t), nil)
			require.ErrorAs(t, err, new(*command.Error), code)
			assert.Empty(t, stored(t, dir))
		}
	})
}

// Numbers turn after the first of the two readings of a write: the second is what counts.
func TestAControllerThatGotAnotherNumberIsWrittenUnderIt(t *testing.T) {
	eachRAIDTool(t, func(t *testing.T, tool raidTool) {
		d, dir := tool.driver(t, front, rear)
		fault(t, dir, "turn-after-1", "")
		_, err := d.Write(t.Context(), rearID(tool.subsystem), pkgImage(t), nil)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"82903U3": next}, stored(t, dir))
	})
}

func TestAControllerInThePlaceOfAnotherIsNotWritten(t *testing.T) {
	eachRAIDTool(t, func(t *testing.T, tool raidTool) {
		d, dir := tool.driver(t, front, rear)
		fault(t, dir, "swap-after-1", "")
		_, err := d.Write(t.Context(), rearID(tool.subsystem), pkgImage(t), nil)
		require.ErrorContains(t, err, "nothing was written: another device has taken its place: 5f4ee0801601c700")
		assert.Empty(t, stored(t, dir))
	})
}

// What cannot be prevented is reported: the tool accepts only a number.
func TestReportsRenumberingInWrite(t *testing.T) {
	eachRAIDTool(t, func(t *testing.T, tool raidTool) {
		d, dir := tool.driver(t, front, rear)
		fault(t, dir, "turn-in-write", "")
		_, err := d.Write(t.Context(), rearID(tool.subsystem), pkgImage(t), nil)
		require.ErrorContains(t, err, "the tool wrote to number 1, and the device has number 0 now")
	})
}

func TestAControllerTheToolDoesNotShowIsNotWritten(t *testing.T) {
	eachRAIDTool(t, func(t *testing.T, tool raidTool) {
		twin := rear
		twin.Serial = "82903U4"
		odd := rear
		odd.SAS = "0000000000000000"
		for name, all := range map[string][]raid{
			"not there": {front}, "dead": {front, {Dead: true}}, "none at all": {}, "two at one address": {rear, twin}, "no address": {odd},
		} {
			t.Run(name, func(t *testing.T) {
				d, dir := tool.driver(t, all...)
				_, _, err := d.Inspect(t.Context(), rearID(tool.subsystem))
				require.Error(t, err)
				_, err = d.Write(t.Context(), rearID(tool.subsystem), pkgImage(t), nil)
				require.Error(t, err)
				assert.Empty(t, stored(t, dir))
			})
		}
	})
}
