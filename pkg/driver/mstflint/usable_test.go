package mstflint

import (
	"context"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// without is a machine on which one tool is not used, and the others are played.
type without struct {
	command.Runner
	tool string
}

func (w without) Run(ctx context.Context, c command.Command) (command.Result, error) {
	if c.Argv[0] == w.tool {
		return command.Result{}, &command.Error{Argv: c.Argv, ExitCode: -1, Err: fmt.Errorf("%w: it is older than 4.21.0", command.ErrRefused)}
	}
	return w.Runner.Run(ctx, c)
}

// A card is not left to fail in the middle of its job: how it is activated is known before.
func TestACardWhoseResetToolIsNotUsedIsActivatedByAReboot(t *testing.T) {
	_, fw, err := New(without{newFlint(t).runner(t), resetTool}, machine).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, fw.Activation)
	assert.Equal(t, "mstfwreset does not work here: tool not used: it is older than 4.21.0", fw.ActivationMessage)
}

// An error is no reason: it may be gone at the next look, and a card must not change its driver between the steps of a job.
func TestAnUnreadableLockdownDoesNotChangeTheDriver(t *testing.T) {
	kernel := fstest.MapFS{"sys/kernel/security/lockdown": {Data: []byte("none integrity")}}
	d := New(commandtest.NewRunner(t, nil), kernel)
	assert.NoError(t, d.Reaches(id))
	kernel["sys/kernel/security/lockdown"].Data = []byte("none [integrity] confidentiality")
	require.ErrorContains(t, d.Reaches(id), "locked down (integrity)")
}

// From 4.33 on the tool would give the cards without a kernel driver to vfio-pci.
func TestLockedDownRunsNoTool(t *testing.T) {
	kernel := fstest.MapFS{"sys/kernel/security/lockdown": {Data: []byte("none [integrity] confidentiality")}}
	d := New(commandtest.NewRunner(t, nil), kernel)
	_, _, err := d.Inspect(t.Context(), id)
	require.ErrorContains(t, err, "locked down (integrity)")
	require.ErrorContains(t, d.Check(t.Context(), id, image(t, "22.41.1000")), "locked down (integrity)")
}
