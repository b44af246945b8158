package cli_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

var osFS = durable.OS{}

func copyOf(image string) func(context.Context, string) error {
	return func(_ context.Context, path string) error { return os.Link(image, path) }
}

// lived is a state directory with something of everything, open as a daemon has it.
func lived(t *testing.T) (dir string, s *state.State) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	s, err := state.Open(dir, state.Options{Daemon: "v1.4.2"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	job := journal.Job{Name: "n1-abcde", UID: "1", Accepted: at}
	job.Record.Updates = []step.Update{{Device: "n1-nic", Version: "22.41.1000"}}
	job.Record.Steps = []step.Step{{Step: plan.Step{Kind: plan.Flash, Device: "n1-nic"}, State: step.Running, Attempt: 1, Message: "42%"}}
	job.Record.Verdict = &step.Verdict{Healthy: true, BootID: "boot-2", Time: at}
	digest := "sha256:" + strings.Repeat("ab", 32)
	require.NoError(t, s.Journal.Save(job,
		journal.Device{
			UniqueID: "nic-b83fd2000010", LastApplied: &journal.Applied{Version: "22.39.1002"},
			Attempts: &journal.Attempts{Digest: digest, Writes: 2, Reboots: 1},
			Drift:    []journal.Setting{{Name: "LINK_TYPE_P1", Value: "ETH(2)"}},
		},
		journal.Device{
			UniqueID: "nic-b83fd2000020", LastGood: "28.39.1002", Unhealthy: &journal.UnhealthyMark{Since: at, Job: "n1-older"},
			LastFailure: &journal.Failure{Version: "28.41.1000", Digest: digest, Reason: "Unhealthy", Job: "n1-older", Time: at},
			SettingsFailure: &journal.Failure{
				Digest: "sha256:" + strings.Repeat("cd", 32), Reason: "ParameterInvalid", Message: "numVFs takes 0 to 16", Job: "n1-older", Time: at,
			},
		}))
	for _, unhealthy := range []bool{false, true} {
		m := archive.Manifest{
			UniqueID: "nic-b83fd2000010", Class: inventory.NIC, Model: "ConnectX-6 Dx", BoardID: cx6Board, Version: "22.39.1002", BootID: "boot-1",
			Rollback: inventory.RollbackReadBack, Job: "n1-abcde", Time: at, Unhealthy: unhealthy,
		}
		require.NoError(t, s.Archive.Keep(t.Context(), m, func(_ context.Context, path string) error {
			return os.WriteFile(path, []byte("image"), 0o600)
		}))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "leftover-1"), 0o700))
	return dir, s
}

func printState(t *testing.T, dir string, format cli.Format, result cli.State) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, cli.Print(&out, format, result))
	return strings.ReplaceAll(out.String(), dir, "/var/lib/node-firmware")
}

func TestPrintsStateOfRunningDaemon(t *testing.T) {
	dir, _ := lived(t)
	result, err := cli.ReadState(dir, "boot-2")
	require.NoError(t, err)
	for _, format := range []cli.Format{cli.Table, cli.JSON} {
		golden.Equal(t, "testdata/state."+string(format), printState(t, dir, format, result))
	}
}

// TestIgnoresVerdictOfOtherBoot proves R002-31.
func TestIgnoresVerdictOfOtherBoot(t *testing.T) {
	dir, s := lived(t)
	require.NoError(t, s.Close())
	result, err := cli.ReadState(dir, "boot-3")
	require.NoError(t, err)
	assert.Equal(t, journal.Health("Unknown"), result.Verdict.Result)
	assert.Equal(t, "boot-2", result.Verdict.BootID)
	text := printState(t, dir, cli.Table, result)
	assert.Contains(t, text, "which was another boot")
	assert.Contains(t, text, "no daemon uses it")
}

func TestReportsUnreadableState(t *testing.T) {
	dir, s := lived(t)
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "journal.db"), bytes.Repeat([]byte{0}, 1<<14), 0o600))
	result, err := cli.ReadState(dir, "boot-2")
	require.ErrorIs(t, err, cli.ErrUnreadableState)
	assert.Contains(t, printState(t, dir, cli.Table, result), "Not read:")
	assert.Len(t, result.Archive, 2, "the rest is shown all the same")
	_, err = cli.ReadState(filepath.Join(dir, "absent"), "")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestStateOfUnusedMachine(t *testing.T) {
	dir := t.TempDir()
	result, err := cli.ReadState(dir, "boot-1")
	require.NoError(t, err)
	text := printState(t, dir, cli.Table, result)
	assert.Contains(t, text, "Job:     none")
	assert.Contains(t, text, "Opened:  never to its end")
	var list bytes.Buffer
	require.NoError(t, cli.Print(&list, cli.Table, cli.ArchiveList{}))
	assert.Equal(t, "Nothing is archived.\n", list.String())
}
