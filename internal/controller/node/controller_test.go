package node

import (
	"context"
	"strconv"
	"testing"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/trim"
)

func TestMain(m *testing.M) { apitest.Main(m) }

type cluster struct {
	*testing.T
	*apitest.Env
}

func newCluster(t *testing.T) *cluster { return &cluster{t, apitest.New(t)} }

func (c *cluster) startOperator() { c.startOperatorWith(time.Hour) }

func (c *cluster) startOperatorWith(retention time.Duration) {
	skip := true
	mgr, err := ctrl.NewManager(c.Config, ctrl.Options{
		Scheme: c.Scheme, Cache: cache.Options{DefaultTransform: trim.Object}, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
	})
	require.NoError(c, err)
	require.NoError(c, SetupWithManager(mgr, apitest.Namespace, retention))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	c.Cleanup(func() {
		cancel()
		assert.NoError(c, <-done)
	})
}

func (c *cluster) create(o client.Object) {
	c.Helper()
	require.NoError(c, c.Client.Create(c.Context(), o))
}

func (c *cluster) node(name string) *corev1.Node {
	c.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.create(n)
	return n
}

func ownedBy(n *corev1.Node) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
}

func (c *cluster) device(n *corev1.Node, name string) *v1alpha1.NodeDevice {
	c.Helper()
	d := &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: ownedBy(n)}, Spec: v1alpha1.NodeDeviceSpec{NodeName: n.Name},
	}
	c.create(d)
	return d
}

// job creates a job whose daemon is at the step "flash" and holds the maintenance.
func (c *cluster) job(node, name string) *v1alpha1.FirmwareJob {
	c.Helper()
	j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}}}}
	c.create(j)
	return c.report(j)
}

// report writes the status of a job whose daemon is at the step "flash".
func (c *cluster) report(j *v1alpha1.FirmwareJob) *v1alpha1.FirmwareJob {
	c.Helper()
	now := metav1.Now()
	s := v1alpha1.FirmwareJobStatus{ObservedGeneration: j.Generation}
	s.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing, LastTransitionTime: now},
		{Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonProgressing, LastTransitionTime: now},
		{Type: v1alpha1.ConditionMaintenanceReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, LastTransitionTime: now},
		{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted, LastTransitionTime: now},
	}
	s.StartTime = &now
	s.Steps = []v1alpha1.JobStep{{Name: "flash", State: v1alpha1.StepRunning}, {Name: "reboot", State: v1alpha1.StepPending}}
	version, err := fieldset.ApplyAdmission(c.Context(), c.Client, j, j.ResourceVersion, s.Conditions)
	require.NoError(c, err)
	j.ResourceVersion = version
	_, err = fieldset.ApplyExecution(c.Context(), c.Client, j, s)
	require.NoError(c, err)
	require.NoError(c, c.Client.Get(c.Context(), client.ObjectKeyFromObject(j), j))
	return j
}

func (c *cluster) maintenance(node, requestor string, others ...string) *maintenancev1alpha1.NodeMaintenance {
	c.Helper()
	m := &maintenancev1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: nodemaintenance.Name(node), Namespace: apitest.Namespace},
		Spec:       maintenancev1alpha1.NodeMaintenanceSpec{NodeName: node, RequestorID: requestor, AdditionalRequestors: others},
	}
	c.create(m)
	return m
}

func (c *cluster) awaitGone(o client.Object) {
	c.Helper()
	require.Eventually(c, func() bool {
		return apierrors.IsNotFound(c.Client.Get(c.Context(), client.ObjectKeyFromObject(o), o))
	}, time.Minute, 10*time.Millisecond, "%T %s is deleted", o, o.GetName())
}

// awaitFirmware waits for the NodeFirmware of a Node, which no Node owns.
func (c *cluster) awaitFirmware(name string) *v1alpha1.NodeFirmware {
	c.Helper()
	o := &v1alpha1.NodeFirmware{}
	require.EventuallyWithT(c, func(t *assert.CollectT) {
		*o = v1alpha1.NodeFirmware{}
		require.NoError(t, c.Client.Get(c.Context(), client.ObjectKey{Name: name}, o))
		assert.Empty(t, o.OwnerReferences)
	}, time.Minute, 10*time.Millisecond)
	return o
}

// begun makes a job an update that its daemon has begun.
func (c *cluster) begun(node, name string) *v1alpha1.FirmwareJob {
	c.Helper()
	j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1alpha1.JobFinalizer}}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}},
	}}
	c.create(j)
	return c.report(j)
}

