package fwupd

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const guid = "39a1ba52-95ee-4c1c-8d0f-b2b4ec3f1c9e"

func golden(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(b)
}

func TestParseDetails(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []component
	}{
		"an archive for no device here, in the C locale": {
			"get-details-1.8.12-unknown-device.txt",
			[]component{{GUIDs: []string{"230c8b18-8d9b-53ec-838b-6cfc0383493a"}, Version: "2.4.0"}},
		},
		"an archive for a device that is here": {
			"get-details-2.0.20-known-device.txt",
			[]component{{GUIDs: []string{guid, "230c8b18-8d9b-53ec-838b-6cfc0383493a"}, Version: "2.19.1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseDetails(golden(t, c.file))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	two := golden(t, "get-details-2.0.20-known-device.txt") + golden(t, "get-details-1.8.12-unknown-device.txt")
	got, err := parseDetails(two)
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, inventory.Version("2.4.0"), got[1].Version)
}

func TestParseDetailsRefusesUnknown(t *testing.T) {
	for _, out := range []string{
		"", "{}", golden(t, "get-details-1.8.12-junk.txt"),
		"└─Server:\n      New version:      2.4.0\n",
		"└─Server:\n      GUID:             not-a-guid\n      New version:      2.4.0\n",
		"└─Server:\n      GUID:             230c8b18-8d9b-53ec-838b-6cfc0383493a\n",
	} {
		got, err := parseDetails(out)
		require.Error(t, err, out)
		assert.Nil(t, got)
	}
}

func TestParseDevices(t *testing.T) {
	devices, err := parseDevices([]byte(golden(t, "get-devices-2.0.20.json")))
	require.NoError(t, err)
	require.Len(t, devices, 2)
	d, ok := forGUID(devices, "39A1BA52-95EE-4C1C-8D0F-B2B4EC3F1C9E")
	require.True(t, ok)
	assert.Equal(t, "a45df35ac0e948ee180fe216a5f703f32dda163f", d.ID)
	assert.Empty(t, d.staged())

	devices, err = parseDevices([]byte(golden(t, "get-history-2.0.20-needs-reboot.json")))
	require.NoError(t, err)
	assert.Equal(t, "2.19.1", devices[0].staged())
	devices, err = parseDevices([]byte(golden(t, "get-history-2.0.20-failed.json")))
	require.NoError(t, err)
	assert.Empty(t, devices[0].staged())

	devices, err = parseDevices([]byte(golden(t, "get-devices-1.8.12-none.txt")))
	require.NoError(t, err)
	assert.Empty(t, devices)
	_, err = parseDevices([]byte(golden(t, "get-history-1.8.12-none.txt")))
	var e *fwupdError
	require.ErrorAs(t, err, &e)
	assert.True(t, e.is(codeNothingToDo))
}

func TestParseDevicesRefusesUnknown(t *testing.T) {
	for _, out := range []string{"", "{}", "text", `{"Devices":[{}]}`, `{"Devices":[]} {}`, `{"Devices":{}}`} {
		_, err := parseDevices([]byte(out))
		assert.Error(t, err, out)
	}
}

func TestESRT(t *testing.T) {
	entry := func(class, kind, status string) map[string]string {
		return map[string]string{
			"fw_class": class, "fw_type": kind, "fw_version": "34209794", "last_attempt_version": "34799617", "last_attempt_status": status,
		}
	}
	host := func(entries ...map[string]string) fstest.MapFS {
		fsys := fstest.MapFS{"sys/firmware/efi/esrt/fw_resource_count": {Data: []byte("1")}}
		for i, e := range entries {
			for name, value := range e {
				fsys["sys/firmware/efi/esrt/entries/entry"+string(rune('0'+i))+"/"+name] = &fstest.MapFile{Data: []byte(value + "\n")}
			}
		}
		return fsys
	}

	r, err := readResource(host(entry("7d5759e5-9aa0-5f0c-abd6-7439bb11b9f6", "2", "0"), entry("39A1BA52-95EE-4C1C-8D0F-B2B4EC3F1C9E", "1", "5")))
	require.NoError(t, err)
	version := 34209794
	assert.Equal(t, resource{GUID: guid, Version: &version, LastAttemptVersion: 34799617, LastAttemptStatus: 5}, r)
	assert.Equal(t, "the firmware refused the last update, to version 0x2130001: authentication failed (status 5)", r.lastAttempt())
	r.LastAttemptStatus = 0
	assert.Empty(t, r.lastAttempt())
	r.LastAttemptStatus = 0x1234
	assert.Contains(t, r.lastAttempt(), "4660")

	for name, fsys := range map[string]fstest.MapFS{
		"booted without UEFI":       {},
		"firmware without an ESRT":  {"sys/firmware/efi/fw_platform_size": {Data: []byte("64")}},
		"no entry of the system":    host(entry(guid, "2", "0")),
		"two entries of the system": host(entry(guid, "1", "0"), entry("7d5759e5-9aa0-5f0c-abd6-7439bb11b9f6", "1", "0")),
	} {
		_, err := readResource(fsys)
		var e *notReady
		require.ErrorAs(t, err, &e, name)
		assert.True(t, e.reason.lasting(), name)
	}
	for name, fsys := range map[string]fstest.MapFS{
		"no GUID":      host(entry("system", "1", "0")),
		"no number":    host(entry(guid, "one", "0")),
		"a lost field": host(map[string]string{"fw_class": guid, "fw_type": "1", "fw_version": "1"}),
	} {
		_, err := readResource(fsys)
		require.Error(t, err, name)
		assert.NotErrorAs(t, err, new(*notReady), name)
	}
}

func FuzzParseDetails(f *testing.F) {
	f.Add(golden(f, "get-details-1.8.12-unknown-device.txt"))
	f.Add(golden(f, "get-details-2.0.20-known-device.txt"))
	f.Fuzz(func(t *testing.T, out string) {
		components, err := parseDetails(out)
		if err != nil {
			assert.Nil(t, components)
			return
		}
		for _, c := range components {
			assert.NotEmpty(t, c.GUIDs)
			assert.NotEmpty(t, c.Version)
		}
	})
}

func FuzzParseDevices(f *testing.F) {
	for _, file := range []string{"get-devices-2.0.20.json", "get-history-2.0.20-needs-reboot.json", "get-history-1.8.12-none.txt", "get-devices-1.8.12-none.txt"} {
		f.Add(golden(f, file))
	}
	f.Fuzz(func(t *testing.T, out string) {
		devices, err := parseDevices([]byte(out))
		if err != nil {
			assert.Nil(t, devices)
			return
		}
		for _, d := range devices {
			assert.NotEmpty(t, d.ID)
		}
	})
}
