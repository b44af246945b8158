package simhost

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const newBIOSVersion = "2.11.0"

func biosID() string { return DefaultSpec("", 0).BIOS.DeviceID() }

func install(m *Machine, path string, more ...string) output {
	return run(m, append([]string{"fwupdtool", "install", path, biosID(), "--json", "--no-reboot-check"}, more...)...)
}

func TestFwupdtoolStagesACapsuleThatTheNextBootApplies(t *testing.T) {
	m := newMachine(t)
	const esrt = "sys/firmware/efi/esrt/entries/entry0/"
	golden(t, "fwupdtool-2.0.20-get-devices.golden", run(m, "fwupdtool", "get-devices", "--json").stdout)
	history := run(m, "fwupdtool", "get-history", "--json")
	assert.Equal(t, 2, history.code)
	golden(t, "fwupdtool-2.0.20-get-history-none.golden", history.stdout)

	assert.Equal(t, output{}, install(m, image(t, BIOSKey, newBIOSVersion)))
	golden(t, "fwupdtool-2.0.20-get-devices-pending.golden", run(m, "fwupdtool", "get-devices", "--json").stdout)
	golden(t, "fwupdtool-2.0.20-get-history.golden", run(m, "fwupdtool", "get-history", "--json").stdout)
	assert.Equal(t, DefaultBIOSVersion, read(t, m, "sys/class/dmi/id/bios_version"))
	assert.Equal(t, packed(DefaultBIOSVersion), read(t, m, esrt+"fw_version"))

	require.NoError(t, m.Boot())
	assert.Equal(t, newBIOSVersion, read(t, m, "sys/class/dmi/id/bios_version"))
	assert.Equal(t, "34275328", read(t, m, esrt+"fw_version"), "2.11.0 as a triplet")
	assert.Equal(t, "34275328", read(t, m, esrt+"last_attempt_version"))
	assert.Equal(t, "0", read(t, m, esrt+"last_attempt_status"))
	golden(t, "fwupdtool-2.0.20-get-devices-updated.golden", run(m, "fwupdtool", "get-devices", "--json").stdout)
	assert.Equal(t, []string{"Write Done"}, actions(t, m, BIOSKey))
}

func TestFwupdtoolPrintsDetailsAsTextEvenForJSON(t *testing.T) {
	m := newMachine(t)
	out := run(m, "fwupdtool", "get-details", image(t, BIOSKey, newBIOSVersion), "--json")
	assert.Zero(t, out.code)
	golden(t, "fwupdtool-2.0.20-get-details.golden", out.stdout)
	assert.False(t, json.Valid([]byte(out.stdout)))
}

func TestFwupdtoolErrorsAreJSON(t *testing.T) {
	m := newMachine(t)
	foreign := save(t, BuildImage(BIOSImage, ImageOptions{Version: newBIOSVersion, GUID: "00000000-1111-2222-3333-444444444444"}))
	older, same := image(t, BIOSKey, "2.9.0"), image(t, BIOSKey, DefaultBIOSVersion)
	broken := imageFor(BIOSKey, newBIOSVersion)
	broken[len(broken)/2] ^= 1
	tests := map[string]struct {
		args    []string
		code    int
		problem int
	}{
		"older":             {[]string{older, biosID()}, 2, fwupdNothingToDo},
		"older than lowest": {[]string{image(t, BIOSKey, "1.0.0"), biosID(), "--allow-older"}, 1, fwupdNotSupported},
		"same":              {[]string{same, biosID()}, 2, fwupdNothingToDo},
		"another board's":   {[]string{foreign, biosID()}, 3, fwupdNotFound},
		"unknown device":    {[]string{same, "ffffffff"}, 3, fwupdNotFound},
		"broken":            {[]string{save(t, broken), biosID()}, 1, fwupdInvalidFile},
		"truncated":         {[]string{save(t, broken[:1000]), biosID()}, 1, fwupdInvalidFile},
		"no cabinet":        {[]string{image(t, "nic0", "1"), biosID()}, 1, fwupdInvalidData},
		"missing":           {[]string{"/nowhere", biosID()}, 3, fwupdNotFound},
		"nothing":           {nil, 1, fwupdInvalidArgs},
	}
	for name, test := range tests {
		out := run(m, append([]string{"fwupdtool", "install", "--json", "--no-reboot-check"}, test.args...)...)
		assert.Equal(t, test.code, out.code, name)
		var reply struct {
			Error struct {
				Domain  string
				Code    int
				Message string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(out.stdout), &reply), name)
		assert.Equal(t, "FwupdError", reply.Error.Domain, name)
		assert.Equal(t, test.problem, reply.Error.Code, "%s: %s", name, reply.Error.Message)
		assert.Equal(t, DefaultBIOSVersion, device(t, m, BIOSKey).Stored, name)
	}
	golden(t, "fwupdtool-2.0.20-install-older.golden", install(m, older).stdout)
	assert.Equal(t, output{}, install(m, older, "--allow-older"))
	assert.Equal(t, "2.9.0", device(t, m, BIOSKey).Stored)
	assert.Equal(t, output{}, install(m, same, "--allow-reinstall"))
}