func (c *cluster) awaitEnded(j *v1alpha1.FirmwareJob) {
	c.Helper()
	require.EventuallyWithT(c, func(t *assert.CollectT) {
		require.NoError(t, c.Client.Get(c.Context(), client.ObjectKeyFromObject(j), j))
		failed := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionFailed)
		require.NotNil(t, failed)
		assert.Equal(t, v1alpha1.ReasonNodeGone, failed.Reason)
	}, time.Minute, 10*time.Millisecond)
}

// R000-14, R000-15: a new Node gets its one NodeFirmware, named after it, and gets it back.
func TestNodeGetsItsNodeFirmware(t *testing.T) {
	c := newCluster(t)
	c.node("early")
	c.startOperator()
	c.awaitFirmware("early")
	c.node("late")
	o := c.awaitFirmware("late")
	assert.Empty(t, o.Spec, "it holds what a person writes")
	assert.True(t, apierrors.IsAlreadyExists(c.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "late"}})))
	apitest.RequireStatus(t, o, status.InProgressStatus)

	first := o.UID
	require.NoError(t, c.Client.Delete(t.Context(), o))
	require.Eventually(t, func() bool { return c.awaitFirmware("late").UID != first }, time.Minute, 10*time.Millisecond)
}

func TestDeletedNodeLeavesNothing(t *testing.T) {
	c := newCluster(t)
	gone, stays := c.node("gone"), c.node("stays")
	c.startOperatorWith(0)
	firmware, kept := c.awaitFirmware("gone"), c.awaitFirmware("stays")
	device, other := c.device(gone, "gone-bios"), c.device(stays, "stays-bios")
	history, running := c.job("stays", "stays-0"), c.begun("gone", "gone-1")
	window := c.maintenance("gone", v1alpha1.MaintenanceRequestorID)

	require.NoError(t, c.Client.Delete(t.Context(), gone))
	c.awaitGone(device)
	c.awaitGone(window)
	c.awaitStranded(running)
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(firmware), firmware), "its job may still run")
	apitest.RequireStatus(t, running, status.FailedStatus)

	c.confirm(running)
	c.awaitEnded(running)
	apitest.RequireStatus(t, running, status.FailedStatus)
	assert.False(t, meta.IsStatusConditionTrue(running.Status.Conditions, v1alpha1.ConditionReconciling))
	assert.True(t, meta.IsStatusConditionTrue(running.Status.Conditions, v1alpha1.ConditionAdmitted), "the ledger's condition is the rollout's")
	assert.NotNil(t, running.Status.CompletionTime)
	assert.Equal(t, v1alpha1.StepRunning, running.Status.Steps[0].State, "how it ended is not known")
	assert.Equal(t, v1alpha1.StepPending, running.Status.Steps[1].State)

	running.Finalizers = nil // its report is recorded
	require.NoError(t, c.Client.Update(t.Context(), running))
	c.awaitGone(running)
	c.awaitGone(firmware)
	for _, o := range []client.Object{other, kept, history} {
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	}
}

// The garbage collector takes what a deleted Node owns. A Node that is registered again finds its pins, its
// history and the job that its machine may still be at work on.
func TestPinsAndJobsOutliveTheRegistrationOfTheirNode(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.ControlPlane.StartGarbageCollector(t.Context()))
	n := c.node("n")
	c.startOperator()
	firmware := c.awaitFirmware("n")
	firmware.Spec.Pins = []v1alpha1.FirmwareRule{pin}
	require.NoError(t, c.Client.Update(t.Context(), firmware))
	device, done, running := c.device(n, "n-bios"), c.job("n", "n-0"), c.begun("n", "n-1")
	first := firmware.UID

	require.NoError(t, c.Client.Delete(t.Context(), n))
	c.awaitGone(device)
	c.awaitStranded(running)
	c.node("n")
	c.device(n, "n-marker") // of the Node that is gone: the garbage collector has seen the deletion when this one goes
	c.awaitGone(&v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n-marker"}})
	firmware = c.awaitFirmware("n")
	assert.Equal(t, first, firmware.UID)
	assert.Equal(t, "p", firmware.Spec.Pins[0].Name)
	for _, j := range []*v1alpha1.FirmwareJob{done, running} {
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(j), j))
		assert.Nil(t, j.DeletionTimestamp, j.Name)
	}
	assert.False(t, running.Ended())
}

var pin = v1alpha1.FirmwareRule{Name: "p", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS}, Version: "1", SourceRef: v1alpha1.SourceReference{Name: "s"}}

