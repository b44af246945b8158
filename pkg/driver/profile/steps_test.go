package profile_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/profile"
)

// stepper is the driver of simflash.yaml with the real tool, and what runs it.
func stepper(t *testing.T) (d *profile.Driver, runner *command.ExecRunner, dir string) {
	t.Helper()
	p, err := profile.Parse("simflash.yaml", []byte(golden(t, "simflash.yaml")))
	require.NoError(t, err)
	dir = newTool(t)
	runner, err = command.NewExecRunner(command.Config{Path: []string{dir}, StateDir: t.TempDir()})
	require.NoError(t, err)
	return profile.New(runner, p), runner, dir
}

func TestAProfileDeclaresItsSteps(t *testing.T) {
	d, _, _ := stepper(t)
	assert.Equal(t, []driver.Step{
		{Name: "self-test", Priority: 970, Deadline: time.Minute},
		{Name: "clear-log", Changes: true, Deadline: 10 * time.Minute},
	}, d.Steps())
}

// R003-5, R003-6: the tool's exit code decides together with the value that it must print, and anything unknown is an error.
func TestToolDecidesStepSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		step, prints string
		want         driver.StepResult
		err          string
	}{
		"expected value":        {"self-test", "0\nverdict passed in 3 s\n", driver.StepResult{Message: `the tool reports "passed in 3 s"`}, ""},
		"another value":         {"self-test", "0\nverdict failed\n", driver.StepResult{}, `the tool reports "failed", not passed`},
		"no value":              {"self-test", "0\nusage: simflash\n", driver.StepResult{}, "find expect[0]: it is not in the output"},
		"two values":            {"self-test", "0\nverdict passed\nverdict failed\n", driver.StepResult{}, `finds both "passed" and "failed"`},
		"declared failure":      {"self-test", "7\nverdict passed\n", driver.StepResult{}, "tool failed: the card is too hot (exit code 7)"},
		"later":                 {"self-test", "6\n", driver.StepResult{}, "try again later"},
		"unknown code":          {"self-test", "3\nverdict passed\n", driver.StepResult{}, "tool failed (exit code 3)"},
		"change":                {"clear-log", "0\n", driver.StepResult{Message: "the tool reports success"}, ""},
		"change that was made":  {"clear-log", "3\n", driver.StepResult{Message: "the tool reports that nothing was left to do"}, ""},
		"change with a reboot":  {"clear-log", "8\n", driver.StepResult{Message: "the tool reports success", Reboot: true}, ""},
		"change that failed":    {"clear-log", "1\nlocked", driver.StepResult{}, "tool failed (exit code 1): locked"},
		"step of another tool":  {"polish", "0\n", driver.StepResult{}, driver.ErrNotSupported.Error()},
		"device that is silent": {"clear-log", "", driver.StepResult{}, "no such device"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _, dir := stepper(t)
			verb := map[string]string{"self-test": "selftest", "clear-log": "clear"}[c.step]
			if c.prints == "" {
				fault(t, dir, "gone", "")
			}
			fault(t, dir, verb+".txt", c.prints)
			got, err := d.RunStep(t.Context(), driver.StepCall{Identity: cardID(), Name: c.step})
			assert.Equal(t, c.want, got)
			if c.err == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, "run step "+c.step)
			assert.ErrorContains(t, err, c.err)
		})
	}
}

// A step that changes the device is a write: it outlives the process and excludes every other write to the device. A step that
// only reads ends with its context.
func TestOnlyAStepThatChangesOutlivesItsProcess(t *testing.T) {
	for name, changes := range map[string]bool{"self-test": false, "clear-log": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, runner, dir := stepper(t)
			id, _, err := d.Inspect(t.Context(), cardID())
			require.NoError(t, err)
			fault(t, dir, "hang", "")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				_, err := d.RunStep(ctx, driver.StepCall{Identity: cardID(), Name: name})
				ended <- err
			}()
			require.Eventually(t, func() bool { _, hangs := faulty(dir, "hangs"); return hangs }, time.Minute, 5*time.Millisecond)
			cancel()
			err = <-ended
			running, failure := runner.WriteRunning(id.UniqueID)
			require.NoError(t, failure)
			assert.Equal(t, changes, running)
			if changes {
				require.ErrorIs(t, err, command.ErrStillRunning)
				_, err = d.RunStep(t.Context(), driver.StepCall{Identity: cardID(), Name: name})
				require.ErrorIs(t, err, command.ErrBusy)
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "hang")))
			require.Eventually(t, func() bool {
				running, err := runner.WriteRunning(id.UniqueID)
				return err == nil && !running
			}, time.Minute, 5*time.Millisecond)
		})
	}
}

// A controller may get another number while the tool works on the number it was given.
func TestReportsRenumberingInStep(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(examples, "storcli.yaml"))
	require.NoError(t, err)
	p, err := profile.Parse("storcli.yaml", []byte(strings.Replace(string(text), "/call, show, all", `"/c{{device.number}}", show, all`, 1)))
	require.NoError(t, err)
	dir := newStorcli(t, "storcli64", front, rear)
	runner, err := command.NewExecRunner(command.Config{Path: []string{dir}, StateDir: t.TempDir()})
	require.NoError(t, err)
	fault(t, dir, "turn-after-1", "")
	_, err = profile.New(runner, p).RunStep(t.Context(), driver.StepCall{Identity: rearID("15d9"), Name: "storcli-health"})
	require.ErrorContains(t, err, "the tool ran on number 1, and the device has number 0 now")
}

// R003-5: a controller that is not in order is told before it is updated.
func TestControllerHealthIsAStep(t *testing.T) {
	t.Parallel()
	eachRAIDTool(t, func(t *testing.T, tool raidTool) {
		for status, want := range map[string]string{
			"Optimal": "", "Needs Attention": `the tool reports "Needs Attention", not Optimal`, "": "it is not in the output",
		} {
			d, dir := tool.driver(t, front, rear)
			fault(t, dir, "status", status)
			result, err := d.RunStep(t.Context(), driver.StepCall{Identity: rearID(tool.subsystem), Name: tool.profile + "-health"})
			if want == "" {
				require.NoError(t, err)
				assert.Equal(t, `the tool reports "Optimal"`, result.Message)
				continue
			}
			require.ErrorContains(t, err, want)
		}
		d, dir := tool.driver(t, front, rear)
		fault(t, dir, "memory", "3")
		_, err := d.RunStep(t.Context(), driver.StepCall{Identity: rearID(tool.subsystem), Name: tool.profile + "-health"})
		require.ErrorContains(t, err, `the tool reports "3", not 0`)
	})
}
