package simhost

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func burn(t *testing.T, m *Machine, data []byte) {
	t.Helper()
	out := run(m, "mstflint", "-d", cx6, "-i", save(t, data), "-y", "b")
	require.Zero(t, out.code, out.stdout)
}

func nicImage(o ImageOptions) []byte {
	o.PSID = DefaultSpec("", 0).NICs[0].PSID
	return BuildImage(NICImage, o)
}

// readBack reads the flash of the card to a file that was something else before.
func readBack(t *testing.T, m *Machine) []byte {
	t.Helper()
	path := save(t, []byte("what was here before"))
	out := run(m, "mstflint", "-d", cx6, "ri", path)
	require.Zero(t, out.code, out.stdout)
	assert.Empty(t, out.stdout+out.stderr, "it says nothing when it works")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

func TestMstflintReadsFlashedImage(t *testing.T) {
	m := newMachine(t)
	first := readBack(t, m)
	assert.Equal(t, device(t, m, "nic0").StoredDigest, digest(first), "also the one nobody wrote")

	special := nicImage(ImageOptions{Version: newCX6, Seed: 7, Size: 100_000})
	burn(t, m, special)
	assert.Equal(t, special, readBack(t, m), "what is stored, though it does not run yet")
	require.NoError(t, m.Boot())
	burn(t, m, first)
	assert.Equal(t, first, readBack(t, m))
	burn(t, m, nicImage(ImageOptions{Version: newCX6, Seed: 8}))
	burn(t, m, special)
	require.NoError(t, m.Boot())
	assert.Equal(t, special, readBack(t, m))
	kept, err := filepath.Glob(m.imagePath("nic0", "*"))
	require.NoError(t, err)
	assert.LessOrEqual(t, len(kept), 2, "images the card has no longer are forgotten")
	assert.Equal(t, newCX6, device(t, m, "nic0").Running)
	assert.NotContains(t, actions(t, m, "nic0"), "Read Done", "reading is no change")
}

func TestMstflintReportsReadFailure(t *testing.T) {
	m := newMachine(t)
	path := filepath.Join(t.TempDir(), "image")
	for name, args := range map[string][]string{
		"no file": {"-d", cx6, "ri"}, "no card": {"-d", "0000:99:00.0", "ri", path}, "no directory": {"-d", cx6, "ri", path + "/x"},
	} {
		out := run(m, append([]string{"mstflint"}, args...)...)
		assert.Equal(t, flintFailed, out.code, name)
		assert.Contains(t, out.stdout, "-E- ", name)
	}
	const failed = "-E- Failed to read image.\n"
	require.NoError(t, m.SetFault(Fault{ID: "read", Kind: Fail, Device: "nic0", Operation: "read", Stderr: failed}))
	assert.Equal(t, output{1, "", failed}, run(m, "mstflint", "-d", cx6, "ri", path))
	assert.NoFileExists(t, path)
	require.NoError(t, m.SetFault(Fault{ID: "read", Kind: Lie, Device: "nic0", Operation: "read"}))
	assert.Zero(t, run(m, "mstflint", "-d", cx6, "ri", path).code)
	assert.Equal(t, flintFailed, run(m, "mstflint", "-i", path, "v").code)
	assert.Empty(t, actions(t, m, "nic0"))
}

func TestAFirmwareWithoutLinksHasNoneWhateverActivatesIt(t *testing.T) {
	bad := nicImage(ImageOptions{Version: newCX6, LinkDown: true})
	port := "sys/class/net/ens1f0np0/"
	shown := func(t *testing.T, m *Machine, attr string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(m.Dir(), port, attr))
		require.NoError(t, err)
		return string(data)
	}
	for name, activate := range map[string]func(*testing.T, *Machine){
		"reset": func(t *testing.T, m *Machine) {
			require.Zero(t, run(m, "mstfwreset", "-d", cx6, "-l", "3", "-y", "r").code)
		},
		"boot":  func(t *testing.T, m *Machine) { require.NoError(t, m.Boot()) },
		"power": func(t *testing.T, m *Machine) { require.NoError(t, m.PowerCycle()) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			good := readBack(t, m)
			burn(t, m, bad)
			assert.True(t, device(t, m, "nic0").LinkUp, "it does not run yet")
			activate(t, m)
			for range 2 {
				assert.Equal(t, newCX6, device(t, m, "nic0").Running)
				assert.False(t, device(t, m, "nic0").LinkUp)
				assert.Equal(t, "0\n", shown(t, m, "carrier"))
				assert.Equal(t, "down\n", shown(t, m, "operstate"))
				assert.True(t, device(t, m, "nic1").LinkUp, "the other card has its own firmware")
				require.NoError(t, m.Boot())
			}
			assert.Equal(t, bad, readBack(t, m))
			burn(t, m, good)
			assert.False(t, device(t, m, "nic0").LinkUp)
			activate(t, m)
			assert.True(t, device(t, m, "nic0").LinkUp)
			assert.Equal(t, "1\n", shown(t, m, "carrier"))
			assert.Equal(t, "up\n", shown(t, m, "operstate"))
			assert.Equal(t, DefaultCX6Version, device(t, m, "nic0").Running)
		})
	}
}