// Pins are for one machine, which may be known later than the pins. The spec is the user's: nothing is written into it.
func TestPinsAreForOneMachine(t *testing.T) {
	c := newCluster(t)
	c.node("n")
	c.startOperator()
	machine := func(serial string) {
		t.Helper()
		s := c.awaitFirmware("n").Status
		s.Machine, s.LastScanTime = &v1alpha1.Machine{SerialNumber: serial}, ptr.To(metav1.Now())
		require.NoError(t, fieldset.ApplyNode(t.Context(), c.Client, "n", s))
	}
	edit := func(change func(*v1alpha1.NodeFirmwareSpec)) {
		t.Helper()
		o := c.awaitFirmware("n")
		before := o.DeepCopy()
		change(&o.Spec)
		require.NoError(t, c.Client.Patch(t.Context(), o, client.MergeFrom(before)))
	}
	pinned := func(want, adopt string) {
		t.Helper()
		require.EventuallyWithT(t, func(ct *assert.CollectT) {
			s := c.awaitFirmware("n").Status
			assert.Equal(ct, []string{want, adopt}, []string{s.PinnedMachine, s.Requests.Adopt})
		}, time.Minute, 10*time.Millisecond)
	}
	adopt := func(text string) { edit(func(s *v1alpha1.NodeFirmwareSpec) { s.Requests.Adopt = text }) }
	machine("A")
	edit(func(s *v1alpha1.NodeFirmwareSpec) { s.Pins = []v1alpha1.FirmwareRule{pin} })
	pinned("A", "")
	machine("B")
	edit(func(s *v1alpha1.NodeFirmwareSpec) { s.Pins[0].Version = "2" })
	adopt("new board")
	pinned("B", "new board")
	generation := c.awaitFirmware("n").Generation
	machine("C")
	adopt("another board")
	pinned("C", "another board")
	assert.Equal(t, generation+1, c.awaitFirmware("n").Generation, "the person's edit and no other")
	edit(func(s *v1alpha1.NodeFirmwareSpec) { s.Pins = nil })
	pinned("", "another board")
}

func (c *cluster) awaitStranded(j *v1alpha1.FirmwareJob) {
	c.Helper()
	require.EventuallyWithT(c, func(t *assert.CollectT) {
		require.NoError(t, c.Client.Get(c.Context(), client.ObjectKeyFromObject(j), j))
		stalled := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionStalled)
		require.NotNil(t, stalled)
		assert.Equal(t, v1alpha1.ReasonNodeGone, stalled.Reason)
		assert.Contains(t, stalled.Message, "kubectl annotate fwj "+j.Name)
	}, time.Minute, 10*time.Millisecond)
	assert.False(c, j.Ended())
}

func (c *cluster) confirm(j *v1alpha1.FirmwareJob) {
	c.Helper()
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, v1alpha1.ConfirmGoneAnnotation, "switched off")
	require.NoError(c, c.Client.Update(c.Context(), j))
}

// The daemon of a Node that was deleted runs until its pod is removed, and reports meanwhile; a person confirmed that the machine is gone.
func TestAJobEndsForGoodWhileItsDaemonStillReports(t *testing.T) {
	c := newCluster(t)
	gone := c.node("gone")
	c.startOperator()
	c.awaitFirmware("gone")
	job := c.job("gone", "gone-1")
	running, key := job.Status.DeepCopy(), client.ObjectKeyFromObject(job)
	reported, stop, done := 0, make(chan struct{}), make(chan struct{})
	report := func() {
		seen := &v1alpha1.FirmwareJob{}
		if err := c.Client.Get(t.Context(), key, seen); !assert.NoError(t, err) {
			return
		}
		s := running.DeepCopy()
		s.Steps[0].Message = strconv.Itoa(reported)
		written, err := fieldset.ApplyExecution(t.Context(), c.Client, seen, *s)
		if !apierrors.IsConflict(err) {
			assert.NoError(t, err)
		}
		if written {
			reported++
		}
	}
	report()
	assert.Positive(t, reported)
	require.NoError(t, c.Client.Get(t.Context(), key, job))
	c.confirm(job)
	go func() {
		defer close(done)
		for range 100 { // a daemon that reports without a pause for ever leaves the operator no version of the job to write to
			select {
			case <-stop:
				return
			default:
				report()
			}
		}
	}()
	require.NoError(t, c.Client.Delete(t.Context(), gone))
	c.awaitEnded(job)
	close(stop)
	<-done
	report()
	c.awaitEnded(job)
	assert.Equal(t, v1alpha1.StepRunning, job.Status.Steps[0].State, "how it ended is not known, and the daemon's report stays")
	assert.False(t, meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionReconciling))
	apitest.RequireStatus(t, job, status.FailedStatus)
}

