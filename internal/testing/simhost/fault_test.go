package simhost

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// updates are ways to bring a new image on a default part: writing it, and activating it with a tool where one can.
var updates = map[string]struct {
	version         string
	write, activate [][]string
}{
	"nic0": {newCX6, [][]string{{"mstflint", "-d", cx6, "-i", "FILE", "-y", "b"}}, [][]string{{"mstfwreset", "-d", cx6, "-l", "3", "-y", "r"}}},
	"nic1": {"28.41.1000", [][]string{{"mstflint", "-d", "0000:5e:00.0", "-i", "FILE", "-y", "b"}}, nil},
	"nvme0": {newSamsung, [][]string{
		{"nvme", "fw-download", "/dev/nvme0", "--fw=FILE"}, {"nvme", "fw-commit", "/dev/nvme0", "-s", "2", "-a", "1"},
	}, [][]string{{"nvme", "reset", "/dev/nvme0"}}},
	"sda":   {newSAS, [][]string{{"sg_write_buffer", "-m", "dmc_offs_defer", "-b", "4k", "-I", "FILE", "/dev/sg0"}}, [][]string{{"sg_write_buffer", "-m", "activate_mc", "/dev/sg0"}}},
	BIOSKey: {newBIOSVersion, [][]string{{"fwupdtool", "install", "FILE", "--json"}}, nil},
}

func writes(m *Machine, key, path string) (last output) {
	for _, argv := range updates[key].write {
		last = run(m, withFile(argv, path)...)
		if last.code != 0 {
			return last
		}
	}
	return last
}

func withFile(argv []string, path string) []string {
	out := make([]string, len(argv))
	for i, a := range argv {
		switch a {
		case "FILE":
			a = path
		case "--fw=FILE":
			a = "--fw=" + path
		}
		out[i] = a
	}
	return out
}

func TestAFailingWriteExitsAsToldAndChangesNothing(t *testing.T) {
	m := newMachine(t)
	for key, u := range updates {
		path, old := image(t, key, u.version), device(t, m, key).Stored
		require.NoError(t, m.SetFault(Fault{ID: "f", Kind: Fail, Device: key, ExitCode: 42, Stderr: "sparks\n", Count: 1}))
		assert.Equal(t, output{42, "", "sparks\n"}, writes(m, key, path), key)
		assert.Equal(t, old, device(t, m, key).Stored, key)
		assert.Contains(t, actions(t, m, key)[0], " Failed", key)
		assert.Zero(t, writes(m, key, path).code, "%s works again", key)
		assert.Equal(t, u.version, device(t, m, key).Stored, key)
	}
}

func TestALyingToolReportsSuccessAndChangesNothing(t *testing.T) {
	m := newMachine(t)
	honest := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "liar", Kind: Lie}))
	for key, u := range updates {
		old := device(t, m, key)
		path := image(t, key, u.version)
		if key == "nvme0" { // a commit needs a download that is no lie
			require.NoError(t, m.SetFault(Fault{ID: "liar", Kind: Lie, Operation: "commit"}))
		}
		assert.Equal(t, writes(honest, key, path), writes(m, key, path), "%s: the lie looks like the truth", key)
		if key == "sda" { // the disk knows that nothing waits; a reset of the others has no such check
			assert.Equal(t, 5, run(m, withFile(u.activate[0], "")...).code)
		} else if u.activate != nil {
			assert.Zero(t, run(m, withFile(u.activate[0], "")...).code, key)
		}
		require.NoError(t, m.SetFault(Fault{ID: "liar", Kind: Lie}))
		assert.Equal(t, old, device(t, m, key), key)
		assert.Contains(t, actions(t, m, key)[len(updates[key].write)-1], "Lied", key)
	}
	assert.Equal(t, output{}, run(m, "systemctl", "reboot"))
	requested, err := m.RebootRequested()
	require.NoError(t, err)
	assert.False(t, requested)
}

