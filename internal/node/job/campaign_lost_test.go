package job_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The state directory is lost at any moment of a job that succeeds or fails. Afterwards a node that is out of service has a job that
// holds it, the job is never done again, and a person's release returns the node.
func TestWheneverStateIsLostTheNodeIsSomebodys(t *testing.T) {
	const seeds = 40
	d := newDaemon(t)
	require.NoError(t, d.journal.Close())
	l := newLost(d)
	heldSome, freeSome := false, false
	for seed := range uint64(seeds) {
		l.random = rand.New(rand.NewPCG(seed, 0x6c6f7374))
		wrong, held := l.run(fmt.Sprintf("l%d", seed))
		require.Empty(t, wrong, "seed %d: %v", seed, l.trace)
		heldSome, freeSome = heldSome || held, freeSome || !held
	}
	assert.True(t, heldSome && freeSome, "every way it can end occurs")
}

// The campaign sees a daemon that takes every node for one in service.
func TestLostCampaignSees(t *testing.T) {
	d := newDaemon(t)
	require.NoError(t, d.journal.Close())
	l := newLost(d)
	l.blind = true
	for seed := range uint64(40) {
		l.random = rand.New(rand.NewPCG(seed, 0x6c6f7374))
		if wrong, _ := l.run(fmt.Sprintf("b%d", seed)); wrong != "" {
			return
		}
	}
	t.Fatal("nobody noticed")
}

// lost is a campaign about a daemon that loses its state directory.
type lost struct {
	*campaign
	node *v1alpha1.NodeFirmware
	// blind makes the daemon see no maintenance once its state is lost.
	blind bool
}

func newLost(d *daemon) *lost {
	l := &lost{campaign: &campaign{daemon: d, calm: true, admitted: true}, node: &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}}
	require.NoError(d.T, d.env.Client.Create(d.T.Context(), l.node))
	return l
}

// run returns what was wrong after the loss, and whether the node was held then.
func (l *lost) run(name string) (wrong string, held bool) {
	l.trace = nil
	l.Machine = enginetest.New(l.T)
	l.instant()
	l.refreshes, l.refresh = 0, nil
	l.open()
	defer func() { require.NoError(l.T, l.journal.Close()) }()
	disk := l.Add(inventory.Disk, "disk0", []inventory.Activation{inventory.ActivateNone, inventory.ActivateReboot}[l.random.IntN(2)])
	if l.random.IntN(3) == 0 {
		l.Sim.Inject("disk0", drivertest.FailWrite)
	}
	l.job = l.create(name, disk)
	l.admit(name)
	for range 1 + l.random.IntN(8) {
		switch l.random.IntN(3) {
		case 0:
			l.note("reconcile: %v", l.reconcile(name))
		default:
			l.workFor(1 + l.random.IntN(12))
			l.note("the engine works; maintenance %v", l.Window.Phase)
		}
	}
	writes := l.Sim.Count(drivertest.OpWrite, "disk0")
	begun := l.get(name).Status.StartTime != nil
	l.EndAt = 0
	l.loses()
	if l.blind {
		l.r.Maintenance = blind{l.Window}
	}
	l.note("the state is lost")
	l.rest()
	held = l.get(name).Held()
	switch {
	case begun && l.Sim.Count(drivertest.OpWrite, "disk0") > writes:
		return "the job was done again", held
	case l.outOfService() && !held:
		return fmt.Sprintf("the node is out of service (%v), and no job holds it", l.Window.Phase), held
	case !held:
		return "", false
	}
	l.node.Spec.Requests.Release = "release " + name
	require.NoError(l.T, l.env.Client.Update(l.T.Context(), l.node))
	l.rest()
	if l.outOfService() || l.get(name).Held() {
		return "a release does not return the node", held
	}
	return "", held
}

// workFor lets the engine work until it has read so often, or the job has ended, and reports whether it has.
func (d *daemon) workFor(reads int) (ended bool) {
	d.T.Helper()
	for d.EndAt = d.Reads + reads; d.Reads < d.EndAt; {
		view, err := d.journal.View()
		require.NoError(d.T, err)
		active := view.Active()
		if active == nil || active.Record.Outcome != "" {
			return true
		}
		ctx, cancel := context.WithCancel(d.T.Context())
		d.Stop = cancel
		_, _ = d.Engine.Execute(ctx, *active)
		cancel()
		if d.RebootWanted {
			d.RebootWanted = false
			d.Boot++
			d.Sim.Reboot()
		}
	}
	return false
}

func (d *daemon) outOfService() bool {
	return d.Window.Phase != step.MaintenanceUnknown && d.Window.Phase != step.MaintenanceNone
}

// rest lets the daemon go on until there is nothing to do.
func (l *lost) rest() {
	for range 4 {
		require.NoError(l.T, l.reconcile(l.job.Name))
		l.work()
	}
	require.NoError(l.T, l.reconcile(l.job.Name))
}

// blind is a window that shows no maintenance.
type blind struct{ *enginetest.Window }

func (blind) State(context.Context) (maintenance.State, error) {
	return maintenance.State{Phase: step.MaintenanceNone}, nil
}

// The disk of a machine in the middle of a job is copied at any moment, and a daemon starts on the copy. It writes nothing, reboots
// nothing and takes nothing out of service.
func TestClonesDoNothing(t *testing.T) {
	d := newDaemon(t)
	require.NoError(t, d.journal.Close())
	other := state.Machine{UUID: "of the copy"}
	noticed := false
	for at, over := 1, false; !over; at++ {
		name := fmt.Sprintf("c%d", at)
		over = d.workUntil(name, at)
		assert.False(t, d.cloned(name, other), "cut at %d", at)
		if !noticed && !over {
			d.workUntil(name+"-blind", at)
			noticed = d.cloned(name+"-blind", state.Machine{})
		}
	}
	assert.True(t, noticed, "a daemon that does not know whose state it has goes on with it")
}

// workUntil begins a job on a new machine and ends the daemon at a read; over says that the job had ended before.
func (d *daemon) workUntil(name string, at int) (over bool) {
	d.T.Helper()
	d.Machine = enginetest.New(d.T)
	(&campaign{daemon: d}).instant()
	d.restart(d.Dir)
	d.create(name, d.Add(inventory.NIC, "nic0", inventory.ActivateReboot))
	d.admit(name)
	require.NoError(d.T, d.reconcile(name))
	over = d.workFor(at)
	require.NoError(d.T, d.journal.Close())
	known, err := state.Open(d.Dir, state.Options{Machine: state.Machine{UUID: "of the first"}})
	require.NoError(d.T, err)
	require.NoError(d.T, known.Close())
	return over
}

// cloned starts a daemon of another node on the state, and reports whether it did anything.
func (d *daemon) cloned(name string, on state.Machine) (did bool) {
	d.T.Helper()
	operations, scheduled, released, boot := len(d.Sim.Operations()), d.Window.Scheduled, d.Window.Released, d.Boot
	d.Window.Failed, d.EndAt = "", 0
	opened, err := state.Open(d.Dir, state.Options{Machine: on})
	require.NoError(d.T, err)
	require.NoError(d.T, opened.Close())
	d.restart(d.Dir)
	d.r.NodeName = "n2"
	for range 2 {
		require.NoError(d.T, d.reconcile(name))
		d.work()
	}
	require.NoError(d.T, d.journal.Close())
	return len(d.Sim.Operations()) > operations || d.Window.Scheduled > scheduled || d.Window.Released > released || d.Boot > boot || d.Window.Failed != ""
}
