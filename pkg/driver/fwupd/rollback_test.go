package fwupd

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const entry0 = "sys/firmware/efi/esrt/entries/entry0/"

// What cannot be undone is known before anything is written (R002-1, R002-2).
func TestWhetherAnUpdateCanBeUndoneIsSaidBeforehand(t *testing.T) {
	for name, c := range map[string]struct {
		change func(fstest.MapFS)
		want   inventory.Rollback
		says   string
	}{
		"above the lowest": {func(fstest.MapFS) {}, inventory.RollbackImage, "an archive of 2.10.2 is needed"},
		"the lowest itself": {func(f fstest.MapFS) {
			f[entry0+"lowest_supported_fw_version"] = &fstest.MapFile{Data: []byte("34209794\n")}
		}, inventory.RollbackImage, "may raise"},
		"below the lowest": {func(f fstest.MapFS) {
			f[entry0+"lowest_supported_fw_version"] = &fstest.MapFile{Data: []byte("34209795\n")}
		}, inventory.RollbackNone, "accepts no version below 0x20a0003"},
		"not known": {func(f fstest.MapFS) {
			delete(f, entry0+"lowest_supported_fw_version")
		}, inventory.RollbackNone, "does not say"},
		"no capsules at all": {func(f fstest.MapFS) {
			for file := range f {
				if strings.HasPrefix(file, entry0) {
					delete(f, file)
				}
			}
		}, inventory.RollbackNone, "no ESRT"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := host("2.10.2")
			c.change(fsys)
			d, r := newTool(t).driver(t, fsys)
			_, fw, err := d.Inspect(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, c.want, fw.Rollback)
			assert.Contains(t, fw.RollbackMessage, c.says)
			for _, call := range r.Calls() {
				assert.Equal(t, command.Query, call.Kind)
			}
		})
	}
	_, fw, err := New(absent{}, host("2.10.2")).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.RollbackNone, fw.Rollback, "without fwupdtool")
	assert.Equal(t, fw.ReadOnly, fw.RollbackMessage)
}

func TestAnOlderArchiveIsCheckedAndInstalledAsOne(t *testing.T) {
	f := newTool(t)
	older := func(version string) string {
		return strings.ReplaceAll(golden(t, "get-details-2.0.20-known-device.txt"), "2.19.1", version)
	}
	f["get-details"] = command.Result{Stdout: []byte(older("2.9.0"))}
	d, r := f.driver(t, host("2.10.2"))
	img := archive(t, "2.9.0")
	require.NoError(t, d.Check(t.Context(), id, img))
	need, err := d.Write(t.Context(), id, img, nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	assert.Contains(t, r.Calls()[len(r.Calls())-1].Argv, "--allow-older")

	f["get-details"] = command.Result{Stdout: []byte(older("1.9.0"))}
	err = d.Check(t.Context(), id, archive(t, "1.9.0"))
	require.ErrorAs(t, err, new(*driver.RejectedError))
	require.ErrorContains(t, err, "the lowest version the firmware accepts")
}

func TestOlderIsAllowedOnlyWhereFwupdCouldTakeTheArchiveForOlder(t *testing.T) {
	for name, c := range map[string]struct {
		bios            string
		version, format string
		want            bool
	}{
		"newer":                                 {"2.10.2", "2.10.2", "triplet", false},
		"older":                                 {"2.20.0", "2.20.0", "triplet", true},
		"older than the DMI tables say":         {"2.20.0", "2.10.2", "triplet", true},
		"older than fwupd thinks":               {"2.10.2", "2.20.0", "triplet", true},
		"fwupd has the bare number":             {"2.10.2", "34209794", "number", true},
		"fwupd compares the versions as text":   {"2.10.2", "2.10.2", "plain", true},
		"fwupd does not know the format at all": {"2.10.2", "2.10.2", "unknown", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTool(t)
			devices := strings.ReplaceAll(golden(t, "get-devices-2.0.20.json"), `"Version" : "2.10.2"`, `"Version" : "`+c.version+`"`)
			devices = strings.ReplaceAll(devices, `"VersionFormat" : "triplet"`, `"VersionFormat" : "`+c.format+`"`)
			f["get-devices"] = command.Result{Stdout: []byte(devices)}
			d, r := f.driver(t, host(c.bios))
			_, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
			require.NoError(t, err)
			last := r.Calls()[len(r.Calls())-1]
			assert.Equal(t, "install", last.Argv[1])
			assert.Equal(t, c.want, slices.Contains(last.Argv, "--allow-older"), last.String())
			assert.NotContains(t, last.Argv, "--force")
		})
	}
}