func TestWriteCanFailAfterSuccess(t *testing.T) {
	m := newMachine(t)
	for key, u := range updates {
		if key == "nvme0" {
			continue // of two steps: TestFaultMatchesAllItsFields has one
		}
		require.NoError(t, m.SetFault(Fault{ID: "f", Kind: FailAfterSuccess, Device: key, Stderr: "oops\n"}))
		out := writes(m, key, image(t, key, u.version))
		assert.Equal(t, 1, out.code, key)
		assert.Equal(t, "oops\n", out.stderr, key)
		assert.Equal(t, u.version, device(t, m, key).Stored, key)
	}
}

func TestAHangingToolWaitsUntilTheFaultIsCleared(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "stuck", Kind: Hang, Operation: "query"}))
	query := start(t, m, "mstflint", "-d", cx6, "q")
	ended := make(chan error, 1)
	go func() { ended <- query.Wait() }()
	eventually(t, func() bool { f, err := m.Faults(); return err == nil && f[0].Matches == 1 }, "the query hangs")
	select {
	case err := <-ended:
		t.Fatalf("the query ended though its fault is set: %v", err)
	default:
	}
	require.NoError(t, m.ClearFault("stuck"))
	require.NoError(t, <-ended)
}

func TestGarbageReplacesTheOutput(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{Kind: Garbage, Tool: "nvme", Operation: "query", Stdout: "{\"nvme0\":", ExitCode: 0}))
	assert.Equal(t, output{0, "{\"nvme0\":", ""}, run(m, "nvme", "fw-log", "/dev/nvme0", "-o", "json"))
}

func TestActivationMayKeepLinkDown(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{Kind: LinkDown, Device: "nic0", Count: 1}))
	require.Zero(t, run(m, "mstfwreset", "-d", cx6, "-y", "r").code)
	assert.False(t, device(t, m, "nic0").LinkUp)
	assert.Equal(t, "down", read(t, m, "sys/class/net/ens1f0np0/operstate"))
	assert.Equal(t, "0", read(t, m, "sys/class/net/ens1f0np0/carrier"))
	require.NoError(t, m.Boot())
	assert.True(t, device(t, m, "nic0").LinkUp)
	require.NoError(t, m.SetFault(Fault{ID: "boot", Kind: LinkDown, Device: "nic1", Operation: "boot", Count: 1}))
	require.NoError(t, m.Boot())
	assert.False(t, device(t, m, "nic1").LinkUp)
}

func TestFaultMatchesAllItsFields(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "f", Kind: Fail, Tool: "nvme", Device: "nvme0", Operation: "commit", Skip: 1, Count: 2}))
	require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme0", "-f", image(t, "nvme0", newSamsung)).code)
	commit := func() int { return run(m, "nvme", "fw-commit", "/dev/nvme0", "-s", "2", "-a", "0").code }
	codes := []int{commit()}
	for range 3 {
		require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme0", "-f", image(t, "nvme0", newSamsung)).code)
		codes = append(codes, commit())
	}
	assert.Equal(t, []int{0, 1, 1, 0}, codes, "one passes, two fail, the rest pass")
	assert.Zero(t, run(m, "nvme", "id-ctrl", "/dev/nvme0").code)
	assert.Zero(t, run(m, "nvme", "reset", "/dev/nvme1").code)
	faults, err := m.Faults()
	require.NoError(t, err)
	assert.Equal(t, 4, faults[0].Matches)
}

func TestFaultReplacesItsNamesake(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "a", Kind: Fail}))
	require.NoError(t, m.SetFault(Fault{ID: "a", Kind: Lie}))
	require.NoError(t, m.SetFault(Fault{Kind: Hang}))
	assert.ErrorContains(t, m.SetFault(Fault{Kind: "Gremlins"}), "Gremlins")
	faults, err := m.Faults()
	require.NoError(t, err)
	require.Len(t, faults, 2)
	assert.Equal(t, Lie, faults[0].Kind)
	assert.NotEmpty(t, faults[1].ID)
	require.NoError(t, m.ClearFault("nobody"))
	require.NoError(t, m.ClearFaults())
	faults, err = m.Faults()
	require.NoError(t, err)
	assert.Empty(t, faults)
}
