package engine_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The image that a source provides is not at fault for what became of the node's copy, so the same update may be planned again.
func TestAnImageThatChangedOnTheNodeIsNotAtFault(t *testing.T) {
	for reason, err := range map[step.Reason]error{
		step.ImageUnavailable: fmt.Errorf("%w: the content is another one", command.ErrImage),
		step.NodeDiskFull:     fmt.Errorf("%w: %w", command.ErrImage, syscall.ENOSPC),
	} {
		t.Run(string(reason), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				m.NoWrite = err
				view := m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot)))
				j := view.Job("uid-j")
				assert.Equal(t, reason, j.Record.Failure.Reason)
				assert.Contains(t, j.Record.Failure.Message, command.ErrImage.Error())
				assert.True(t, j.Record.Failure.Reason.Passing())
				assert.Empty(t, j.Record.Failure.Blames)
				assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
				assert.Nil(t, view.Devices["nic0"].Unhealthy)
			})
		})
	}
}

// A server of images that is busy may let a node wait for a long time, which a cancellation ends. It proves R000-62.
func TestCancelInterruptsAFetchThatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Store = busyServer{func() { m.Engine.Cancel("uid-j", engine.Cancellation{Reason: "wrong night"}) }}
		began := time.Now()
		requireFailed(t, m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))), "j", step.Cancelled, false)
		assert.Less(t, time.Since(began), busy, "the fetch does not come to its own end")
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
	})
}

// busy is how long a busyServer lets a node wait.
const busy = time.Hour

// busyServer lets a fetch wait until it is given up.
type busyServer struct{ asked func() }

func (b busyServer) Fetch(ctx context.Context, _ inventory.Digest) (string, int64, error) {
	b.asked()
	select {
	case <-ctx.Done():
		return "", 0, ctx.Err()
	case <-time.After(busy):
		return "", 0, errors.New("the image server is busy")
	}
}
