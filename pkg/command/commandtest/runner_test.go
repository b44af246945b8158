package commandtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
)

// failures records what a Runner reports instead of failing this test.
type failures struct {
	testing.TB
	count int
}

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.count++ }

func TestRunnerPlaysToolsAndRecordsTheirCommands(t *testing.T) {
	r := commandtest.NewRunner(t, map[string]commandtest.Tool{
		"nvme": commandtest.Prints("one\ntwo\n"),
		"fail": commandtest.Exits(7, "", "already"),
	})
	var lines []string
	got, err := r.Run(t.Context(), command.Command{Argv: []string{"nvme", "list"}, Progress: func(l string) { lines = append(lines, l) }})
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\n", string(got.Stdout))
	assert.Equal(t, []string{"one", "two"}, lines)

	got, err = r.Run(t.Context(), command.Command{Argv: []string{"fail"}})
	require.NoError(t, err, "an exit code is a result")
	assert.Equal(t, 7, got.ExitCode)
	assert.Equal(t, []string{"nvme list", "fail"}, r.Lines())
	assert.Equal(t, []string{"fail"}, r.Lines("fail"))
}

func TestRunnerFailsTheTestOnWhatTheRealOneWouldRefuse(t *testing.T) {
	for name, c := range map[string]command.Command{
		"unknown tool":       {Argv: []string{"rm"}},
		"no command":         {},
		"unnamed image":      {Argv: []string{"nvme"}, Image: &command.Image{Path: "/image"}},
		"write without lock": {Argv: []string{"nvme"}, Kind: command.Write},
	} {
		f := &failures{}
		r := commandtest.NewRunner(f, map[string]commandtest.Tool{"nvme": commandtest.Prints("")})
		_, err := r.Run(t.Context(), c)
		require.Error(t, err, name)
		assert.Equal(t, 1, f.count, name)
		assert.Empty(t, r.Calls(), name)
	}
}

func TestRunnerRefusesASecondWriteUnderOneLock(t *testing.T) {
	var r *commandtest.Runner
	flash := command.Command{Argv: []string{"flash"}, Kind: command.Write, Lock: "card"}
	r = commandtest.NewRunner(t, map[string]commandtest.Tool{
		"flash": func(ctx context.Context, _ command.Command) (command.Result, error) {
			_, err := r.Run(ctx, flash)
			assert.ErrorIs(t, err, command.ErrBusy)
			return command.Result{}, nil
		},
	})
	for range 2 {
		_, err := r.Run(t.Context(), flash)
		require.NoError(t, err)
	}
}
