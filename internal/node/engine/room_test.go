package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// large makes every image one that is copied on disk, and the disk have what left returns.
func large(m *enginetest.Machine, left func() (int64, error)) {
	m.MaxInMemory = 1
	m.Free = func(string) (int64, error) { return left() }
}

// keptFree is what stays free for the node, beside the copy.
const keptFree = 64 << 20

// A tool reads a copy of a large image, which needs room beside the image. That there is none is found before the node is taken out of
// service.
func TestANodeWithoutRoomForTheCopyOfAnImageIsNotDisturbed(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		j := m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))
		var size int64
		for _, img := range m.Image {
			size = img.Size
		}
		large(m, func() (int64, error) { return keptFree + size - 1, nil })
		view := m.Run(j)
		failure := requireFailed(t, view, "j", step.StorageFailed, false).Record.Failure
		for _, says := range []string{"64 MiB are left", "65 MiB are needed", "a copy of the image", "nothing was written", "make room there"} {
			assert.Contains(t, failure.Message, says)
		}
		assert.Zero(t, m.Window.Scheduled, "the node is not taken out of service")
		assert.Zero(t, m.Sim.Count(drivertest.OpWrite, "nic0"))
		assert.Nil(t, view.Devices["nic0"].LastFailure, "it is planned again by itself")

		large(m, func() (int64, error) { return keptFree + size, nil })
		requireComplete(t, m, m.Run(m.Job("again", m.IDs...)), "again")
	})
}

func TestAJobGoesOnOnceThereIsRoomForTheCopyOfItsImage(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		mended := time.Now().Add(10 * time.Minute)
		large(m, func() (int64, error) {
			if time.Now().Before(mended) {
				return 0, nil
			}
			return 1 << 30, nil
		})
		requireComplete(t, m, m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))), "j")
		assert.False(t, time.Now().Before(mended))
	})
}

// What is archived before the maintenance takes room too.
func TestRoomThatTheArchiveTakesIsMissedBeforeTheMaintenance(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		archived := 0
		large(m, func() (int64, error) {
			if archived > 0 {
				return keptFree, nil
			}
			return 1 << 30, nil
		})
		m.OnArchive = func() { archived++ }
		view := m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot)))
		requireFailed(t, view, "j", step.StorageFailed, false)
		assert.Zero(t, m.Window.Scheduled)
		assert.Equal(t, 1, archived, "what is archived is not read again")
	})
}

// A device whose image cannot be written for want of room is not read first, which would take even more of it.
func TestNothingIsArchivedWhileThereIsNoRoomForTheCopyOfAnImage(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		large(m, func() (int64, error) { return keptFree, nil })
		m.OnArchive = func() { t.Error("the device was read") }
		requireFailed(t, m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))), "j", step.StorageFailed, false)
	})
}

func TestOnlyDiskCopyNeedsRoom(t *testing.T) {
	for name, left := range map[string]func() (int64, error){
		"in memory":  func() (int64, error) { return 0, nil },
		"not known":  func() (int64, error) { return 0, errors.New("statfs: function not implemented") },
		"just right": func() (int64, error) { return keptFree + 1<<20, nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				large(m, left)
				if name == "in memory" {
					m.MaxInMemory = 0
				}
				requireComplete(t, m, m.Run(m.Job("j", m.Add(inventory.NIC, "nic0", inventory.ActivateReboot))), "j")
			})
		})
	}
}