// A port that is told to speak InfiniBand does so after the next reset: the kernel has no interface for it, and its cable still leads to an
// Ethernet switch.
func TestAPortThatSpeaksInfiniBandHasNoLinkAndNoInterface(t *testing.T) {
	m := newMachine(t)
	told := func(values ...string) {
		t.Helper()
		require.Zero(t, run(m, append([]string{"mstconfig", "-d", cx6, "-y", "set"}, values...)...).code)
	}
	function := "sys/bus/pci/devices/" + cx6 + "/"
	is := func(class, layer, state string, up bool) {
		t.Helper()
		assert.Equal(t, class, read(t, m, function+"class"))
		assert.Equal(t, layer, read(t, m, "sys/class/infiniband/mlx5_0/ports/1/link_layer"))
		assert.Equal(t, state, read(t, m, "sys/class/infiniband/mlx5_0/ports/1/state"))
		assert.Equal(t, up, device(t, m, "nic0").LinkUp)
		connected, err := m.Connected()
		require.NoError(t, err)
		assert.Equal(t, up, connected)
		assert.Equal(t, up, strings.Contains(read(t, m, "proc/1/net/route"), "ens1f0np0"), "the route goes with the interface")
		assert.Equal(t, up, slices.Contains(names(t, m, "sys/class/net"), "ens1f0np0"))
	}
	told("LINK_TYPE_P1=1")
	is("0x020000", "Ethernet", "4: ACTIVE", true)
	require.Zero(t, run(m, "mstfwreset", "-d", cx6, "-l", "3", "-y", "r").code)
	is("0x020700", "InfiniBand", "1: DOWN", false)
	assert.FileExists(t, filepath.Join(m.Dir(), "sys/class/net/ens1f1np1/address"), "the other port has its own setting")
	assert.True(t, device(t, m, "nic1").LinkUp)
	told("LINK_TYPE_P1=ETH")
	require.NoError(t, m.Boot())
	is("0x020000", "Ethernet", "4: ACTIVE", true)
}

func TestAFirmwareThatDoesNotStartLeavesAMemoryController(t *testing.T) {
	m := newMachine(t)
	good := readBack(t, m)
	burn(t, m, nicImage(ImageOptions{Version: newCX6, Recovery: true}))
	require.Zero(t, run(m, "mstfwreset", "-d", cx6, "-l", "3", "-y", "r").code)
	for range 2 {
		assert.False(t, device(t, m, "nic0").LinkUp)
		pci := filepath.Join(m.Dir(), "sys/bus/pci/devices")
		class, err := os.ReadFile(filepath.Join(pci, cx6, "class"))
		require.NoError(t, err)
		assert.Equal(t, "0x058000\n", string(class))
		assert.NoFileExists(t, filepath.Join(pci, cx6, "driver"))
		assert.NoFileExists(t, filepath.Join(pci, "0000:3b:00.1"))
		assert.NoFileExists(t, filepath.Join(m.Dir(), "sys/class/net/ens1f0np0"))
		assert.FileExists(t, filepath.Join(m.Dir(), "sys/class/net/ens2f0np0"))
		query := run(m, "mstflint", "-d", cx6, "-qq", "q")
		assert.Contains(t, query.stdout, "PSID:                  N/A")
		assert.Equal(t, 1, run(m, "mstfwreset", "-d", cx6, "q").code)
		require.NoError(t, m.Boot())
	}
	burn(t, m, good)
	require.NoError(t, m.Boot())
	assert.True(t, device(t, m, "nic0").LinkUp)
	assert.FileExists(t, filepath.Join(m.Dir(), "sys/class/net/ens1f0np0"))
}

func TestADriveRunsAnOlderSlotAgain(t *testing.T) {
	for key, old := range map[string]string{"nvme0": DefaultSamsungVersion, "nvme1": DefaultMicronVersion} {
		t.Run(key, func(t *testing.T) {
			m := newMachine(t)
			dev := "/dev/" + key
			require.Zero(t, run(m, "nvme", "fw-download", dev, "--fw="+image(t, key, "NEW00001")).code)
			run(m, "nvme", "fw-commit", dev, "--slot=2", "--action=1")
			require.NoError(t, m.Boot())
			d := device(t, m, key)
			require.Equal(t, "NEW00001", d.Running)
			require.Equal(t, 2, d.ActiveSlot)
			assert.Equal(t, []string{old, "NEW00001", ""}, d.Slots, "the old image stays where it was")

			out := run(m, "nvme", "fw-commit", dev, "--slot=3", "--action=2")
			assert.Equal(t, 1, out.code, "an empty slot")
			assert.Contains(t, out.stderr, "0x107")
			out = run(m, "nvme", "fw-commit", dev, "--slot=1", "--action=2")
			assert.Contains(t, out.stdout, "action:2 slot:1", "a slot that takes no image can run, too")
			d = device(t, m, key)
			assert.Equal(t, "NEW00001", d.Running, "not before an activation")
			assert.Equal(t, old, d.Stored)
			require.NoError(t, m.Boot())
			d = device(t, m, key)
			assert.Equal(t, old, d.Running)
			assert.Equal(t, []string{old, "NEW00001", ""}, d.Slots)
		})
	}
}

func TestAnOlderCapsuleNeedsToBeAskedForAndHasALimit(t *testing.T) {
	m := newMachine(t)
	older, tooOld := image(t, BIOSKey, "2.9.0"), image(t, BIOSKey, "1.9.0")
	assert.Equal(t, 2, run(m, "fwupdtool", "install", older).code)
	assert.Equal(t, 1, run(m, "fwupdtool", "install", tooOld, "--allow-older").code)
	assert.Zero(t, run(m, "fwupdtool", "install", older, "--allow-older").code)
	require.NoError(t, m.Boot())
	assert.Equal(t, "2.9.0", device(t, m, BIOSKey).Running)

	require.Zero(t, run(m, "fwupdtool", "install", tooOld, "--allow-older", "--force").code)
	require.NoError(t, m.Boot())
	d := device(t, m, BIOSKey)
	assert.Equal(t, "2.9.0", d.Running, "the firmware has the last word")
	assert.Equal(t, attemptWrongVersion, d.LastAttemptStatus)
}
