package nvmetcp_test

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable/durabletest"
)

// cuts are how often one moment is cut.
const cuts = 10

// update downloads, commits and resets, and is how far it came: 0 nothing, 1 committed, 2 activated.
func update(t *testing.T, d *testDrive) int {
	h := attach(t, d)
	h.download(testImage(t, "2.0", 10<<10), 4096)
	if h.commit(2, storeAndReset) != nvmectrl.Success {
		return 0
	}
	require.Equal(t, nvmectrl.Success, h.setProperty(0x14, 0x460000))
	if h.property(0x1c).value&2 != 0 {
		return 1
	}
	return 2
}

// operationsOfUpdate is how many operations on files opening a drive and an update take.
func operationsOfUpdate(t *testing.T) (opening, all int) {
	dir := t.TempDir()
	fsys, err := durabletest.New(dir)
	require.NoError(t, err)
	config := testConfig()
	config.FS, config.NamespaceSize = fsys, 4096
	d := serve(t, filepath.Join(dir, "state.json"), config)
	opening = fsys.Operations()
	require.Equal(t, 2, update(t, d))
	return opening, fsys.Operations()
}

func TestAPowerCutAtAnyWriteLeavesAWholeDrive(t *testing.T) {
	opening, all := operationsOfUpdate(t)
	require.Greater(t, all, opening+4)
	for at := range all - opening + 1 {
		dir := t.TempDir()
		fsys, err := durabletest.New(dir)
		require.NoError(t, err)
		config := testConfig()
		config.FS, config.NamespaceSize = fsys, 4096
		d := serve(t, filepath.Join(dir, "state.json"), config)
		fsys.CutAt(opening + at)
		came := update(t, d)
		require.Equal(t, at == all-opening, came == 2, "cut at %d", at)
		random := rand.New(rand.NewPCG(uint64(at), 1))
		for range cuts {
			to := t.TempDir()
			require.NoError(t, fsys.Cut(random, to))
			config.FS = nil
			again, err := nvmetcp.Open(filepath.Join(to, "state.json"), config)
			require.NoError(t, err, "cut at %d", at)
			f := again.Firmware()
			require.NoError(t, again.Close())
			if came > 0 || f.Slots[1].Revision != "" {
				assert.Equal(t, nvmectrl.Slot{Revision: "2.0", Digest: f.Slots[1].Digest, Security: 1}, f.Running, "cut at %d: what was committed runs after the power cut", at)
				assert.Len(t, f.Running.Digest, 64)
				assert.Equal(t, 2, f.Active)
			} else {
				assert.Equal(t, "1.0", f.Running.Revision, "cut at %d", at)
				assert.Equal(t, 1, f.Active)
			}
			assert.Zero(t, f.Next)
		}
	}
}

func TestACommitThatCannotBeWrittenFails(t *testing.T) {
	dir := t.TempDir()
	fsys, err := durabletest.New(dir)
	require.NoError(t, err)
	config := testConfig()
	config.FS, config.NamespaceSize = fsys, 4096
	d := serve(t, filepath.Join(dir, "state.json"), config)
	h := attach(t, d)
	h.download(testImage(t, "2.0", 10<<10), 4096)
	fsys.Full(10)
	assert.Equal(t, nvmectrl.InternalError, h.commit(2, storeAndReset))
	assert.Empty(t, d.Firmware().Slots[1])
	fsys.Full(-1)
	h.download(testImage(t, "2.0", 10<<10), 4096)
	require.Equal(t, nvmectrl.Success, h.commit(2, storeAndReset))
	fsys.Full(10)
	require.Equal(t, nvmectrl.Success, h.setProperty(0x14, 0x460000))
	assert.Equal(t, uint64(2), h.property(0x1c).value, "the controller is broken: it could not activate")
}

func TestAStateThatCannotBeIsRefused(t *testing.T) {
	for name, content := range map[string]string{
		"empty":           "",
		"other slots":     `{"slots":[{"revision":"1"}],"active":1,"running":{"revision":"1"}}`,
		"no active slot":  `{"slots":[{"revision":"1"},{},{}],"running":{"revision":"1"}}`,
		"empty next slot": `{"slots":[{"revision":"1"},{},{}],"active":1,"next":2,"running":{"revision":"1"}}`,
		"slot 9":          `{"slots":[{"revision":"1"},{},{}],"active":1,"next":9,"running":{"revision":"1"}}`,
		"a long revision": `{"slots":[{"revision":"123456789"},{},{}],"active":1,"running":{"revision":"1"}}`,
	} {
		state := filepath.Join(t.TempDir(), "state.json")
		require.NoError(t, os.WriteFile(state, []byte(content), 0o600))
		_, err := nvmetcp.Open(state, testConfig())
		assert.ErrorContains(t, err, state, name)
		kept, err := os.ReadFile(state)
		require.NoError(t, err)
		assert.Equal(t, content, string(kept), name)
	}
}

func TestConfigsThatCannotBeAreRefused(t *testing.T) {
	for name, change := range map[string]func(*nvmetcp.Config){
		"no serial":          func(c *nvmetcp.Config) { c.Serial = "" },
		"long revision":      func(c *nvmetcp.Config) { c.Revision = "123456789" },
		"eight slots":        func(c *nvmetcp.Config) { c.Slots = 8 },
		"nothing to write":   func(c *nvmetcp.Config) { c.Slots, c.FirstSlotReadOnly = 1, true },
		"unknown activation": func(c *nvmetcp.Config) { c.Activation = "never" },
		"granularity":        func(c *nvmetcp.Config) { c.FWUG = 64 },
		"namespace":          func(c *nvmetcp.Config) { c.NamespaceSize = 100 },
		"NQN":                func(c *nvmetcp.Config) { c.NQN = "S1" },
	} {
		config, state := testConfig(), filepath.Join(t.TempDir(), "state.json")
		change(&config)
		_, err := nvmetcp.Open(state, config)
		assert.Error(t, err, name)
		assert.NoFileExists(t, state, name)
	}
}

func TestADriveIsServedOnTheLoopbackOnly(t *testing.T) {
	drive, err := nvmetcp.Open(filepath.Join(t.TempDir(), "state.json"), testConfig())
	require.NoError(t, err)
	defer drive.Close()
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	assert.ErrorContains(t, nvmetcp.Serve(t.Context(), listener, drive), "loopback")
}
