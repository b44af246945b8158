package cli_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func (s *stage) stateDir() string { return filepath.Join(s.dir, "state") }

func (s *stage) archiving(log io.Writer) cli.Archiving {
	return cli.Archiving{
		StateDir: s.stateDir(), BootID: s.hardware.BootID, Scan: s.hardware.Host.Scan, Drivers: s.hardware.Drivers,
		Writes: s.hardware.Runner, Log: log,
	}
}

// card is the unique id of the board's card.
func (s *stage) card(t *testing.T, board string) string {
	t.Helper()
	for _, d := range s.scan(t).Devices {
		if d.BoardID == board {
			return d.UniqueID
		}
	}
	require.Fail(t, "no such card")
	return ""
}

const (
	cx6Board = "MT_0000000359"
	cx7Board = "MT_0000000834"
)

// journal changes the journal while no daemon runs.
func (s *stage) journal(t *testing.T, job journal.Job, devices ...journal.Device) {
	t.Helper()
	st, err := state.Open(s.stateDir(), state.Options{Daemon: version.Current()})
	require.NoError(t, err)
	require.NoError(t, st.Journal.Save(job, devices...))
	require.NoError(t, st.Close())
}

// TestBackupCanBeRestored proves R002-49.
func TestBackupCanBeRestored(t *testing.T) {
	s := newStage(t)
	id := s.card(t, cx6Board)
	backup, err := s.archiving(io.Discard).Backup(t.Context(), id, "")
	require.NoError(t, err)
	assert.Equal(t, simhost.DefaultCX6Version, backup.Version)
	list, err := cli.ListArchive(s.stateDir())
	require.NoError(t, err)
	require.Len(t, list.Images, 1)
	bootID, err := s.BootID()
	require.NoError(t, err)
	got := list.Images[0]
	assert.Equal(t, backup.Place, got.Entry)
	assert.Equal(t, cx6Board, got.BoardID)
	assert.Equal(t, bootID, got.BootID)
	assert.Equal(t, "ReadBack", got.Source)
	assert.Positive(t, got.Size)

	_, err = cli.Apply(t.Context(), s.applying(t, io.Discard))
	require.ErrorIs(t, err, cli.ErrRebootPending)
	require.NoError(t, s.Boot())
	_, err = cli.Apply(t.Context(), s.applying(t, io.Discard))
	require.NoError(t, err)
	running, err := s.Running("nic0")
	require.NoError(t, err)
	require.Equal(t, "22.41.1000", running)

	var log bytes.Buffer
	restored, err := s.archiving(&log).Restore(t.Context(), backup.Place)
	require.NoError(t, err)
	assert.Equal(t, simhost.DefaultCX6Version, restored.Version)
	assert.Equal(t, "22.41.1000", restored.Running)
	assert.Equal(t, "DeviceReset", restored.Activation)
	assert.Contains(t, log.String(), "Writing "+simhost.DefaultCX6Version)
	var text bytes.Buffer
	require.NoError(t, cli.Print(&text, cli.Table, restored))
	assert.Contains(t, text.String(), "a reset of the device activates it")
	require.NoError(t, s.Boot())
	running, err = s.Running("nic0")
	require.NoError(t, err)
	assert.Equal(t, simhost.DefaultCX6Version, running)
}

// A backup in a directory has the settings of the card too.
func TestBackupHasTheSettings(t *testing.T) {
	s := newStage(t)
	id := s.card(t, cx6Board)
	dir := filepath.Join(t.TempDir(), "backup")
	_, err := s.archiving(io.Discard).Backup(t.Context(), id, dir)
	require.NoError(t, err)

	devices := s.scan(t).Devices
	at := slices.IndexFunc(devices, func(d inventory.Device) bool { return d.UniqueID == id })
	c, err := s.hardware.Drivers.Configurer(devices[at])
	require.NoError(t, err)
	next := func() string {
		all, err := c.Parameters(t.Context(), devices[at].Identity, "NUM_OF_VFS")
		require.NoError(t, err)
		return inventory.FindParameter(all, "NUM_OF_VFS").Next.Value
	}
	require.Equal(t, "0", next())
	_, err = c.Configure(t.Context(), devices[at].Identity, driver.Configuration{Set: []inventory.Setting{{Name: "NUM_OF_VFS", Value: "8"}}})
	require.NoError(t, err)
	require.Equal(t, "8", next())

	var log bytes.Buffer
	restored, err := s.archiving(&log).RestoreFrom(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, "0", next())
	assert.Contains(t, log.String(), "settings of "+id)
	assert.NotEqual(t, "PowerCycle", restored.Activation)
}

