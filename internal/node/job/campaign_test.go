package job_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Between a job and the API server anything may fail: a read, a report or its answer, the publication of results, and the
// daemon itself, at any moment; and the API server may be restored from a backup. Whatever happens, a job that is admitted
// runs once, ends once, and its end is reported, after its results (R003-48, R003-49). It gives a device firmware, settings, or both.
func TestWhateverFailsBetweenJobAndAPIServerAJobRunsOnceAndIsReported(t *testing.T) {
	const seeds = 40
	d := newDaemon(t)
	require.NoError(t, d.journal.Close())
	for seed := range uint64(seeds) {
		c := campaign{daemon: d, random: rand.New(rand.NewPCG(seed, 0x6a6f62))}
		c.run(fmt.Sprintf("j%d", seed))
		if t.Failed() {
			t.Fatalf("seed %d: %v", seed, c.trace)
		}
	}
}

// campaign is a daemon with one job that everything happens to.
type campaign struct {
	*daemon
	random *rand.Rand
	job    *v1alpha1.FirmwareJob
	// calm says that nothing fails any more. admitted and restored say what happened to the job.
	calm, admitted, restored bool
	trace                    []string
}

func (c *campaign) run(name string) {
	c.Machine = enginetest.New(c.T)
	c.instant()
	c.refreshes, c.refresh = 0, nil
	c.open()
	defer func() { require.NoError(c.T, c.journal.Close()) }()
	kind := []inventory.Activation{inventory.ActivateNone, inventory.ActivateDeviceReset, inventory.ActivateReboot}[c.random.IntN(3)]
	nic, writes := c.Add(inventory.NIC, "nic0", kind), 1
	gives := c.random.IntN(3) // firmware, both, or settings alone
	if gives > 0 {
		c.Sim.Give("nic0", inventory.Parameter{Name: "VFS", Current: inventory.Read("0"), Default: inventory.Read("0"), Needs: inventory.ActivateReboot})
	}
	switch gives {
	case 0:
		c.job = c.create(name, nic)
	case 1:
		template := c.declare(name, nic, "8")
		defer func() { require.NoError(c.T, c.env.Client.Delete(c.T.Context(), template)) }()
		c.job = c.createWith(name, template.Spec.Rules[0].Digest(), nic)
	case 2:
		template := c.configure(name, nic, "8")
		defer func() { require.NoError(c.T, c.env.Client.Delete(c.T.Context(), template)) }()
		c.job, c.admitted, writes = c.get(name), true, 0
	}
	c.note("%d with activation %v", gives, kind)
	for range 5 + c.random.IntN(25) {
		c.happen()
		c.judge()
	}
	c.settle()
	c.judge()
	require.True(c.T, meta.IsStatusConditionTrue(c.get(name).Status.Conditions, v1alpha1.ConditionComplete), "%+v", c.get(name).Status)
	assert.Equal(c.T, writes, c.Sim.Count(drivertest.OpWrite, "nic0"))
	if gives > 0 {
		assert.Equal(c.T, "8", c.Sim.Parameter("nic0", "VFS").Current.String())
		assert.Equal(c.T, 1, c.Sim.Count(drivertest.OpConfigure, "nic0"))
	}
	assert.Equal(c.T, step.MaintenanceNone, c.Window.Phase)
	c.leftAlone()
}

// instant lets nothing take time.
func (c *campaign) instant() { c.Wait = func(context.Context, time.Duration, <-chan struct{}) {} }

// open starts a daemon whose API client fails as the campaign wants.
func (c *campaign) open() {
	c.restart(c.Dir)
	c.r.Client = flaky{c.env.Client, c}
}

// happen lets one thing happen.
func (c *campaign) happen() {
	switch what := c.random.IntN(8); what {
	case 0:
		c.note("admit")
		c.admit(c.job.Name)
		c.admitted = true
	case 1, 2, 3:
		c.note("reconcile: %v", c.reconcile(c.job.Name))
	case 4, 5:
		c.EndAt = c.Reads + 1 + c.random.IntN(30)
		c.work()
		c.note("the engine works")
	case 6:
		require.NoError(c.T, c.journal.Close())
		c.open()
		c.note("the daemon is killed")
	case 7:
		c.restore()
	}
	c.refresh = nil
	if c.random.IntN(4) == 0 {
		c.refresh = errors.New("no route to host")
	}
}

// restore gives the API server back as it was when the job had just been admitted.
func (c *campaign) restore() {
	if !c.admitted || c.restored {
		return
	}
	c.restored = true
	o := c.get(c.job.Name)
	o.Status = v1alpha1.FirmwareJobStatus{Conditions: []metav1.Condition{*condition(o, v1alpha1.ConditionAdmitted)}}
	require.NoError(c.T, c.env.Client.Status().Update(c.T.Context(), o, client.FieldOwner(v1alpha1.FieldOwnerOperator)))
	c.note("the API server is restored")
}

// settle lets nothing fail any more, until the job has ended.
func (c *campaign) settle() {
	c.calm, c.refresh, c.EndAt = true, nil, 0
	c.admit(c.job.Name)
	c.admitted = true
	for range 4 {
		require.NoError(c.T, c.reconcile(c.job.Name))
		c.work()
	}
	require.NoError(c.T, c.reconcile(c.job.Name))
}

// judge holds at any moment.
func (c *campaign) judge() {
	view, err := c.journal.View()
	require.NoError(c.T, err)
	known := view.Job(string(c.job.UID))
	assert.True(c.T, known == nil || c.admitted, "begun without an admission")
	assert.LessOrEqual(c.T, c.Sim.Count(drivertest.OpWrite, "nic0"), 1)
	assert.LessOrEqual(c.T, c.Boot, 2, "one reboot at most")
	if o := c.get(c.job.Name); o.Ended() {
		assert.True(c.T, known != nil && known.Record.Outcome != "", "reported as ended before it has ended")
		assert.Positive(c.T, c.refreshes, "reported as ended before its results")
	}
}

// leftAlone: a daemon that is started anew changes neither the host nor the API.
func (c *campaign) leftAlone() {
	before, operations := c.get(c.job.Name).ResourceVersion, len(c.Sim.Operations())
	require.NoError(c.T, c.journal.Close())
	c.open()
	for range 2 {
		require.NoError(c.T, c.reconcile(c.job.Name))
		c.work()
	}
	assert.Equal(c.T, before, c.get(c.job.Name).ResourceVersion)
	assert.Len(c.T, c.Sim.Operations(), operations)
}

func (c *campaign) note(format string, args ...any) {
	c.trace = append(c.trace, fmt.Sprintf(format, args...))
}

// fails says whether the next request, or the answer to it, is lost.
func (c *campaign) fails() bool { return !c.calm && c.random.IntN(4) == 0 }

var errLost = errors.New("connection reset by peer")

// flaky is an API client whose requests, or the answers to them, are lost now and then.
type flaky struct {
	client.Client
	c *campaign
}

func (f flaky) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if f.c.fails() {
		return errLost
	}
	return f.Client.Get(ctx, key, o, opts...)
}

func (f flaky) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if f.c.fails() {
		return errLost
	}
	return f.Client.List(ctx, list, opts...)
}

func (f flaky) Status() client.SubResourceWriter { return flakyStatus{f.Client.Status(), f.c} }

type flakyStatus struct {
	client.SubResourceWriter
	c *campaign
}

func (f flakyStatus) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	if f.c.fails() {
		return errLost
	}
	err := f.SubResourceWriter.Apply(ctx, o, opts...)
	if f.c.fails() {
		return errors.Join(err, errLost)
	}
	return err
}
