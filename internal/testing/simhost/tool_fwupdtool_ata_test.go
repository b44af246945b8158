package simhost

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newSATAMachine(t *testing.T, change func(*SATA)) (*Machine, SATA) {
	t.Helper()
	spec := DefaultSpec("drives", 0)
	spec.WriteTime, spec.ResetTime = 0, 0
	d := DefaultSATA(0)
	change(&d)
	spec.SATA = []SATA{d}
	m, err := Create(filepath.Join(t.TempDir(), "machine"), spec)
	require.NoError(t, err)
	require.NoError(t, m.InstallTools(os.Args[0]))
	return m, d
}

func ataImage(t *testing.T, d SATA, version string) string {
	t.Helper()
	return save(t, BuildImage(ATAImage, ImageOptions{GUID: d.GUID(), Version: version}))
}

func installATA(m *Machine, d SATA, path string, more ...string) output {
	return run(m, append([]string{"fwupdtool", "install", path, d.DeviceID(), "--json", "--plugins", "ata"}, more...)...)
}

func TestFwupdtoolListsDrivesBesideTheSystemFirmware(t *testing.T) {
	m, d := newSATAMachine(t, func(*SATA) {})
	list := func(more ...string) []map[string]any {
		out := run(m, append([]string{"fwupdtool", "get-devices", "--json"}, more...)...)
		if out.code == 2 {
			require.Contains(t, out.stdout, "No detected devices")
			return nil
		}
		require.Zero(t, out.code)
		var reply struct{ Devices []map[string]any }
		require.NoError(t, json.Unmarshal([]byte(out.stdout), &reply))
		return reply.Devices
	}
	assert.Len(t, list(), 2)
	assert.Len(t, list("--plugins", "uefi_capsule"), 1)
	drives := list("--plugins", "ata")
	require.Len(t, drives, 1)
	assert.Equal(t, d.Serial, drives[0]["Serial"])
	assert.Equal(t, DefaultSATAVersion, drives[0]["Version"])
	require.NoError(t, m.Unplug("sdb"))
	assert.Empty(t, list("--plugins", "ata"))
	none, _ := newSATAMachine(t, func(d *SATA) { d.NoDownload = true })
	m = none
	assert.Empty(t, list("--plugins", "ata"), "fwupd does not list drives that take no microcode")
}

func TestADriveStoresMicrocodeUntilItIsActivated(t *testing.T) {
	m, d := newSATAMachine(t, func(*SATA) {})
	activate := func() output { return run(m, "fwupdtool", "activate", d.DeviceID(), "--json", "--plugins", "ata") }
	assert.Equal(t, 2, activate().code, "nothing waits")
	require.Zero(t, installATA(m, d, ataImage(t, d, "D4MU002")).code)
	assert.Equal(t, DefaultSATAVersion, device(t, m, "sdb").Running)
	assert.Equal(t, "D4MU002", device(t, m, "sdb").Stored)
	require.Zero(t, activate().code)
	assert.Equal(t, "D4MU002", device(t, m, "sdb").Running)
	assert.Equal(t, "001 ", read(t, m, "sys/class/scsi_device/1:0:0:0/device/rev"), "the kernel shows what it read when it found the drive")
	require.NoError(t, m.Boot())
	assert.Equal(t, "002 ", read(t, m, "sys/class/scsi_device/1:0:0:0/device/rev"))
	assert.Equal(t, []string{"Write Done", "Activate Done"}, actions(t, m, "sdb"))
}

func TestDrivesActivateDifferently(t *testing.T) {
	m, d := newSATAMachine(t, func(d *SATA) { d.Activation = Reboot })
	require.Zero(t, installATA(m, d, ataImage(t, d, "D4MU002")).code)
	out := run(m, "fwupdtool", "activate", d.DeviceID(), "--json")
	assert.Equal(t, 1, out.code)
	assert.Contains(t, out.stdout, "failed to activate firmware")
	require.NoError(t, m.Boot())
	assert.Equal(t, "D4MU002", device(t, m, "sdb").Running)

	m, d = newSATAMachine(t, func(d *SATA) { d.Immediate = true })
	require.Zero(t, installATA(m, d, ataImage(t, d, "D4MU002")).code)
	assert.Equal(t, "D4MU002", device(t, m, "sdb").Running)
}

func TestFwupdtoolRefusesNonDrive(t *testing.T) {
	m, d := newSATAMachine(t, func(*SATA) {})
	for name, c := range map[string]struct {
		path string
		more []string
		code int
	}{
		"another model":     {save(t, BuildImage(ATAImage, ImageOptions{GUID: "00000000-1111-2222-3333-444444444444", Version: "D4MU002"})), nil, 3},
		"the same version":  {ataImage(t, d, DefaultSATAVersion), nil, 2},
		"less as text":      {ataImage(t, d, "C1"), nil, 2},
		"no cabinet at all": {save(t, []byte("<html>404</html>")), nil, 1},
	} {
		assert.Equal(t, c.code, installATA(m, d, c.path, c.more...).code, name)
		assert.Equal(t, DefaultSATAVersion, device(t, m, "sdb").Stored, name)
	}
	assert.Zero(t, installATA(m, d, ataImage(t, d, "C1"), "--allow-older").code)
	assert.Zero(t, installATA(m, d, ataImage(t, d, DefaultSATAVersion), "--allow-reinstall").code)
	hindered, d := newSATAMachine(t, func(d *SATA) { d.Problems = []string{"in-use"} })
	assert.Contains(t, installATA(hindered, d, ataImage(t, d, "D4MU002")).stdout, "does not currently allow updates")
}

func TestSgSatIdentifyPrintsAll(t *testing.T) {
	m, d := newSATAMachine(t, func(*SATA) {})
	out := run(m, "sg_sat_identify", "--raw", "/dev/sg1")
	require.Zero(t, out.code)
	assert.Equal(t, string(d.identify(DefaultSATAVersion)), out.stdout)
	assert.Equal(t, out, run(m, "sg_sat_identify", "-r", "/dev/sdb"))
	for _, args := range [][]string{{"--raw", "/dev/sg0"}, {"/dev/sg1"}, {"--raw"}} {
		assert.NotZero(t, run(m, append([]string{"sg_sat_identify"}, args...)...).code, args)
	}
}
