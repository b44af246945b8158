package simhost

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newNICMachine(t *testing.T, change func(*NIC)) *Machine {
	t.Helper()
	spec := DefaultSpec("cards", 0)
	spec.WriteTime, spec.ResetTime = 0, 0
	change(&spec.NICs[0])
	m, err := Create(filepath.Join(t.TempDir(), "machine"), spec)
	require.NoError(t, err)
	require.NoError(t, m.InstallTools(os.Args[0]))
	return m
}

func TestMstflintRevertsUnrunImage(t *testing.T) {
	m := newNICMachine(t, func(n *NIC) { n.Secure = true })
	reactivate := func(verb string) output { return run(m, "mstflint", "-d", cx6, verb) }
	nothing := reactivate("ir")
	assert.Equal(t, flintFailed, nothing.code)
	assert.Contains(t, nothing.stdout, "-E- Failed to execute image reactivation on device 0000:3b:00.0. Error: FW already reactivated.")

	burn(t, m, nicImage(ImageOptions{Version: newCX6}))
	second := run(m, "mstflint", "-d", cx6, "-i", image(t, "nic0", "22.42.1000"), "-y", "b")
	assert.Equal(t, flintFailed, second.code)
	assert.Contains(t, second.stdout, "pending reset", "a secure card takes no second image over one that waits")
	require.NoError(t, m.SetFault(Fault{ID: "lie", Kind: Lie, Operation: "reactivate"}))
	assert.Zero(t, reactivate("image_reactivation").code)
	assert.Equal(t, newCX6, device(t, m, "nic0").Stored)
	require.NoError(t, m.ClearFaults())
	done := reactivate("image_reactivation")
	assert.Equal(t, output{0, "\n-I- FW Image Reactivation succeeded.\n\n", ""}, done)
	assert.Equal(t, DefaultCX6Version, device(t, m, "nic0").Stored)

	burn(t, m, nicImage(ImageOptions{Version: newCX6}))
	require.NoError(t, m.Boot())
	require.Equal(t, newCX6, device(t, m, "nic0").Running)
	assert.Equal(t, flintFailed, reactivate("ir").code, "what ran before another image ran is gone")
	assert.Equal(t, newCX6, device(t, m, "nic0").Stored)
}

// The help text of the real tool lists image_reactivate, which its parser does not know.
func TestMstflintKnowsTheNamesOfTheParserNotThoseOfTheHelpText(t *testing.T) {
	m := newNICMachine(t, func(*NIC) {})
	burn(t, m, nicImage(ImageOptions{Version: newCX6}))
	for _, verb := range []string{"image_reactivate", "frobnicate"} {
		out := run(m, "mstflint", "-d", cx6, verb)
		assert.Equal(t, flintFailed, out.code)
		assert.Contains(t, out.stdout, "Invalid command: "+verb+"\n")
	}
	assert.Equal(t, newCX6, device(t, m, "nic0").Stored)
}

func TestMstflintReadsNoSecureImage(t *testing.T) {
	m := newNICMachine(t, func(n *NIC) { n.Secure = true })
	path := save(t, []byte("what was here before"))
	out := run(m, "mstflint", "-d", cx6, "ri", path)
	assert.Equal(t, flintFailed, out.code)
	assert.Contains(t, out.stdout, "Unsupported operation under Secure FW")
	left, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Empty(t, left, "the real one empties the file before it asks the card")
	assert.Contains(t, run(m, "mstflint", "-d", cx6, "q").stdout, "Security Attributes:   secure-fw\n")
}

func TestMstfwresetPatchesWithoutTakingLinksDown(t *testing.T) {
	m := newNICMachine(t, func(n *NIC) { n.LivePatch = true })
	burn(t, m, nicImage(ImageOptions{Version: newCX6}))
	assert.Contains(t, run(m, "mstfwreset", "-d", cx6, "q").stdout, "-Supported     (default)\n1:")
	require.Zero(t, run(m, "mstfwreset", "-d", cx6, "-y", "r").code, "the least disruptive level is the default")
	assert.Equal(t, newCX6, device(t, m, "nic0").Running)
	assert.True(t, device(t, m, "nic0").LinkUp)
	assert.Equal(t, []string{"Write Done", "Patch Done"}, actions(t, m, "nic0"))
}
