package simhost

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	cx6    = "0000:3b:00.0"
	newCX6 = "22.41.1000"
)

func TestMstflintShowsTheRunningVersionOnlyWhenAnotherIsStored(t *testing.T) {
	m := newMachine(t)
	before := run(m, "mstflint", "-d", cx6, "-qq", "q")
	assert.Zero(t, before.code)
	assert.NotContains(t, before.stdout, "Running")
	golden(t, "mstflint-4.21.0-query.golden", before.stdout)
	golden(t, "mstflint-4.21.0-query-full.golden", run(m, "mstflint", "-d", cx6, "q", "full").stdout)

	burn := run(m, "mstflint", "-d", cx6, "-i", image(t, "nic0", newCX6), "-y", "b")
	assert.Zero(t, burn.code)
	golden(t, "mstflint-4.21.0-burn.golden", burn.stdout)

	after := run(m, "mstflint", "-d", "3b:00.1", "query")
	golden(t, "mstflint-4.21.0-query-pending.golden", after.stdout)
	assert.Contains(t, after.stdout, "FW Version:            "+newCX6+"\nFW Version(Running):   "+DefaultCX6Version+"\n")
	d := device(t, m, "nic0")
	assert.Equal(t, DefaultCX6Version, d.Running)
	assert.Equal(t, newCX6, d.Stored)
	assert.Equal(t, digest(imageFor("nic0", newCX6)), d.StoredDigest)
	assert.Equal(t, DefaultCX7Version, device(t, m, "nic1").Stored, "the other card is not touched")
	assert.Equal(t, []string{"Write Done"}, actions(t, m, "nic0"))
}

func TestMstflintReadsAndVerifies(t *testing.T) {
	m := newMachine(t)
	path := image(t, "nic0", newCX6)
	query := run(m, "mstflint", "-i", path, "q")
	assert.Zero(t, query.code)
	golden(t, "mstflint-4.21.0-image-query.golden", query.stdout)
	verify := run(m, "mstflint", "-i", path, "v")
	assert.Zero(t, verify.code)
	golden(t, "mstflint-4.21.0-image-verify.golden", verify.stdout)

	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	flipped := append([]byte{}, whole...)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{
		"truncated": whole[:len(whole)-4], "flipped": flipped, "empty": nil, "page": []byte("<html>404 not found</html>"),
		"other tool's": imageFor("nvme0", "X"),
	} {
		out := run(m, "mstflint", "-i", save(t, bad), "verify")
		assert.Equal(t, 1, out.code, name)
		assert.Contains(t, out.stdout, "-E- FW image verification failed", name)
		out = run(m, "mstflint", "-d", cx6, "-i", save(t, bad), "-y", "b")
		assert.Equal(t, 1, out.code, name)
		assert.Equal(t, DefaultCX6Version, device(t, m, "nic0").Stored, name)
	}
	golden(t, "mstflint-4.21.0-image-verify-bad.golden", run(m, "mstflint", "-i", save(t, flipped), "v").stdout)
	assert.Equal(t, 1, run(m, "mstflint", "-i", "/nowhere", "v").code)
}

func TestMstflintRefusesOtherBoard(t *testing.T) {
	m := newMachine(t)
	out := run(m, "mstflint", "-d", cx6, "-i", image(t, "nic1", newCX6), "-y", "b")
	assert.Equal(t, 1, out.code)
	golden(t, "mstflint-4.21.0-burn-psid.golden", out.stdout)
	assert.Equal(t, DefaultCX6Version, device(t, m, "nic0").Stored)
	assert.Equal(t, []string{"Write Failed"}, actions(t, m, "nic0"))
}

func TestMstflintAsksBeforeSameAndOlderVersions(t *testing.T) {
	older, same := image(t, "nic0", "22.38.1002"), image(t, "nic0", DefaultCX6Version)
	tests := map[string]struct {
		args   []string
		code   int
		writes int
	}{
		"older, yes":            {[]string{"-i", older, "-y", "b"}, 0, 1},
		"older, no":             {[]string{"-i", older, "--no", "b"}, 7, 0},
		"older, no answer":      {[]string{"-i", older, "b"}, 7, 0},
		"same, yes":             {[]string{"-i", same, "-y", "burn"}, 0, 1},
		"same, no answer":       {[]string{"-i", same, "b"}, 7, 0},
		"same, skip if same":    {[]string{"-i", same, "--skip_if_same", "-y", "b"}, 0, 0},
		"older, skip if same":   {[]string{"-i", older, "--skip_if_same", "-y", "b"}, 0, 1},
		"newer needs no answer": {[]string{"-i", image(t, "nic0", newCX6), "b"}, 0, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			out := run(m, append([]string{"mstflint", "-d", cx6}, test.args...)...)
			assert.Equal(t, test.code, out.code, out.stdout)
			assert.Len(t, actions(t, m, "nic0"), test.writes)
		})
	}
}

func TestMstflintRejectsUnknown(t *testing.T) {
	m := newMachine(t)
	for _, args := range [][]string{
		{"-d", "0000:99:00.0", "q"}, {"-d", cx6}, {"q"}, {"-d", cx6, "--allow_psid_change", "b"},
		{"-d", cx6, "b"}, {"-i", "x", "b"},
	} {
		out := run(m, append([]string{"mstflint"}, args...)...)
		assert.Equal(t, 1, out.code, args)
		assert.Regexp(t, `^(-E- |No command found|NAME\n)`, out.stdout, "%v", args)
	}
	assert.Empty(t, actions(t, m, "nic0"))
}