func TestACapsuleTheFirmwareRefusesLeavesTheOldVersionAndAStatus(t *testing.T) {
	m := newMachine(t)
	require.Zero(t, install(m, image(t, BIOSKey, newBIOSVersion)).code)
	require.NoError(t, m.SetFault(Fault{Kind: Fail, Device: BIOSKey, Operation: "boot", ExitCode: 5, Count: 1}))
	require.NoError(t, m.Boot())
	assert.Equal(t, DefaultBIOSVersion, device(t, m, BIOSKey).Running)
	assert.Equal(t, "5", read(t, m, "sys/firmware/efi/esrt/entries/entry0/last_attempt_status"))
	golden(t, "fwupdtool-2.0.20-get-devices-failed.golden", run(m, "fwupdtool", "get-devices", "--json").stdout)
	require.NoError(t, m.Boot())
	assert.Equal(t, DefaultBIOSVersion, device(t, m, BIOSKey).Running, "the capsule is used up")
}

func TestFirmwareRefusesCutCapsule(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "slow", Kind: Hang, Tool: "fwupdtool"}))
	staging := start(t, m, "fwupdtool", "install", image(t, BIOSKey, newBIOSVersion), biosID(), "--json")
	eventually(t, func() bool { return device(t, m, BIOSKey).Torn }, "staging begins")
	require.NoError(t, staging.Process.Kill())
	_ = staging.Wait()
	require.NoError(t, m.Boot())
	d := device(t, m, BIOSKey)
	assert.Equal(t, DefaultBIOSVersion, d.Running)
	assert.Equal(t, attemptWrongFormat, d.LastAttemptStatus)
}

// What the real tool refuses in a container, this one refuses too, and nothing is left for the firmware.
func TestFwupdtoolHasToBeToldWhatItCannotFindOut(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Spec)
		unset  string
		says   string
	}{
		"no partition named":        {unset: "FWUPD_UEFI_ESP_PATH", says: "does not currently allow updates: Not updatable as UEFI ESP partition not detected"},
		"no such partition":         {change: func(s *Spec) { s.ESPs = nil }, says: "ESP partition not detected"},
		"no format named":           {unset: "FWUPD_LOCALSTATEDIR_QUIRKS", says: "Firmware version formats were different, device was 'number' and release is 'triplet'"},
		"a full partition":          {change: func(s *Spec) { s.ESPs[0].Full = true }, says: "/boot/efi does not have sufficient space"},
		"a partition read-only":     {change: func(s *Spec) { s.ESPs[0].ReadOnly = true }, says: "Read-only file system"},
		"firmware without capsules": {change: func(s *Spec) { s.BIOS.NoCapsules = true }, says: "cannot be found"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, func(s *Spec) {
				if c.change != nil {
					c.change(s)
				}
			})
			if c.unset != "" {
				t.Setenv(c.unset, "")
			}
			out := install(m, image(t, BIOSKey, newBIOSVersion))
			assert.NotZero(t, out.code)
			assert.Contains(t, out.stdout, c.says)
			require.NoError(t, m.Boot())
			assert.Equal(t, DefaultBIOSVersion, device(t, m, BIOSKey).Running)
			assert.Equal(t, []string{"Write Failed"}, actions(t, m, BIOSKey))
		})
	}
}

// The firmware looks on the partition that it booted from, and nowhere else.
func TestFindsNoCapsuleElsewhere(t *testing.T) {
	other := ESP{Path: "/efi", Number: "8:17", ID: "11111111-2222-3333-4444-555555555555"}
	m := newMachine(t, func(s *Spec) { s.ESPs = append(s.ESPs, other) })
	t.Setenv("FWUPD_UEFI_ESP_PATH", other.Path)
	require.Zero(t, install(m, image(t, BIOSKey, newBIOSVersion)).code)
	require.NoError(t, m.Boot())
	assert.Equal(t, DefaultBIOSVersion, device(t, m, BIOSKey).Running)
	assert.Equal(t, "0", read(t, m, "sys/firmware/efi/esrt/entries/entry0/last_attempt_status"), "nobody tried")
}
