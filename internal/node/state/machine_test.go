package state_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
)

var first = state.Machine{UUID: "4c4c4544-0042", Serial: "J1001", System: "aa"}

// openOn opens the directory on a machine.
func openOn(t *testing.T, dir string, m state.Machine) *state.State {
	t.Helper()
	s, err := state.Open(dir, state.Options{Daemon: today, Machine: m})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// usedOn is a directory that a daemon has worked with on a machine.
func usedOn(t *testing.T, m state.Machine) (dir string) {
	t.Helper()
	dir = used(t, today)
	require.NoError(t, openOn(t, dir, m).Close())
	return dir
}

// A copy of the disk of another machine has its unfinished job and its holds. None of it is this machine's: it is set aside as it is,
// and the daemon starts as on an empty disk.
func TestForeignStateIsSetAside(t *testing.T) {
	dir := usedOn(t, first)
	write(t, filepath.Join(dir, "archive", "nic", "1_boot"), "image", "bytes")
	before := tree(t, dir)
	v, err := state.NewGuest(dir, second).View()
	require.NoError(t, err)
	assert.Empty(t, v.Jobs, "a guest sees nothing of it either")

	s := openOn(t, dir, second)
	assert.Equal(t, "foreign-1", s.Foreign)
	assert.True(t, s.FirstRun)
	assert.Nil(t, s.Before)
	for _, says := range []string{"serial number J1001; this one is J1002", filepath.Join(dir, "foreign-1"), "main board", "except the file version"} {
		assert.Contains(t, s.Notice, says)
	}
	v, err = s.Journal.View()
	require.NoError(t, err)
	assert.Empty(t, v.Jobs)
	assert.Empty(t, v.Devices)
	assert.Equal(t, s.Notice, v.LastError(), "a person finds it in the status of the node")
	require.NoError(t, s.Close())
	after := tree(t, dir)
	for path, content := range before {
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		assert.Equal(t, content, after[filepath.Join(dir, "foreign-1", name)], name)
	}
	found, err := state.Inspect(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"foreign-1"}, found.Foreign)
	assert.Empty(t, openOn(t, dir, second).Foreign, "once")
}

// What the text says to a person whose main board was replaced works.
func TestForeignStateComesBack(t *testing.T) {
	dir := usedOn(t, first)
	require.NoError(t, openOn(t, dir, second).Close())
	require.NoError(t, os.Rename(filepath.Join(dir, "foreign-1", journal.FileName), filepath.Join(dir, journal.FileName)))
	s := openOn(t, dir, second)
	v, err := s.Journal.View()
	require.NoError(t, err)
	assert.Len(t, v.Jobs, 1)
	assert.Empty(t, s.Foreign)
}

func TestWhoseStateItIs(t *testing.T) {
	for name, c := range map[string]struct {
		was, is state.Machine
		foreign bool
	}{
		"same":                           {first, first, false},
		"never asked":                    {state.Machine{}, first, false},
		"not asked now":                  {first, state.Machine{}, false},
		"new system, same machine":       {first, state.Machine{UUID: first.UUID, Serial: first.Serial, System: "bb"}, false},
		"swapped board":                  {first, state.Machine{UUID: "4c4c4544-0044", Serial: "J7", System: "aa"}, true},
		"clone under one serial number":  {first, state.Machine{UUID: "4c4c4544-0044", Serial: "J1001", System: "aa"}, true},
		"a UUID in the other byte order": {state.Machine{UUID: "4c4c4544-0039-5110-8057-b1c04f4a5931"}, state.Machine{UUID: "44454c4c-3900-1051-8057-b1c04f4a5931"}, false},
		"a UUID that differs at its end": {state.Machine{UUID: "4c4c4544-0039-5110-8057-b1c04f4a5931"}, state.Machine{UUID: "44454c4c-3900-1051-8057-b1c04f4a5932"}, true},
		"serial number alone":            {state.Machine{Serial: "J1"}, state.Machine{UUID: "x", Serial: "J2"}, true},
		"serial number alone, the same":  {state.Machine{Serial: "J1"}, state.Machine{UUID: "x", Serial: "J1", System: "bb"}, false},
		"no tables, another system":      {state.Machine{System: "aa"}, state.Machine{System: "bb"}, true},
		"no tables, the same system":     {state.Machine{System: "aa"}, state.Machine{System: "aa"}, false},
		"tables that were forgotten":     {first, state.Machine{System: "aa"}, false},
		"tables and another system":      {first, state.Machine{System: "bb"}, true},
		"nothing that both have":         {state.Machine{UUID: "x"}, state.Machine{System: "bb"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openOn(t, usedOn(t, c.was), c.is)
			assert.Equal(t, c.foreign, s.Foreign != "", s.Notice)
			assert.Equal(t, c.foreign, s.FirstRun)
		})
	}
}

// An id that is not known for a while, as for a command of another user, is not forgotten. An older daemon that writes the stamp
// without it makes the directory one of nobody until the next newer one.
func TestStampKeepsItsMachine(t *testing.T) {
	dir := usedOn(t, first)
	require.NoError(t, openOn(t, dir, state.Machine{}).Close())
	require.NoError(t, openOn(t, dir, state.Machine{System: "bb", UUID: first.UUID}).Close())
	s := openOn(t, dir, state.Machine{})
	assert.Equal(t, state.Machine{UUID: first.UUID, Serial: first.Serial, System: "bb"}, s.Before.Machine)
	require.NoError(t, s.Close())
	write(t, dir, "version", `{"schema":2,"daemon":"v1.4.1"}`)
	require.NoError(t, openOn(t, dir, state.Machine{UUID: "another"}).Close())
	assert.Equal(t, "another", openOn(t, dir, state.Machine{}).Before.Machine.UUID)
}

func TestReadMachine(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	tree := func(uuid, product, board, system string) fstest.MapFS {
		const dmi = "sys/class/dmi/id/"
		return fstest.MapFS{
			dmi + "product_uuid": {Data: []byte(uuid + "\n")}, dmi + "product_serial": {Data: []byte(product + "\n")},
			dmi + "board_serial": {Data: []byte(board + "\n")}, "etc/machine-id": {Data: []byte(system + "\n")},
		}
	}
	m, err := state.ReadMachine(tree("4C4C4544-0042-3010", "J1001", "B1", id))
	require.NoError(t, err)
	assert.Equal(t, "4c4c4544-0042-3010", m.UUID)
	assert.Equal(t, "J1001", m.Serial)
	assert.Len(t, m.System, 32)
	assert.NotContains(t, m.System, id[:8], "the id is confidential")

	m, err = state.ReadMachine(tree("00020003-0004-0005-0006-000700080009", "To Be Filled By O.E.M.", "B1", "uninitialized"))
	require.NoError(t, err)
	assert.Equal(t, state.Machine{Serial: "B1"}, m, "what every machine has tells none apart")
	m, err = state.ReadMachine(tree("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "None", "Default string", ""))
	require.NoError(t, err)
	assert.Equal(t, state.Machine{}, m)
	m, err = state.ReadMachine(fstest.MapFS{})
	require.NoError(t, err)
	assert.Equal(t, state.Machine{}, m)
}
