package operator

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
)

// daemons play the daemons of all nodes, each of which has one device, its BIOS. They report when the wish for a device changes
// and execute admitted jobs, and write what the real ones write, by the same functions.
type daemons struct {
	*process
	client client.Client

	mu      sync.Mutex
	running map[string]string
	applied map[string]*v1alpha1.AppliedFirmware
	// jobs are the names of those that were executed, by node.
	jobs map[string][]string
	// hold is closed when jobs that have begun may end; nil while they end at once.
	hold chan struct{}
}

func (p *process) daemons() *daemons {
	p.t.Helper()
	access := rest.CopyConfig(p.env.Config)
	access.QPS = -1
	c, err := client.New(access, client.Options{Scheme: p.env.Scheme})
	require.NoError(p.t, err)
	d := &daemons{
		process: p, client: c, running: map[string]string{}, applied: map[string]*v1alpha1.AppliedFirmware{}, jobs: map[string][]string{},
	}
	informers, err := cache.New(access, cache.Options{Scheme: p.env.Scheme})
	require.NoError(p.t, err)
	ctx, cancel := context.WithCancel(p.t.Context())
	var ended sync.WaitGroup
	p.t.Cleanup(func() { cancel(); ended.Wait() })
	for o, handle := range map[client.Object]func(context.Context, any){&v1alpha1.NodeDevice{}: d.observe, &v1alpha1.FirmwareJob{}: d.execute} {
		informer, err := informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		require.NoError(p.t, err)
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { handle(ctx, o) },
			UpdateFunc: func(_, o any) { handle(ctx, o) },
		})
		require.NoError(p.t, err)
	}
	ended.Go(func() { assert.NoError(p.t, informers.Start(ctx)) })
	return d
}

// observe reports a device whose spec is new.
func (d *daemons) observe(ctx context.Context, o any) {
	device := o.(*v1alpha1.NodeDevice)
	if device.Status.ObservedGeneration >= device.Generation {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.report(ctx, device, "")
}

// report writes the status of a device. Working names the job that works on it.
func (d *daemons) report(ctx context.Context, device *v1alpha1.NodeDevice, working string) {
	node := device.Spec.NodeName
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUpToDate}
	if w := device.Spec.Firmware; working != "" || w != nil && w.Version != d.running[node] {
		ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonPending
	}
	ready.LastTransitionTime = metav1.Now()
	inspected := metav1.Condition{
		Type: v1alpha1.ConditionInspected, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, LastTransitionTime: metav1.Now(),
	}
	err := fieldset.ApplyObservation(ctx, d.client, device.Name, v1alpha1.NodeDeviceStatus{
		ObservedGeneration: device.Generation, Class: v1alpha1.ClassBIOS, UniqueID: "bios-" + node, Vendor: "Lenovo", Model: "7X21",
		Firmware: &v1alpha1.ObservedFirmware{
			Running: d.running[node], Stored: d.running[node], Driver: "fwupd", Activation: v1alpha1.ActivationReboot,
		},
		Applied: d.applied[node], Conditions: []metav1.Condition{inspected, ready},
	})
	d.expect(ctx, err)
}

// execute runs an admitted job to its end, and records what the job says.
func (d *daemons) execute(ctx context.Context, o any) {
	job := o.(*v1alpha1.FirmwareJob).DeepCopy()
	if !job.Admitted() || job.Ended() || job.DeletionTimestamp != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	node, u := job.Spec.NodeName, job.Spec.Task.Devices[0]
	if job.Status.StartTime == nil {
		job.Status.StartTime = &metav1.Time{Time: time.Now().Truncate(time.Second)}
		job.Status.Conditions = said(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing)
		d.write(ctx, job)
		return
	}
	if d.hold != nil {
		hold := d.hold
		d.mu.Unlock()
		select {
		case <-hold:
		case <-ctx.Done():
		}
		d.mu.Lock()
	}
	if !slices.Contains(d.jobs[node], job.Name) {
		d.jobs[node] = append(d.jobs[node], job.Name)
	}
	d.running[node] = u.Version
	device := &v1alpha1.NodeDevice{}
	if err := d.client.Get(ctx, client.ObjectKey{Name: u.Name}, device); err != nil {
		d.expect(ctx, err)
		return
	}
	d.applied[node] = &v1alpha1.AppliedFirmware{
		Digest: u.Digest, Origin: device.Spec.Origin, BootID: job.Name, Time: *job.Status.StartTime,
	}
	d.report(ctx, device, "")
	job.Status.Conditions = slices.Concat(said(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded),
		said(v1alpha1.ConditionComplete, metav1.ConditionTrue, v1alpha1.ReasonSucceeded))
	d.write(ctx, job)
}

func said(kind string, is metav1.ConditionStatus, reason string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: is, Reason: reason, LastTransitionTime: metav1.Now()}}
}

// write reports a job. Where the cache is behind, the event of what it does not show follows.
func (d *daemons) write(ctx context.Context, job *v1alpha1.FirmwareJob) {
	if _, err := fieldset.ApplyExecution(ctx, d.client, job, job.Status); !apierrors.IsConflict(err) {
		d.expect(ctx, err)
	}
}

func (d *daemons) expect(ctx context.Context, err error) {
	if ctx.Err() == nil {
		assert.NoError(d.t, client.IgnoreNotFound(err))
	}
}

// executed are the jobs of a node that ended.
func (d *daemons) executed(node string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.jobs[node])
}

// holdJobs lets jobs begin and not end, until the function it returns is called.
func (d *daemons) holdJobs() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hold := make(chan struct{})
	d.hold = hold
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.hold = nil
		close(hold)
	}
}

// flashed plays what happened before the test: the device runs what is assigned to it, and the daemon recorded that.
func (d *daemons) flashed(node string) {
	device := d.device(node)
	w := device.Spec.Firmware
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running[node] = w.Version
	d.applied[node] = &v1alpha1.AppliedFirmware{
		Digest: w.Digest, Origin: device.Spec.Origin, BootID: "before", Time: metav1.NewTime(time.Unix(0, 0)),
	}
	d.report(d.t.Context(), device, "")
}

func (d *daemons) device(node string) *v1alpha1.NodeDevice {
	device := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-bios"}}
	require.NoError(d.t, d.client.Get(d.t.Context(), client.ObjectKeyFromObject(device), device))
	return device
}

func (d *daemons) isAssigned(node, version string) bool {
	w := d.device(node).Spec.Firmware
	return w != nil && w.Version == version && w.Digest != ""
}

func hasCondition(conditions []metav1.Condition, kind string, is metav1.ConditionStatus) bool {
	c := meta.FindStatusCondition(conditions, kind)
	return c != nil && c.Status == is
}
