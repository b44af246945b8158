package job_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// The state directory is in memory, and each boot empties it, at any moment of a job. Nothing is written to a device, the node stays in
// service, and the job ends; with a directory that stays, the next one is carried out.
func TestVolatileStateDoesNothing(t *testing.T) {
	d := newDaemon(t)
	require.NoError(t, d.journal.Close())
	v := &inMemory{campaign: &campaign{daemon: d, calm: true, admitted: true}}
	for seed := range uint64(40) {
		v.random = rand.New(rand.NewPCG(seed, 0x766f6c))
		require.Empty(t, v.run(fmt.Sprintf("v%d", seed)), "seed %d: %v", seed, v.trace)
	}
}

// The campaign sees a daemon that takes memory for a disk.
func TestVolatileCampaignSees(t *testing.T) {
	d := newDaemon(t)
	require.NoError(t, d.journal.Close())
	v := &inMemory{campaign: &campaign{daemon: d, calm: true, admitted: true}, blind: true}
	for seed := range uint64(40) {
		v.random = rand.New(rand.NewPCG(seed, 0x766f6c))
		if v.run(fmt.Sprintf("s%d", seed)) != "" {
			return
		}
	}
	t.Fatal("nobody noticed")
}

// inMemory is a campaign about a daemon whose state directory is.
type inMemory struct {
	*campaign
	// blind makes the daemon take it for a directory on a disk.
	blind bool
}

// run returns what was wrong.
func (v *inMemory) run(name string) (wrong string) {
	v.trace = nil
	v.Machine = enginetest.New(v.T)
	v.instant()
	v.refreshes, v.refresh = 0, nil
	if !v.blind {
		v.Volatile = "the state directory is in memory"
	}
	v.open()
	defer func() { require.NoError(v.T, v.journal.Close()) }()
	disk := v.Add(inventory.Disk, "disk0", []inventory.Activation{inventory.ActivateNone, inventory.ActivateReboot}[v.random.IntN(2)])
	v.create(name, disk)
	v.admit(name)
	for range 2 + v.random.IntN(8) {
		switch v.random.IntN(4) {
		case 0:
			v.boots()
		case 1:
			v.note("reconcile: %v", v.reconcile(name))
		default:
			v.works(1 + v.random.IntN(12))
		}
	}
	for range 4 {
		require.NoError(v.T, v.reconcile(name))
		v.works(0)
	}
	require.NoError(v.T, v.reconcile(name))
	got := v.get(name)
	switch {
	case v.Sim.Count(drivertest.OpWrite, "disk0") > 0:
		return "a device was written, and the next boot would have taken away what knows of it"
	case v.Window.Scheduled > 0 || v.outOfService() || got.Held():
		return fmt.Sprintf("the node was taken out of service (%v)", v.Window.Phase)
	case got.FailureReason() != v1alpha1.ReasonJobRejected:
		return fmt.Sprintf("the job has not ended as one that cannot be carried out: %+v", got.Status.Conditions)
	}
	if v.Volatile != "" {
		v.Volatile = ""
		v.loses()
		v.create(name+"-disk", disk)
		v.admit(name + "-disk")
		assert.True(v.T, meta.IsStatusConditionTrue(v.runs(name+"-disk").Status.Conditions, v1alpha1.ConditionComplete))
	}
	return ""
}

// works lets the engine work until it has read so often, or as far as it gets for 0, and boots where it asks for that.
func (v *inMemory) works(reads int) {
	v.T.Helper()
	v.EndAt = 0
	if reads > 0 {
		v.EndAt = v.Reads + reads
	}
	view, err := v.journal.View()
	require.NoError(v.T, err)
	active := view.Active()
	if active == nil || active.Record.Outcome != "" {
		return
	}
	ctx, cancel := context.WithCancel(v.T.Context())
	v.Stop = cancel
	_, _ = v.Engine.Execute(ctx, *active)
	cancel()
	v.note("the engine works; maintenance %v", v.Window.Phase)
	if v.RebootWanted {
		v.boots()
	}
}

// boots starts the machine, with an empty directory.
func (v *inMemory) boots() {
	v.T.Helper()
	v.RebootWanted = false
	v.Boot++
	v.Sim.Reboot()
	v.loses()
	v.note("it boots")
}