// TestBackupToADirectory proves R002-73.
func TestBackupToADirectory(t *testing.T) {
	s := newStage(t)
	id, to := s.card(t, cx6Board), filepath.Join(s.dir, "usb-stick")
	_, err := s.archiving(io.Discard).Backup(t.Context(), id, to)
	require.NoError(t, err)
	_, err = s.archiving(io.Discard).Backup(t.Context(), id, to)
	require.ErrorIs(t, err, archive.ErrExists)
	list, err := cli.ListArchive(s.stateDir())
	require.NoError(t, err)
	assert.Empty(t, list.Images)
	_, err = s.archiving(io.Discard).RestoreFrom(t.Context(), to)
	require.NoError(t, err)
	assert.Zero(t, s.count(t, "Write"), "the card holds it already")

	image := filepath.Join(to, "image")
	raw, err := os.ReadFile(image)
	require.NoError(t, err)
	raw[len(raw)/2] ^= 1
	require.NoError(t, os.WriteFile(image, raw, 0o600))
	_, err = s.archiving(io.Discard).RestoreFrom(t.Context(), to)
	require.ErrorContains(t, err, "sha256")
	_, err = s.archiving(io.Discard).RestoreFrom(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "manifest.json")
}

// TestBackupRefusesWhatIsThere proves R002-73.
func TestBackupRefusesWhatIsThere(t *testing.T) {
	s := newStage(t)
	id := s.card(t, cx6Board)
	_, err := s.archiving(io.Discard).Backup(t.Context(), id, "")
	require.NoError(t, err)
	_, err = s.archiving(io.Discard).Backup(t.Context(), id, "")
	require.ErrorIs(t, err, archive.ErrExists)
}

// TestBackupAndRestoreRefuseWhileADaemonRuns proves R002-71.
func TestBackupAndRestoreRefuseWhileADaemonRuns(t *testing.T) {
	s := newStage(t)
	id := s.card(t, cx6Board)
	backup, err := s.archiving(io.Discard).Backup(t.Context(), id, "")
	require.NoError(t, err)
	daemon, err := state.Open(s.stateDir(), state.Options{Daemon: version.Current()})
	require.NoError(t, err)
	defer daemon.Close()
	_, err = s.archiving(io.Discard).Backup(t.Context(), s.card(t, cx7Board), "")
	require.ErrorIs(t, err, state.ErrLocked)
	_, err = s.archiving(io.Discard).Restore(t.Context(), backup.Place)
	require.ErrorIs(t, err, state.ErrLocked)
	list, err := cli.ListArchive(s.stateDir())
	require.NoError(t, err, "to list is allowed")
	assert.Len(t, list.Images, 1)
}

func failedJob(id string) journal.Job {
	update := journal.Update{Class: inventory.NIC, Device: "nic", UniqueID: id, Version: "2"}
	j := journal.Job{Name: "broken", UID: "broken", Updates: []journal.Update{update}}
	j.Record.Outcome = step.Failed
	j.Record.Failure = &step.Failure{Reason: step.Unhealthy, Message: "link down", Held: true}
	return j
}

// TestAfterAFailureRestoreIsAllowedAndBackupIsNot proves R002-72.
func TestAfterAFailureRestoreIsAllowedAndBackupIsNot(t *testing.T) {
	s := newStage(t)
	id := s.card(t, cx6Board)
	backup, err := s.archiving(io.Discard).Backup(t.Context(), id, "")
	require.NoError(t, err)
	refused := func(want string) {
		t.Helper()
		_, err := s.archiving(io.Discard).Backup(t.Context(), id, filepath.Join(s.dir, "bad"))
		require.ErrorContains(t, err, want)
		assert.NoDirExists(t, filepath.Join(s.dir, "bad"))
		_, err = s.archiving(io.Discard).Restore(t.Context(), backup.Place)
		require.NoError(t, err)
	}
	s.journal(t, failedJob(id))
	refused("job broken failed and holds this machine")
	_, err = s.archiving(io.Discard).Backup(t.Context(), s.card(t, cx7Board), "")
	require.NoError(t, err, "another device is as good as before")
	released := failedJob(id)
	released.Record.Released = true
	s.journal(t, released, journal.Device{UniqueID: id, Unhealthy: &journal.UnhealthyMark{Job: "broken"}})
	refused("job broken left the device unhealthy")
}

