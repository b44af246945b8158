package steps_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/steps"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/profile"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

const acme = `
name: acme
version: "1"
match: {class: Disk, support: Vendor, vendorIDs: ["144d"]}
inspect:
  argv: [acmetool, show]
  exits: {ok: [0]}
  format: regex
  fields:
    running: {pattern: '(?m)^firmware (\S+)$'}
readOnly: the tool cannot write
steps:
- name: self-test
  priority: 970
  argv: [acmetool, test]
  timeout: 1m
  exits: {ok: [0]}
  format: regex
  expect:
  - {pattern: '(?m)^verdict (\S+)$', is: [passed]}
  fields:
    result: {pattern: '(?m)^verdict (\S+)$'}
- name: sanitize
  changes: true
  argv: [acmetool, sanitize]
  timeout: 2h
  exits: {ok: [0], pending: {8: Reboot}}
`

func acmeDriver(t *testing.T, runner command.Runner, text string) driver.Driver {
	t.Helper()
	p, err := profile.Parse("acme.yaml", []byte(text))
	require.NoError(t, err)
	return profile.New(runner, p)
}

// acmeHost is a host with a drive of the profile. The tool prints the verdict; the errors are those of the first attempts
// to sanitize the drive, which are counted.
func acmeHost(t *testing.T, verdict string, errs ...error) (h *host, sanitized func() int) {
	h = newHost(t)
	count := 0
	runner := commandtest.NewRunner(t, map[string]commandtest.Tool{
		"acmetool": func(_ context.Context, c command.Command) (command.Result, error) {
			if c.Argv[1] == "sanitize" {
				assert.Equal(t, command.Write, c.Kind)
				assert.Equal(t, disk.UniqueID, c.Lock)
				if count++; count <= len(errs) {
					return command.Result{}, errs[count-1]
				}
				return command.Result{ExitCode: 8}, nil
			}
			assert.Equal(t, command.Query, c.Kind)
			return command.Result{Stdout: []byte("firmware 1.0\nverdict " + verdict + "\n")}, nil
		},
	})
	h.drv = acmeDriver(t, runner, acme)
	h.tasks.Drivers = driver.Set{h.drv}
	h.ids = append(h.ids, disk)
	return h, func() int { return count }
}

// R003-5, R003-6: the steps of a profile run through the real engine: the one that only reads runs before the node is taken out
// of service, and the one that changes the drive gets the maintenance, its lock and the reboot it asks for.
func TestEngineRunsProfileSteps(t *testing.T) {
	h, sanitized := acmeHost(t, "passed")
	done := h.execute(nil, journal.RequestedStep{Name: "self-test", Device: "disk0"}, journal.RequestedStep{Name: "sanitize"})
	require.Equal(t, step.Complete, done.Record.Outcome, "%+v", done.Record.Failure)
	var order []string
	for _, s := range done.Record.Steps {
		assert.Equal(t, step.Succeeded, s.State, "%s %s", s.Kind, s.Message)
		order = append(order, string(s.Kind)+" "+s.Device)
	}
	assert.Equal(t, []string{"preflight ", "self-test disk0", "maintenance ", "sanitize disk0", "reboot ", "health ", "release "}, order)
	assert.Equal(t, `the tool reports "passed"`, done.Record.Steps[1].Message)
	assert.Equal(t, 1, sanitized())
	assert.Equal(t, 1, h.boots)
}

// A command that changes the drive and that nobody followed to its end runs again, when no write to the drive goes on; one whose
// result was lost fails the step, and the node is held for a person.
func TestACommandOfAProfileThatWasNotFollowedRunsAgain(t *testing.T) {
	h, sanitized := acmeHost(t, "passed", &command.Error{Err: command.ErrStillRunning}, &command.Error{Err: command.ErrBusy})
	done := h.execute(nil, journal.RequestedStep{Name: "sanitize"})
	require.Equal(t, step.Complete, done.Record.Outcome, "%+v", done.Record.Failure)
	assert.Equal(t, 3, sanitized())

	h, sanitized = acmeHost(t, "passed", &command.Error{Err: command.ErrLost})
	done = h.execute(nil, journal.RequestedStep{Name: "sanitize"})
	require.Equal(t, step.Failed, done.Record.Outcome)
	assert.Contains(t, done.Record.Failure.Message, "run step sanitize on disk0")
	assert.True(t, done.Record.Failure.Held)
	assert.Equal(t, 1, sanitized())
	assert.Zero(t, h.boots)
}

// A drive that fails its test is not touched, and its node stays in service.
func TestFailedStepChangesNothing(t *testing.T) {
	h, sanitized := acmeHost(t, "failed")
	done := h.execute(nil, journal.RequestedStep{Name: "self-test"}, journal.RequestedStep{Name: "sanitize"})
	require.Equal(t, step.Failed, done.Record.Outcome)
	assert.Equal(t, step.StepFailed, done.Record.Failure.Reason)
	assert.Equal(t, plan.Kind("self-test"), done.Record.Failure.Step)
	assert.Contains(t, done.Record.Failure.Message, `the tool reports "failed", not passed`)
	assert.False(t, done.Record.Failure.Held)
	assert.Zero(t, sanitized())
	assert.Zero(t, h.boots)
}

// R003-12, R003-19, R003-35: steps of profiles are listed with those of this product, and are refused by the same rules.
func TestCatalogOfProfiles(t *testing.T) {
	one := acmeDriver(t, nil, acme)
	c, err := steps.NewCatalog(driver.Set{one}, map[string]int32{"acme.sanitize": 850})
	require.NoError(t, err)
	assert.Subset(t, steps.Enabled(c), []v1alpha1.EnabledStep{
		{Name: "self-test", Interface: "acme", Priority: 970},
		{Name: "sanitize", Interface: "acme", Priority: 850},
	})
	for want, change := range map[string][2]string{
		"step verify-firmware of acme has the name of a step of this product":   {"name: self-test", "name: verify-firmware"},
		"step flash of acme has the name of a step of this product":             {"name: sanitize", "name: flash"},
		"acme.sanitize and acme.self-test both have the priority 970":           {"  changes: true", "  changes: true\n  priority: 970"},
		"acme.sanitize (950) must run after node.maintenance":                   {"  changes: true", "  changes: true\n  priority: 950"},
		"driver nic has the name of another interface and cannot provide steps": {"name: acme", "name: nic"},
	} {
		_, err = steps.NewCatalog(driver.Set{acmeDriver(t, nil, strings.Replace(acme, change[0], change[1], 1))}, nil)
		require.ErrorContains(t, err, want)
	}
	_, err = steps.NewCatalog(driver.Set{one, acmeDriver(t, nil, strings.Replace(acme, "name: acme", "name: other", 1))}, nil)
	require.ErrorContains(t, err, "step self-test is declared by acme and by other")
}
