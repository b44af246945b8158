package job_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// A job fails and holds its node, until a person releases it or a newer job takes it over. Whatever fails between the daemon and
// the API server meanwhile, the node stays out of service until then, returns once, and both jobs end as they should (R003-34).
func TestWhateverFailsAHeldNodeReturnsWhenAPersonActsAndNotBefore(t *testing.T) {
	const seeds = 12
	d := newDaemon(t)
	require.NoError(t, d.journal.Close())
	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	require.NoError(t, d.env.Client.Create(t.Context(), node))
	for seed := range uint64(seeds) {
		h := held{campaign: &campaign{daemon: d, random: rand.New(rand.NewPCG(seed, 0x68656c64))}, node: node}
		h.run(fmt.Sprintf("h%d", seed), seed%2 == 0)
		if t.Failed() {
			t.Fatalf("seed %d: %v", seed, h.trace)
		}
	}
}

// held is a campaign about a job whose write fails.
type held struct {
	*campaign
	node *v1alpha1.NodeFirmware
	// newer is the job that takes the node over, nil while there is none; asked says that a person has acted.
	newer *v1alpha1.FirmwareJob
	asked bool
}

func (h *held) run(name string, release bool) {
	h.Machine = enginetest.New(h.T)
	h.instant()
	h.refreshes, h.refresh = 0, nil
	h.open()
	defer func() { require.NoError(h.T, h.journal.Close()) }()
	disk := h.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	h.Sim.Inject("disk0", drivertest.FailWrite)
	h.job = h.create(name, disk)
	h.admit(name)
	h.admitted = true
	h.some()
	h.rest()
	require.True(h.T, h.get(name).Held(), "%+v", h.get(name).Status)

	h.calm = false
	h.Sim.Clear("disk0")
	if h.asked = true; release {
		h.node.Spec.Requests.Release = "release " + name
	} else {
		h.node.Spec.Requests.Retry = "retry " + name
	}
	require.NoError(h.T, h.env.Client.Update(h.T.Context(), h.node))
	if !release {
		h.newer = h.create(name+"-newer", disk)
		h.admit(h.newer.Name)
	}
	h.some()
	h.rest()
	first := h.get(name)
	assert.True(h.T, meta.IsStatusConditionTrue(first.Status.Conditions, v1alpha1.ConditionFailed))
	assert.Nil(h.T, condition(first, v1alpha1.ConditionHeld))
	assert.Equal(h.T, step.MaintenanceNone, h.Window.Phase)
	assert.Equal(h.T, 1, h.Window.Released)
	if release {
		assert.Equal(h.T, v1alpha1.ReasonReleased, condition(first, v1alpha1.ConditionStalled).Reason)
		return
	}
	assert.True(h.T, meta.IsStatusConditionTrue(h.get(h.newer.Name).Status.Conditions, v1alpha1.ConditionComplete), "%+v", h.get(h.newer.Name).Status)
	assert.Equal(h.T, inventory.Version("2.0"), h.Sim.Firmware("disk0").Running)
}

// some lets several things happen.
func (h *held) some() {
	for range 5 + h.random.IntN(20) {
		switch what := h.random.IntN(8); what {
		case 0, 1, 2:
			h.note("reconcile: %v", h.reconcile(h.job.Name))
		case 3:
			if h.newer != nil {
				h.note("reconcile the newer job: %v", h.reconcile(h.newer.Name))
			}
		case 4, 5:
			h.EndAt = h.Reads + 1 + h.random.IntN(30)
			h.work()
			h.note("the engine works")
		case 6:
			require.NoError(h.T, h.journal.Close())
			h.open()
			h.note("the daemon is killed")
		case 7:
			h.restore()
		}
		if h.refresh = nil; h.random.IntN(4) == 0 {
			h.refresh = errors.New("no route to host")
		}
		h.check()
	}
}

// rest lets nothing fail any more, until there is nothing to do.
func (h *held) rest() {
	h.calm, h.refresh, h.EndAt = true, nil, 0
	for range 4 {
		require.NoError(h.T, h.reconcile(h.job.Name))
		if h.newer != nil {
			require.NoError(h.T, h.reconcile(h.newer.Name))
		}
		h.work()
		h.check()
	}
	require.NoError(h.T, h.reconcile(h.job.Name))
	if h.newer != nil {
		require.NoError(h.T, h.reconcile(h.newer.Name))
	}
}

// check holds at any moment.
func (h *held) check() {
	writes, most := h.Sim.Count(drivertest.OpWrite, "disk0"), 1
	if h.newer != nil {
		most = 2
	}
	assert.LessOrEqual(h.T, writes, most)
	assert.LessOrEqual(h.T, h.Window.Released, 1)
	if !h.asked {
		assert.Zero(h.T, h.Window.Released, "nobody asked for it")
	}
}
