package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The image that a source provides is not at fault for what became of the node's copy, so the same update may be planned again.
func TestAnImageThatChangedOnTheNodeIsNotAtFault(t *testing.T) {
	for reason, err := range map[step.Reason]error{
		step.ImageUnavailable: fmt.Errorf("%w: the content is another one", command.ErrImage),
		step.StorageFailed:    fmt.Errorf("%w: %w", command.ErrImage, syscall.ENOSPC),
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

// damagingServer has what the machine has, fetches anew what is damaged, as the store of images does, and damages the node's copy right after
// the fetch that is counted down.
type damagingServer struct {
	m    *enginetest.Machine
	left int
	kept map[inventory.Digest][]byte
}

func (s *damagingServer) Fetch(_ context.Context, d inventory.Digest) (string, int64, error) {
	img := s.m.Image[d]
	if s.kept == nil {
		content, err := os.ReadFile(img.Path)
		require.NoError(s.m.T, err)
		s.kept = map[inventory.Digest][]byte{d: content}
	}
	require.NoError(s.m.T, os.WriteFile(img.Path, s.kept[d], 0o600))
	if s.left--; s.left == 0 {
		damage(s.m.T, img)
	}
	return img.Path, img.Size, nil
}

func damage(t testing.TB, img driver.Image) {
	require.NoError(t, os.WriteFile(img.Path, make([]byte, img.Size), 0o600))
}

// A copy that is damaged is fetched anew. It is no failure of the source's image, which nothing blames and so nothing quarantines, whatever the
// device, its driver or its tool says about what it read. After the write began the node is held, as after each failure of such a step.
func TestADamagedCopyBlamesNoImage(t *testing.T) {
	for name, set := range map[string]func(*enginetest.Machine){
		"before the write": func(m *enginetest.Machine) { m.Store = &damagingServer{m: m, left: 2} },
		"while a driver writes that reads it by its name": func(m *enginetest.Machine) {
			m.AtWrite = func(img driver.Image) { damage(m.T, img) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				nic := m.Add(inventory.NIC, "nic0", inventory.ActivateReboot)
				set(m)
				view := m.Run(m.Job("j", nic))
				j := requireFailed(t, view, "j", step.ImageUnavailable, true)
				assert.True(t, j.Record.Failure.Reason.Passing(), "the failure says nothing about the image")
				assert.Empty(t, j.Record.Failure.Blames, "only an image that is blamed is quarantined")
				assert.Nil(t, view.Devices["nic0"].Unhealthy)
				assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))

				m.AtWrite = nil
				requireComplete(t, m, m.Run(retried(m.Job("again", nic))), "again")
			})
		})
	}
}

func TestACopyThatIsDamagedBeforeItsCheckIsFetchedAnewByTheSameJob(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Store = &damagingServer{m: m, left: 1}
		requireComplete(t, m, m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))), "j")
	})
}

// An image that the device refuses, and that is the one that was verified, is at fault.
func TestAnImageThatTheDeviceRefusesIsRejected(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.NoWrite = driver.Rejectf("it is for another board")
		requireFailed(t, m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))), "j", step.ImageRejected, true)
	})
}

// A server of images that is busy may let a node wait for a long time, which a cancellation ends. It proves R000-62.
func TestCancelEndsWaitingFetch(t *testing.T) {
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