func TestNodeDeletedWhileDown(t *testing.T) {
	c := newCluster(t)
	gone := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone", UID: "00000000-0000-0000-0000-000000000001"}}
	device, job := c.device(gone, "gone-bios"), c.job("gone", "gone-1")
	c.confirm(job)
	firmware := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
	c.create(firmware)
	c.startOperatorWith(0)
	c.awaitGone(device)
	c.awaitGone(job)
	c.awaitGone(firmware)
}

func TestLeavesSharedMaintenance(t *testing.T) {
	c := newCluster(t)
	gone := c.node("gone")
	c.startOperatorWith(0)
	firmware := c.awaitFirmware("gone")
	window := c.maintenance("gone", "other.example.com", v1alpha1.MaintenanceRequestorID, "third.example.com")
	require.NoError(t, c.Client.Delete(t.Context(), gone))
	c.awaitGone(firmware)
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(window), window))
	assert.Equal(t, []string{"third.example.com"}, window.Spec.AdditionalRequestors)
}

// What a person asked for a machine that has not joined is kept and reported; an empty object is removed.
func TestKeepsMissingNodesRequest(t *testing.T) {
	c := newCluster(t)
	pinned := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Spec: v1alpha1.NodeFirmwareSpec{
		Pins: []v1alpha1.FirmwareRule{{Name: "p", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS}, Version: "1", SourceRef: v1alpha1.SourceReference{Name: "s"}}},
	}}
	empty := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "typo"}}
	c.create(pinned)
	c.create(empty)
	c.startOperatorWith(0)
	c.awaitGone(empty)
	require.Eventually(t, func() bool {
		list := &eventsv1.EventList{}
		require.NoError(t, c.Client.List(t.Context(), list))
		return len(list.Items) == 1 && list.Items[0].Reason == v1alpha1.ReasonNodeGone && list.Items[0].Regarding.Name == "later"
	}, time.Minute, 10*time.Millisecond)
	n := c.node("later")
	require.NoError(t, c.Client.Delete(t.Context(), n))
	c.awaitGone(n)
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(pinned), pinned), "it is not the Node's")
}

// Names of Nodes may be used once, as where machines scale up and down.
func TestForgetsVanishedNode(t *testing.T) {
	c := newCluster(t)
	c.create(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "gone"}})
	clock := time.Now()
	r := New(c.Client, c.Client, nil, apitest.Namespace, func() time.Time { return clock }, time.Hour)
	reconcile := func() {
		t.Helper()
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "gone"}})
		require.NoError(t, err)
	}
	reconcile()
	require.Contains(t, r.gone, "gone", "the retention is counted")
	clock = clock.Add(time.Hour)
	reconcile() // deletes what is left, and its event follows
	reconcile()
	assert.Empty(t, r.gone)
}

// A cache that does not know a Node yet deletes nothing: the API server is asked first.
func TestLateCacheDeletesNothing(t *testing.T) {
	c := newCluster(t)
	n := c.node("n")
	device, job := c.device(n, "n-bios"), c.job("n", "n-1")
	late := emptyCache{}
	r := New(late, c.Client, nil, apitest.Namespace, time.Now, 0)
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n"}})
	require.NoError(t, err)
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(device), device))
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job))
	assert.Nil(t, meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionFailed))
	c.awaitFirmware("n")
}

// emptyCache is a cache that has seen nothing yet.
type emptyCache struct{ client.Reader }

func (emptyCache) Get(_ context.Context, k client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(corev1.Resource("anything"), k.Name)
}

// joining is a client through which a Node joins right after the API server said that there is none.
type joining struct {
	client.Client
	join func()
}

func (j *joining) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := j.Client.Get(ctx, key, o, opts...)
	if _, ok := o.(*corev1.Node); ok && apierrors.IsNotFound(err) && j.join != nil {
		j.join()
		j.join = nil
	}
	return err
}

// A NodeFirmware may be there before its Node. What a Node that joins while its name is looked at brings with it is not what was
// left of one that is gone.
func TestKeepsWhatJoiningNodeBrings(t *testing.T) {
	c := newCluster(t)
	c.create(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	device := &v1alpha1.NodeDevice{}
	direct := &joining{Client: c.Client, join: func() { device = c.device(c.node("n1"), "n1-nic-a") }}
	r := New(&joining{Client: c.Client}, direct, events.NewFakeRecorder(10), apitest.Namespace, time.Now, time.Hour)
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n1"}})
	require.NoError(t, err)
	assert.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(device), device))
}