func TestTouchesNothingDuringJob(t *testing.T) {
	s := newStage(t)
	id := s.card(t, cx6Board)
	backup, err := s.archiving(io.Discard).Backup(t.Context(), id, "")
	require.NoError(t, err)
	s.journal(t, journal.Job{Name: "running", UID: "running"})
	_, err = s.archiving(io.Discard).Backup(t.Context(), id, filepath.Join(s.dir, "x"))
	require.ErrorContains(t, err, "job running is not finished")
	_, err = s.archiving(io.Discard).Restore(t.Context(), backup.Place)
	require.ErrorContains(t, err, "job running is not finished")
}

// TestEvidenceAndForeignImagesAreNotRestored proves R002-35, R002-74.
func TestEvidenceAndForeignImagesAreNotRestored(t *testing.T) {
	s := newStage(t)
	id := s.card(t, cx6Board)
	fromCard := filepath.Join(s.dir, "copy")
	_, err := s.archiving(io.Discard).Backup(t.Context(), id, fromCard)
	require.NoError(t, err)
	_, m, err := archive.Load(osFS, fromCard)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		edit func(*archive.Manifest)
		want string
	}{
		"evidence":       {func(m *archive.Manifest) { m.Unhealthy = true }, "unhealthy host"},
		"another board":  {func(m *archive.Manifest) { m.BoardID = cx7Board }, `of board "MT_0000000834"`},
		"another class":  {func(m *archive.Manifest) { m.Class = inventory.Disk }, "is of a Disk"},
		"another device": {func(m *archive.Manifest) { m.UniqueID = "gone" }, "no device of this machine"},
		"another card":   {func(m *archive.Manifest) { m.UniqueID, m.BoardID = s.card(t, cx7Board), cx7Board }, "image rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			edited := m
			tc.edit(&edited)
			to := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, archive.Write(t.Context(), osFS, to, edited, copyOf(filepath.Join(fromCard, "image"))))
			_, err := s.archiving(io.Discard).RestoreFrom(t.Context(), to)
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, err = s.archiving(io.Discard).Restore(t.Context(), "no/such_entry")
	require.ErrorIs(t, err, archive.ErrUnknown)
	assert.Zero(t, s.count(t, "Write"))
}

func TestBackupNamesUnreadable(t *testing.T) {
	s := newStage(t)
	var disk string
	for _, d := range s.scan(t).Devices {
		if d.Class == inventory.Disk && d.Driver != "" {
			disk = d.UniqueID
		}
	}
	_, err := s.archiving(io.Discard).Backup(t.Context(), disk, "")
	require.ErrorContains(t, err, "cannot be read back")
	_, err = s.archiving(io.Discard).Backup(t.Context(), "absent", "")
	require.ErrorContains(t, err, "discover -o json lists them")
	require.NoError(t, s.SetFault(simhost.Fault{Kind: simhost.Fail, Tool: "mstflint", Device: "nic0", Operation: "read", ExitCode: 1, Stderr: "-E- Flash read failed"}))
	_, err = s.archiving(io.Discard).Backup(t.Context(), s.card(t, cx6Board), "")
	require.Error(t, err)
	list, err := cli.ListArchive(s.stateDir())
	require.NoError(t, err)
	assert.Empty(t, list.Images)
}

// TestPinnedImagesAreMarked proves R002-76.
func TestPinnedImagesAreMarked(t *testing.T) {
	s := newStage(t)
	backup, err := s.archiving(io.Discard).Backup(t.Context(), s.card(t, cx6Board), "")
	require.NoError(t, err)
	require.NoError(t, cli.Pin(s.stateDir(), state.Machine{}, backup.Place))
	list, err := cli.ListArchive(s.stateDir())
	require.NoError(t, err)
	assert.True(t, list.Images[0].Pinned)
	require.NoError(t, cli.Unpin(s.stateDir(), state.Machine{}, backup.Place))
	require.ErrorIs(t, cli.Pin(s.stateDir(), state.Machine{}, "x/y_z"), archive.ErrUnknown)
}

// A disk that was copied brings the archive of another machine along. It is set aside, and whoever looks for an entry of it is told.
func TestForeignArchive(t *testing.T) {
	s := newStage(t)
	other := state.Machine{UUID: "4c4c4544-0042-3010-8051-b4c04f4a3232"}
	a := s.archiving(io.Discard)
	a.Machine = other
	backup, err := a.Backup(t.Context(), s.card(t, cx6Board), "")
	require.NoError(t, err)
	err = cli.Pin(s.stateDir(), state.Machine{UUID: "4c4c4544-0042-3010-8051-b4c04f4a3233"}, backup.Place)
	require.ErrorIs(t, err, archive.ErrUnknown)
	assert.ErrorContains(t, err, "The state directory is of another machine")
	list, err := cli.ListArchive(s.stateDir())
	require.NoError(t, err)
	assert.Empty(t, list.Images)
}