func TestMstflintRefusesASecondBurn(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "slow", Kind: Hang, Device: "nic0", Operation: "write", Count: 1}))
	first := start(t, m, "mstflint", "-d", cx6, "-i", image(t, "nic0", newCX6), "-y", "b")
	eventually(t, func() bool { return device(t, m, "nic0").Torn }, "the first burn writes")

	second := run(m, "mstflint", "-d", "0000:3b:00.1", "-i", image(t, "nic0", "22.42.1000"), "-y", "b")
	assert.Equal(t, 1, second.code)
	assert.Contains(t, second.stdout, "-E- Burning FS4 image failed: Failed to lock flash semaphore")
	assert.Equal(t, 1, run(m, "mstfwreset", "-d", cx6, "-l", "3", "-y", "r").code, "nor a reset")
	other := run(m, "mstflint", "-d", "0000:5e:00.0", "-i", image(t, "nic1", "28.41.1000"), "-y", "b")
	assert.Zero(t, other.code, "another card is free")

	require.NoError(t, m.ClearFault("slow"))
	require.NoError(t, first.Wait())
	assert.Equal(t, newCX6, device(t, m, "nic0").Stored)
	assert.Equal(t, []string{"Write Done", "Write Failed"}, actions(t, m, "nic0"))
}

func TestABurnThatWasKilledHarmsTheStoredImageOnly(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "slow", Kind: Hang, Operation: "write"}))
	burn := start(t, m, "mstflint", "-d", cx6, "-i", image(t, "nic0", newCX6), "-y", "b")
	eventually(t, func() bool { return device(t, m, "nic0").Torn }, "the burn writes")
	require.NoError(t, burn.Process.Kill())
	_ = burn.Wait()
	require.NoError(t, m.ClearFaults())

	d := device(t, m, "nic0")
	assert.True(t, d.Torn)
	assert.Equal(t, DefaultCX6Version, d.Running)
	assert.Equal(t, []string{"Write Started"}, actions(t, m, "nic0"))
	assert.NotContains(t, run(m, "mstflint", "-d", cx6, "q").stdout, newCX6)
	assert.Equal(t, 1, run(m, "mstflint", "-d", cx6, "v").code)
	require.NoError(t, m.Boot())
	assert.Equal(t, DefaultCX6Version, device(t, m, "nic0").Running, "a torn image never runs")

	again := run(m, "mstflint", "-d", cx6, "-i", image(t, "nic0", newCX6), "-y", "b")
	assert.Zero(t, again.code, again.stdout)
	assert.Zero(t, run(m, "mstflint", "-d", cx6, "v").code)
	assert.False(t, device(t, m, "nic0").Torn)
	require.NoError(t, m.Boot())
	assert.Equal(t, newCX6, device(t, m, "nic0").Running)
}

func TestMstfwresetActivatesWhereTheLevelIsSupported(t *testing.T) {
	m := newMachine(t)
	golden(t, "mstfwreset-4.21.0-query.golden", run(m, "mstfwreset", "-d", cx6, "q").stdout)
	golden(t, "mstfwreset-4.21.0-query-reboot.golden", run(m, "mstfwreset", "-d", "5e:00.0", "query").stdout)

	require.Zero(t, run(m, "mstflint", "-d", cx6, "-i", image(t, "nic0", newCX6), "-y", "b").code)
	reset := run(m, "mstfwreset", "-d", cx6, "-l", "3", "-y", "r")
	assert.Zero(t, reset.code)
	golden(t, "mstfwreset-4.21.0-reset.golden", reset.stdout)
	assert.Equal(t, newCX6, device(t, m, "nic0").Running)
	assert.True(t, device(t, m, "nic0").LinkUp)

	require.Zero(t, run(m, "mstflint", "-d", "5e:00.0", "-i", image(t, "nic1", "28.41.1000"), "-y", "b").code)
	refused := run(m, "mstfwreset", "-d", "5e:00.0", "--level", "3", "-y", "reset")
	assert.Equal(t, 1, refused.code)
	golden(t, "mstfwreset-4.21.0-reset-unsupported.golden", refused.stdout)
	assert.Equal(t, DefaultCX7Version, device(t, m, "nic1").Running)

	reboot := run(m, "mstfwreset", "-d", "5e:00.0", "-l", "4", "-y", "r")
	assert.Zero(t, reboot.code)
	requested, err := m.RebootRequested()
	require.NoError(t, err)
	assert.True(t, requested)
	require.NoError(t, m.Boot())
	assert.Equal(t, "28.41.1000", device(t, m, "nic1").Running)
}

func TestMstfwresetTakesTheLinkDown(t *testing.T) {
	m := newMachine(t)
	operstate := func(port string) string { return read(t, m, "sys/class/net/"+port+"/operstate") }
	require.Equal(t, "up", operstate("ens1f0np0"))
	require.NoError(t, m.SetFault(Fault{ID: "slow", Kind: Hang, Operation: "reset"}))
	reset := start(t, m, "mstfwreset", "-d", cx6, "-y", "r")
	eventually(t, func() bool { return operstate("ens1f0np0") == "down" && operstate("ens1f1np1") == "down" }, "link goes down")
	assert.Equal(t, "up", operstate("ens2f0np0"), "the other card's link stays")
	require.NoError(t, m.ClearFaults())
	require.NoError(t, reset.Wait())
	assert.Equal(t, "up", operstate("ens1f0np0"))
}

func read(t *testing.T, m *Machine, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(m.Dir(), path))
	require.NoError(t, err)
	return strings.TrimSuffix(string(data), "\n")
}
