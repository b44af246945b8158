package owntool_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
)

func TestSignalsDoNotEndAnAction(t *testing.T) {
	var out, errs bytes.Buffer
	code := owntool.Run(&out, &errs, func() (owntool.Action, error) {
		return func(say func(string)) error {
			for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
				if err := syscall.Kill(os.Getpid(), s); err != nil {
					return err
				}
			}
			say("set a\nto b")
			return nil
		}, nil
	})
	assert.Equal(t, owntool.OK, code)
	assert.Equal(t, "set a to b\n", out.String())
	assert.Empty(t, errs.String())
}

func TestWhatAnActionReturnsIsACodeAndALine(t *testing.T) {
	for want, err := range map[int]error{owntool.Failed: errors.New("no\npower"), owntool.Rejected: errors.Join(errors.New("no"), owntool.Rejectf("%s", "power"))} {
		var out, errs bytes.Buffer
		assert.Equal(t, want, owntool.Run(&out, &errs, func() (owntool.Action, error) { return func(func(string)) error { return err }, nil }))
		assert.Equal(t, "no power\n", errs.String())
	}
	var out, errs bytes.Buffer
	assert.Equal(t, owntool.Usage, owntool.Run(&out, &errs, func() (owntool.Action, error) { return nil, errors.New("use it well") }))
	assert.Equal(t, "use it well\n", errs.String())
}

// runner has a tool that ends with a code, and may have a write that goes on.
type runner struct {
	result  command.Result
	writing *command.Writing
	err     error
}

func (r runner) Run(context.Context, command.Command) (command.Result, error) { return r.result, r.err }

func (r runner) Writing(lock string) (*command.Writing, error) {
	if lock == "" {
		return nil, errors.New("no lock has no name")
	}
	return r.writing, r.err
}

func TestADriverIsToldWhatTheToolSays(t *testing.T) {
	set := func(r runner) error {
		return owntool.Set(t.Context(), r, command.Command{Argv: []string{"tool", "set"}})
	}
	require.NoError(t, set(runner{}))
	err := set(runner{result: command.Result{ExitCode: owntool.Rejected, Stderr: []byte("not \xff this\nat all\n")}})
	require.ErrorAs(t, err, new(*driver.RejectedError))
	require.ErrorContains(t, err, "not ? this")
	err = set(runner{result: command.Result{ExitCode: owntool.Usage, Stderr: []byte("use it well\n")}})
	require.NotErrorAs(t, err, new(*driver.RejectedError))
	require.ErrorContains(t, err, "some of the values may be stored")
	require.ErrorContains(t, err, "use it well")
	require.ErrorIs(t, set(runner{err: command.ErrStillRunning}), command.ErrStillRunning)
}

// A runner that cannot tell, such as that of a test, has no write that goes on.
func TestADeviceIsIdleUntilItIsWritten(t *testing.T) {
	running := &command.Writing{State: command.WriteRunning}
	ended := &command.Writing{State: command.WriteRunning, Ended: &command.Ended{}}
	require.ErrorIs(t, owntool.Idle(runner{writing: running}, "1"), command.ErrBusy)
	require.ErrorIs(t, owntool.Idle(runner{err: syscall.EIO}, "1"), syscall.EIO)
	for _, r := range []command.Runner{runner{}, runner{writing: ended}, runner{writing: &command.Writing{State: command.WriteLost}}, nil} {
		require.NoError(t, owntool.Idle(r, "1"))
	}
	require.NoError(t, owntool.Idle(runner{writing: running}, ""))
}
