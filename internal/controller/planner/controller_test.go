package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/protection"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/cacheview"
)

const node = "gpu-1"

// world is a cluster with one node, its planner, and a clock.
type world struct {
	*testing.T
	client.Client
	planner *Reconciler
	clock   time.Time
	// skew is how far the clock of the API server is from the right time.
	skew time.Duration
	uids int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme, err := apitest.Scheme()
	require.NoError(t, err)
	w := &world{T: t, clock: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "node-uid"}})
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.NodeDevice{}, &v1alpha1.FirmwareJob{}, &v1alpha1.FirmwareQuarantine{}).
		WithTypeConverters(apitest.TypeConverter(t)).
		WithIndex(&v1alpha1.NodeDevice{}, index.NodeName, index.ByNode).
		WithIndex(&v1alpha1.FirmwareJob{}, index.NodeName, index.ByNode).
		WithIndex(&v1alpha1.FirmwareJob{}, index.Blamed, index.ByBlamed).
		WithInterceptorFuncs(interceptor.Funcs{Create: w.stamp}).Build()
	w.restart()
	return w
}

// restart is a new leader.
func (w *world) restart() {
	w.planner = New(cacheview.Client{Client: w.Client}, events.NewFakeRecorder(100), func() time.Time { return w.clock }, time.Minute)
}

func digest(n int) v1alpha1.Digest { return v1alpha1.Digest(fmt.Sprintf("sha256:%064x", n)) }

// device runs version 1 and is to run the given one; 0 for none.
func device(name string, version int) *v1alpha1.NodeDevice {
	d := &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + name},
		Spec:       v1alpha1.NodeDeviceSpec{NodeName: node},
		Status: v1alpha1.NodeDeviceStatus{
			UniqueID: name,
			Firmware: &v1alpha1.ObservedFirmware{Running: "1", Stored: "1", Driver: "mstflint", Activation: v1alpha1.ActivationReboot},
		},
	}
	setDesired(d, version)
	meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded})
	return d
}

func setDesired(d *v1alpha1.NodeDevice, version int) {
	d.Spec.Firmware, d.Spec.Origin = nil, nil
	if version != 0 {
		d.Spec.Firmware = &v1alpha1.DesiredFirmware{
			Version: fmt.Sprint(version), Digest: digest(version),
			Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
		}
		d.Spec.Origin = []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}, {Kind: v1alpha1.OriginSource, Name: "s"}}
	}
}

func (w *world) reconcile() ctrl.Result {
	w.Helper()
	result, err := w.planner.Reconcile(w.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: node}})
	require.NoError(w, err)
	for _, j := range w.jobs() { // what was deleted goes
		_, err := protection.New(w.Client, w.Client, events.NewFakeRecorder(10), "").Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&j)})
		require.NoError(w, err)
	}
	return result
}

// settle lets the quiet period pass.
func (w *world) settle() {
	w.Helper()
	if r := w.reconcile(); r.RequeueAfter > 0 {
		w.clock = w.clock.Add(r.RequeueAfter)
		w.reconcile()
	}
}

// stamp gives a new job what an API server gives.
func (w *world) stamp(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	if o.GetUID() == "" {
		w.uids++
		o.SetUID(types.UID(fmt.Sprintf("job-%d", w.uids)))
		o.SetCreationTimestamp(metav1.NewTime(w.clock.Add(w.skew)))
	}
	return c.Create(ctx, o, opts...)
}

func (w *world) jobs() []v1alpha1.FirmwareJob {
	w.Helper()
	var list v1alpha1.FirmwareJobList
	require.NoError(w, w.List(w.Context(), &list))
	return list.Items
}

// queued is the one job that is not finished.
func (w *world) queued() *v1alpha1.FirmwareJob {
	w.Helper()
	var out []v1alpha1.FirmwareJob
	for _, j := range w.jobs() {
		if !j.Ended() {
			out = append(out, j)
		}
	}
	if len(out) == 0 {
		return nil
	}
	require.Len(w, out, 1)
	return &out[0]
}

func (w *world) edit(name string, change func(*v1alpha1.NodeDevice)) {
	w.Helper()
	d := &v1alpha1.NodeDevice{}
	require.NoError(w, w.Get(w.Context(), types.NamespacedName{Name: node + "-" + name}, d))
	change(d)
	status := d.Status.DeepCopy()
	require.NoError(w, w.Update(w.Context(), d))
	d.Status = *status
	require.NoError(w, w.Status().Update(w.Context(), d))
}

func (w *world) assign(name string, version int) {
	w.Helper()
	w.edit(name, func(d *v1alpha1.NodeDevice) { setDesired(d, version) })
}

// set writes conditions of a job as the daemon and the rollout do.
func (w *world) set(j *v1alpha1.FirmwareJob, steps []v1alpha1.JobStep, conditions ...string) {
	w.Helper()
	for _, c := range conditions {
		meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.NewTime(w.clock)})
	}
	j.Status.Steps = steps
	if j.Ended() {
		now := metav1.NewTime(w.clock)
		j.Status.CompletionTime = &now
	}
	require.NoError(w, w.Status().Update(w.Context(), j))
	w.clock = w.clock.Add(time.Second)
}

func (w *world) retry() {
	w.Helper()
	w.clock = w.clock.Add(time.Second)
	fw := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(fw), fw); err != nil {
		require.NoError(w, w.Create(w.Context(), fw))
	}
	fw.Spec.Requests.Retry += "again "
	require.NoError(w, w.Update(w.Context(), fw))
	w.clock = w.clock.Add(time.Second)
}

func devices(j *v1alpha1.FirmwareJob) string {
	if j == nil {
		return "none"
	}
	var out []string
	for _, u := range j.Spec.Task.Devices {
		out = append(out, fmt.Sprintf("%s=%s", strings.TrimPrefix(u.Name, node+"-"), u.Version))
	}
	return strings.Join(out, " ")
}

// requireQuiet is the end of every test: nothing is left to be done, and what is queued is in progress for kstatus.
func (w *world) requireQuiet() {
	w.Helper()
	before := w.jobs()
	assert.Zero(w, w.reconcile())
	assert.Equal(w, before, w.jobs())
	if j := w.queued(); j != nil {
		j.Generation, j.Status.ObservedGeneration = 1, -1 // as the API server defaults them
		apitest.RequireStatus(w, j, status.InProgressStatus)
	}
}

// R000-28, R001-6: one job with all that differs, and only that.
func TestOneJobForAllDueUpdates(t *testing.T) {
	other := device("other", 2)
	other.Spec.NodeName = "gpu-2"
	w := newWorld(t, device("nic", 2), device("disk", 3), device("same", 1), device("free", 0), other)
	w.settle()
	j := w.queued()
	require.Equal(t, "disk=3 nic=2", devices(j))
	assert.Equal(t, v1alpha1.TaskDevice{
		Name: node + "-nic", UniqueID: "nic", Model: v1alpha1.AnyModel, FromVersion: "1", Version: "2", Digest: digest(2),
	}, j.Spec.Task.Devices[1])
	assert.Empty(t, j.OwnerReferences, "a Node that is registered again does not take its jobs along")
	assert.Equal(t, v1alpha1.JobTypeUpdate, j.Spec.Task.Type)
	w.requireQuiet()
}

// Bad firmware must not take two drives of one array: the second one follows when the first one runs its new firmware.
func TestOneDriveOfArrayPerJob(t *testing.T) {
	member := func(name string, arrays ...string) *v1alpha1.NodeDevice {
		d := device(name, 2)
		d.Status.Arrays = arrays
		return d
	}
	w := newWorld(t, member("disk0", "md0"), member("disk1", "md0", "md1"), member("disk2", "md1"), device("nic", 2))
	w.settle()
	first := w.queued()
	require.Equal(t, "disk0=2 disk2=2 nic=2", devices(first))
	w.set(first, nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	for _, name := range []string{"disk0", "disk2", "nic"} {
		w.edit(name, func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running, d.Status.Firmware.Stored = "2", "2" })
	}
	w.settle()
	require.Equal(t, "disk1=2", devices(w.queued()))
	w.requireQuiet()
}

// A retry repeats what failed, and must not take another drive of the same array along.
func TestRetryTakesOneDriveOfArray(t *testing.T) {
	disk0, disk1 := device("disk0", 1), device("disk1", 2)
	disk0.Status.Arrays, disk1.Status.Arrays = []string{"md0"}, []string{"md0"}
	w := newWorld(t, disk0, disk1, device("nic", 2))
	w.settle()
	failed := w.queued()
	require.Equal(t, "disk1=2 nic=2", devices(failed))
	w.set(failed, []v1alpha1.JobStep{{Name: "flash", Device: node + "-disk1", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.assign("disk0", 2)
	w.retry()
	w.settle()
	assert.Equal(t, "disk1=2 nic=2", devices(w.queued()), "the drive that failed, not the other one")
	w.requireQuiet()
}

// The drive that failed gets other firmware. Until it is healthy, no other drive of its array may be updated instead.
func TestADriveThatFailedGoesBeforeTheOthersOfItsArray(t *testing.T) {
	disk0, disk1 := device("disk0", 1), device("disk1", 2)
	disk0.Status.Arrays, disk1.Status.Arrays = []string{"md0"}, []string{"md0"}
	w := newWorld(t, disk0, disk1)
	w.settle()
	w.set(w.queued(), []v1alpha1.JobStep{{Name: "flash", Device: node + "-disk1", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.assign("disk0", 3)
	w.assign("disk1", 3)
	w.settle()
	assert.Equal(t, "disk1=3", devices(w.queued()))
	w.requireQuiet()
}

// A drive that becomes due does not take the place in the queue of another one of its array.
func TestAQueuedDriveKeepsItsPlaceBeforeTheOthersOfItsArray(t *testing.T) {
	disk0, disk1 := device("disk0", 1), device("disk1", 2)
	disk0.Status.Arrays, disk1.Status.Arrays = []string{"md0"}, []string{"md0"}
	w := newWorld(t, disk0, disk1)
	w.settle()
	queued := w.queued()
	w.assign("disk0", 2)
	w.settle()
	assert.Equal(t, queued.UID, w.queued().UID)
	w.requireQuiet()
}

// What failed on a held node is judged again, however much else has become due meanwhile.
func TestARetryHasRoomForWhatFailed(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.settle()
	w.set(w.queued(), []v1alpha1.JobStep{{Name: "health", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.edit("nic", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running, d.Status.Firmware.Stored = "2", "2" })
	for i := range 130 {
		d := device(fmt.Sprintf("disk%03d", i), 2)
		require.NoError(t, w.Create(t.Context(), d))
	}
	w.retry()
	w.settle()
	j := w.queued()
	require.NotNil(t, j)
	assert.Len(t, j.Spec.Task.Devices, 128)
	assert.Contains(t, devices(j), "nic=2")
	w.requireQuiet()
}

// A drive may join an array while its job waits.
func TestReplansDriveJoiningArray(t *testing.T) {
	a, b := device("disk", 2), device("disk", 2)
	b.Status.Arrays = []string{"md0"}
	assert.True(t, deviceChanged.Update(event.UpdateEvent{ObjectOld: a, ObjectNew: b}))
}

// R000-27, R000-30: equal makes no job and no write.
func TestEqualityMakesNoJob(t *testing.T) {
	w := newWorld(t, device("nic", 1), device("free", 0))
	w.settle()
	assert.Nil(t, w.queued())
	w.requireQuiet()
}

func TestWhatIsNotDue(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NodeDevice){
		"only reported": func(d *v1alpha1.NodeDevice) { d.Spec.Firmware.Policy = v1alpha1.PolicyValidate },
		"no digest":     func(d *v1alpha1.NodeDevice) { d.Spec.Firmware.Digest = "" },
		"no driver":     func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Driver = "" },
		"never read":    func(d *v1alpha1.NodeDevice) { d.Status.Firmware = nil },
		"downgrade": func(d *v1alpha1.NodeDevice) {
			d.Status.Firmware.Running, d.Status.Firmware.VersionFormat = "3", v1alpha1.VersionFormatDotted
		},
		"read-only":                  func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Access = v1alpha1.AccessReadOnly },
		"power-cycle":                func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Activation = v1alpha1.ActivationPowerCycle },
		"never reported":             func(d *v1alpha1.NodeDevice) { d.Status = v1alpha1.NodeDeviceStatus{ObservedGeneration: -1} },
		"spec not seen by daemon":    func(d *v1alpha1.NodeDevice) { d.Generation = 7; d.Status.ObservedGeneration = 6 },
		"failed":                     func(d *v1alpha1.NodeDevice) { d.Status.Failure = &v1alpha1.DeviceFailure{Digest: digest(2)} },
		"source not ready (blocked)": func(d *v1alpha1.NodeDevice) { setTrue(d, v1alpha1.ConditionBlocked) },
		"two templates (conflict)":   func(d *v1alpha1.NodeDevice) { setTrue(d, v1alpha1.ConditionConflict) },
		"not readable": func(d *v1alpha1.NodeDevice) {
			meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReadFailed, Message: "EIO"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := device("nic", 2)
			change(d)
			w := newWorld(t, d, device("disk", 2))
			w.settle()
			assert.Equal(t, "disk=2", devices(w.queued()), "the sibling goes on")
			w.requireQuiet()
		})
	}
}

// What a device needs is judged by its facts alone: conditions the daemon wrote for older desired firmware do not matter.
func TestIgnoresDaemonsConditions(t *testing.T) {
	for _, reason := range []string{v1alpha1.ReasonDowngradeForbidden, v1alpha1.ReasonNotUpdatable, v1alpha1.ReasonPowerCycleRequired, v1alpha1.ReasonUpToDate} {
		d := device("nic", 2)
		meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason})
		w := newWorld(t, d)
		w.settle()
		assert.Equal(t, "nic=2", devices(w.queued()), reason)
		w.requireQuiet()
	}
}

func setTrue(d *v1alpha1.NodeDevice, condition string) {
	meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Test"})
}

// A staged image is activated.
func TestStagedVersionIsDue(t *testing.T) {
	d := device("nic", 2)
	d.Status.Firmware.Stored = "2"
	w := newWorld(t, d)
	w.settle()
	assert.Equal(t, "nic=2", devices(w.queued()))
	w.requireQuiet()
}

// R004-24: 20 edits in 30 seconds make one job, a minute after the last one.
func TestChangeRestartsQuietPeriod(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.reconcile()
	for i := range 20 {
		w.clock = w.clock.Add(1500 * time.Millisecond)
		w.assign("nic", 3+i)
		assert.Equal(t, time.Minute, w.reconcile().RequeueAfter)
	}
	w.clock = w.clock.Add(59 * time.Second)
	assert.Equal(t, time.Second, w.reconcile().RequeueAfter)
	assert.Empty(t, w.jobs())
	w.clock = w.clock.Add(time.Second)
	assert.Zero(t, w.reconcile())
	assert.Equal(t, "nic=22", devices(w.queued()))
	w.requireQuiet()
}

func TestNewLeaderWaitsQuietPeriod(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.reconcile()
	w.clock = w.clock.Add(50 * time.Second)
	w.restart()
	assert.Equal(t, time.Minute, w.reconcile().RequeueAfter)
	w.settle()
	assert.Equal(t, "nic=2", devices(w.queued()))
	w.restart()
	w.requireQuiet()
}

func TestAQueuedJobIsReplacedWhenTheDesiredFirmwareChanges(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.settle()
	first := w.queued()
	w.assign("nic", 3)
	assert.Equal(t, time.Minute, w.reconcile().RequeueAfter)
	assert.Nil(t, w.queued(), "it goes at once, so that it is not admitted meanwhile")
	w.settle()
	assert.Equal(t, "nic=3", devices(w.queued()))
	assert.NotEqual(t, first.Name, w.queued().Name)
	w.assign("nic", 1)
	w.settle()
	assert.Nil(t, w.queued(), "and without a successor when nothing else is desired")
	w.requireQuiet()
}

// An abort withdraws what is queued and queues nothing; what was admitted finishes.
func TestAbortWithdrawsQueuedJob(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	require.NoError(t, w.Create(t.Context(), p))
	w.settle()
	require.NotNil(t, w.queued())
	p.Spec.State = v1alpha1.RolloutAborted
	require.NoError(t, w.Update(t.Context(), p))
	w.settle()
	require.Nil(t, w.queued())
	w.requireQuiet()
	p.Spec.State = v1alpha1.RolloutActive
	require.NoError(t, w.Update(t.Context(), p))
	w.settle()
	job := w.queued()
	w.set(job, nil, v1alpha1.ConditionAdmitted)
	p.Spec.State = v1alpha1.RolloutAborted
	require.NoError(t, w.Update(t.Context(), p))
	w.settle()
	require.NotNil(t, w.queued(), "an admitted job finishes")
	w.requireQuiet()
}

// The finalizer of a queued job takes a moment, in which the quiet period goes on.
func TestTheQuietPeriodGoesOnWhileAReplacedJobIsBeingDeleted(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.settle()
	plan := func() time.Duration {
		result, err := w.planner.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: node}})
		require.NoError(t, err)
		return result.RequeueAfter
	}
	w.assign("nic", 3)
	assert.Equal(t, time.Minute, plan())
	require.NotNil(t, w.queued().DeletionTimestamp)
	w.clock = w.clock.Add(40 * time.Second)
	assert.Equal(t, 20*time.Second, plan())
	w.clock = w.clock.Add(20 * time.Second)
	plan()
	assert.Len(t, w.jobs(), 1, "its successor waits until it is gone")
	w.reconcile()
	w.reconcile()
	assert.Equal(t, "nic=3", devices(w.queued()))
	w.requireQuiet()
}

func TestAQueuedJobThatWasAdmittedInTheMeantimeIsNotDeleted(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.settle()
	stale := *w.queued()
	w.set(w.queued(), nil, v1alpha1.ConditionAdmitted)
	require.True(t, apierrors.IsConflict(w.planner.supersede(t.Context(), &stale, false)))
	assert.NotNil(t, w.queued())
	w.requireQuiet()
}

// The event of what won may be one that the planner does not watch, so no pass may rely on it.
func TestAnotherPassAfterLostRace(t *testing.T) {
	t.Run("a job changed while it was withdrawn", func(t *testing.T) {
		w := newWorld(t, device("nic", 2))
		w.settle()
		first := w.queued()
		w.assign("nic", 1)
		w.race(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			other := first.DeepCopy()
			other.Labels["team"] = "storage"
			require.NoError(t, w.Update(ctx, other))
			assert.False(t, jobChanged.Update(event.UpdateEvent{ObjectOld: first, ObjectNew: other}))
			return c.Delete(ctx, o, opts...)
		}})
		result := w.reconcile()
		require.NotNil(t, w.queued())
		w.restart()
		require.NotZero(t, result.RequeueAfter)
		w.clock = w.clock.Add(result.RequeueAfter)
		w.settle()
		assert.Nil(t, w.queued(), "what is no longer desired is not admitted")
		w.requireQuiet()
	})
	t.Run("a job of that name exists", func(t *testing.T) {
		w := newWorld(t, device("nic", 2))
		w.clock = w.clock.Add(w.reconcile().RequeueAfter)
		w.race(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return apierrors.NewAlreadyExists(v1alpha1.GroupVersion.WithResource("firmwarejobs").GroupResource(), o.GetName())
		}})
		result := w.reconcile()
		w.restart()
		require.NotZero(t, result.RequeueAfter)
		w.clock = w.clock.Add(result.RequeueAfter)
		w.settle()
		assert.Equal(t, "nic=2", devices(w.queued()))
		w.requireQuiet()
	})
}

// race lets something happen between the decision of the planner and its write.
func (w *world) race(f interceptor.Funcs) {
	base, ok := w.Client.(client.WithWatch)
	require.True(w, ok)
	w.planner.client = cacheview.Client{Client: interceptor.NewClient(base, f)}
}

func TestAnEditThatChangesNoImageKeepsThePlaceInTheQueue(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.settle()
	before := w.queued()
	w.edit("nic", func(d *v1alpha1.NodeDevice) {
		d.Spec.Origin[0].Name = "renamed"
		d.Generation = 9 // and the daemon has not looked again yet
	})
	w.settle()
	assert.Equal(t, before.UID, w.queued().UID)
	w.requireQuiet()
}

// R002-66: edges and the way back were looked up for what ran; the daemon refuses a job that was planned over another version.
func TestAQueuedJobIsReplacedWhenAnotherVersionRuns(t *testing.T) {
	w := newWorld(t, device("nic", 3))
	w.settle()
	require.Equal(t, "1", w.queued().Spec.Task.Devices[0].FromVersion)
	w.edit("nic", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running, d.Status.Firmware.Stored = "2", "2" })
	w.settle()
	w.settle()
	require.NotNil(t, w.queued())
	assert.Equal(t, "2", w.queued().Spec.Task.Devices[0].FromVersion)
	w.requireQuiet()
}

func TestAScanThatFailsKeepsThePlaceInTheQueue(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.settle()
	before := w.queued()
	w.edit("nic", func(d *v1alpha1.NodeDevice) {
		meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReadFailed, Message: "EIO"})
	})
	w.settle()
	require.NotNil(t, w.queued())
	assert.Equal(t, before.UID, w.queued().UID)
	w.requireQuiet()
}

func TestARunningJobIsNotTouchedAndTheDifferenceFollows(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.settle()
	running := w.queued()
	w.set(running, nil, v1alpha1.ConditionAdmitted)
	w.assign("nic", 3)
	w.settle()
	assert.Equal(t, "nic=2", devices(w.queued()))
	w.edit("nic", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running, d.Status.Firmware.Stored = "2", "2" })
	w.set(running, nil, v1alpha1.ConditionComplete)
	w.settle()
	assert.Equal(t, "nic=3", devices(w.queued()))
	assert.Len(t, w.jobs(), 2)
	w.requireQuiet()
}

func TestAJobSomebodyElseQueuedIsWaitedForAndNeverDeleted(t *testing.T) {
	mine := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "mine"}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{Name: node + "-nic"}}},
	}}
	w := newWorld(t, device("nic", 2), mine)
	w.settle()
	assert.Equal(t, "mine", w.queued().Name)
	w.requireQuiet()
}

// A failed image is not tried again until the desired firmware changes or a person asks.
func TestDoesNotRepeatFailedUpdate(t *testing.T) {
	fails := []v1alpha1.JobStep{{Name: "preflight", Device: node + "-nic", State: v1alpha1.StepFailed}}
	setup := func(t *testing.T) *world {
		w := newWorld(t, device("nic", 2), device("disk", 2))
		w.settle()
		require.Equal(t, "disk=2 nic=2", devices(w.queued()))
		w.set(w.queued(), fails, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed)
		w.settle()
		require.Equal(t, "disk=2", devices(w.queued()), "what did not fail goes on without it")
		w.edit("disk", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running = "2" })
		w.set(w.queued(), nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
		w.settle()
		require.Nil(t, w.queued())
		return w
	}
	t.Run("the desired firmware changes", func(t *testing.T) {
		w := setup(t)
		w.assign("nic", 3)
		w.settle()
		assert.Equal(t, "nic=3", devices(w.queued()))
		w.requireQuiet()
	})
	t.Run("a person asks", func(t *testing.T) {
		w := setup(t)
		w.retry()
		w.settle()
		assert.Equal(t, "nic=2", devices(w.queued()))
		w.set(w.queued(), fails, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed)
		w.settle()
		assert.Nil(t, w.queued(), "and once only")
		w.requireQuiet()
	})
	t.Run("the operator restarts", func(t *testing.T) {
		w := setup(t)
		w.restart()
		w.settle()
		assert.Nil(t, w.queued())
		w.requireQuiet()
	})
}

// R000-29: a failure that says nothing about the image is tried again by itself, with growing pauses.
func TestAPassingFailureIsTriedAgainWithGrowingPauses(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	var waits []time.Duration
	for range 4 {
		w.settle()
		j := w.queued()
		require.NotNil(t, j)
		w.set(j, nil, v1alpha1.ConditionAdmitted)
		meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonImageUnavailable})
		w.set(j, nil)
		waits = append(waits, w.reconcile().RequeueAfter)
		require.Nil(t, w.queued())
		w.clock = w.clock.Add(waits[len(waits)-1])
	}
	assert.Equal(t, []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}, waits)
	w.settle()
	w.requireQuiet()
}

// Another job does not open a disk that the TPM alone opens, and would take a place of the budget each time.
func TestASealedDiskIsNotTriedAgainByItself(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	fails := func() {
		t.Helper()
		w.settle()
		j := w.queued()
		require.NotNil(t, j)
		w.set(j, []v1alpha1.JobStep{{Name: "preflight", State: v1alpha1.StepFailed}}, v1alpha1.ConditionAdmitted)
		meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUnlockUnavailable})
		w.set(j, nil)
		w.clock = w.clock.Add(24 * time.Hour)
		w.settle()
		require.Nil(t, w.queued())
		w.requireQuiet()
	}
	fails()
	w.retry()
	fails()
	w.assign("nic", 3)
	w.settle()
	assert.Equal(t, "nic=3", devices(w.queued()), "other firmware may be measured elsewhere")
}

func TestAHeldNodeGetsANewJobOnlyForOtherDesiredFirmwareOrARetry(t *testing.T) {
	setup := func(t *testing.T, failed ...v1alpha1.JobStep) *world {
		w := newWorld(t, device("nic", 2), device("disk", 2))
		w.settle()
		w.set(w.queued(), failed, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
		w.settle()
		require.Nil(t, w.queued(), "the drive that was not reached does not go alone")
		return w
	}
	nic := v1alpha1.JobStep{Name: "flash", Device: node + "-nic", State: v1alpha1.StepFailed}
	t.Run("the desired firmware of what failed changes", func(t *testing.T) {
		w := setup(t, nic)
		w.assign("disk", 5)
		w.settle()
		assert.Nil(t, w.queued(), "a change for another device does not return a broken node to service")
		w.assign("nic", 3)
		w.settle()
		assert.Equal(t, "disk=5 nic=3", devices(w.queued()))
		w.requireQuiet()
	})
	t.Run("a person asks for a retry", func(t *testing.T) {
		w := setup(t, nic)
		w.retry()
		w.settle()
		assert.Equal(t, "disk=2 nic=2", devices(w.queued()))
		w.requireQuiet()
	})
	t.Run("the devices run the target but the node is not well", func(t *testing.T) {
		w := setup(t, v1alpha1.JobStep{Name: "health", State: v1alpha1.StepFailed})
		for _, name := range []string{"nic", "disk"} {
			w.edit(name, func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running, d.Status.Firmware.Stored = "2", "2" })
		}
		w.settle()
		require.Nil(t, w.queued())
		w.retry()
		w.settle()
		assert.Equal(t, "disk=2 nic=2", devices(w.queued()), "a retry judges the node again")
		w.requireQuiet()
	})
}

// A request clears what failed before it, and not what fails after it.
func TestARetryThatIsRequestedWhileAJobIsQueuedDoesNotClearItsFailure(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.settle()
	require.NotNil(t, w.queued())
	w.retry()
	w.settle()
	w.settle()
	j := w.queued()
	require.Equal(t, "nic=2", devices(j))
	w.set(j, []v1alpha1.JobStep{{Name: "flash", Device: node + "-nic", State: v1alpha1.StepFailed}}, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed)
	w.settle()
	assert.Nil(t, w.queued())
	w.requireQuiet()
}

// A job that fails before it takes the node over leaves the hold and the request to retry as they are.
func TestARefusedRetryOfAHeldNodeIsTriedAgainWithGrowingPauses(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.settle()
	w.set(w.queued(), []v1alpha1.JobStep{{Name: "health", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.edit("nic", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running, d.Status.Firmware.Stored = "2", "2" })
	w.retry()
	var waits []time.Duration
	for range 3 {
		w.settle()
		j := w.queued()
		require.Equal(t, "nic=2", devices(j))
		meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonJobRejected})
		w.set(j, nil, v1alpha1.ConditionAdmitted)
		waits = append(waits, w.reconcile().RequeueAfter)
		require.Nil(t, w.queued())
		w.clock = w.clock.Add(waits[len(waits)-1])
	}
	assert.Equal(t, []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute}, waits)
	w.settle()
	w.requireQuiet()
}

func TestAHeldNodeIsNotRetriedWhileTheDaemonWouldRefuseWhatFailed(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NodeDevice){
		"read-only": func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Access = v1alpha1.AccessReadOnly },
		"blocked":   func(d *v1alpha1.NodeDevice) { setTrue(d, v1alpha1.ConditionBlocked) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, device("nic", 2), device("disk", 2))
			w.settle()
			w.set(w.queued(), []v1alpha1.JobStep{{Name: "flash", Device: node + "-nic", State: v1alpha1.StepFailed}},
				v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
			before := device("nic", 2).Status
			w.edit("nic", change)
			w.retry()
			w.settle()
			assert.Nil(t, w.queued(), "the drive alone would return the node with an adapter nobody judged")
			w.edit("nic", func(d *v1alpha1.NodeDevice) { d.Status = before })
			w.settle()
			assert.Equal(t, "disk=2 nic=2", devices(w.queued()), "the request is still in force")
			w.requireQuiet()
		})
	}
}

func TestTheHistoryIsBounded(t *testing.T) {
	w := newWorld(t, device("nic", 1))
	for i := range 14 {
		j := &v1alpha1.FirmwareJob{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("old-%02d", i), UID: types.UID(fmt.Sprint(i)), CreationTimestamp: metav1.NewTime(w.clock.Add(time.Duration(i) * time.Second))},
			Spec:       v1alpha1.FirmwareJobSpec{NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}}},
		}
		require.NoError(t, w.Create(t.Context(), j))
		conditions := []string{v1alpha1.ConditionComplete}
		if i == 1 {
			conditions = []string{v1alpha1.ConditionFailed, v1alpha1.ConditionHeld}
		}
		w.set(j, nil, conditions...)
	}
	w.settle()
	var names []string
	for _, j := range w.jobs() {
		names = append(names, j.Name)
	}
	assert.Len(t, names, due.MaxHistory+1)
	assert.Contains(t, names, "old-01", "a job that holds its node stays")
	assert.Contains(t, names, "old-13", "the newest stays")
	assert.NotContains(t, names, "old-03")
	w.requireQuiet()
}

// Scans are requested as often as anybody likes: they must not make the planner forget what failed.
func TestScansKeepUpdateHistory(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	var again time.Time
	for range 3 {
		w.settle()
		j := w.queued()
		require.NotNil(t, j)
		meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonImageUnavailable})
		w.set(j, nil, v1alpha1.ConditionAdmitted)
		again = w.clock.Add(w.reconcile().RequeueAfter)
		if len(w.jobs()) < 3 {
			w.clock = again
		}
	}
	for i := range 25 {
		j := &v1alpha1.FirmwareJob{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("scan-%02d", i), UID: types.UID(fmt.Sprint(i)), CreationTimestamp: metav1.NewTime(w.clock)},
			Spec:       v1alpha1.FirmwareJobSpec{NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}}},
		}
		require.NoError(t, w.Create(t.Context(), j))
		w.set(j, nil, v1alpha1.ConditionComplete)
		assert.Equal(t, again, w.clock.Add(w.reconcile().RequeueAfter), "the pause after the failures goes on")
	}
	assert.Nil(t, w.queued())
	assert.Len(t, w.jobs(), 3+due.MaxHistory)
	w.clock = again
	w.settle()
	assert.Equal(t, "nic=2", devices(w.queued()))
	w.requireQuiet()
}

func TestAMissingNodeGetsNoJob(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	require.NoError(t, w.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	w.settle()
	assert.Nil(t, w.queued())
	w.requireQuiet()
}

func TestJobNameIsStableAndValid(t *testing.T) {
	assert.Equal(t, "n-e51ab99a", due.JobName("n", "a", "x"))
	assert.NotEqual(t, due.JobName("n", "a", "x"), due.JobName("n", "b", "x"))
	assert.NotEqual(t, due.JobName("n", "a", "x"), due.JobName("n", "a", "y"))
	long := due.JobName(strings.Repeat("a", 243)+".b.c.d.e.f", "a", "x")
	assert.LessOrEqual(t, len(long), 253)
	assert.NotContains(t, long, ".-")
}

// A cache that does not show the queued job yet cannot queue it twice.
func TestStaleCacheQueuesOnce(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	f, err := w.planner.gather(t.Context(), node)
	require.NoError(t, err)
	f.QuietPeriod = 0
	d := due.Decide(f)
	require.NoError(t, w.planner.queue(t.Context(), d.Job.DeepCopy()))
	require.True(t, apierrors.IsAlreadyExists(w.planner.queue(t.Context(), d.Job)))
	assert.Len(t, w.jobs(), 1)
	w.requireQuiet()
}

// R000-29: after a success nothing is asked for again, and an error is returned, so that the queue backs off.
func TestAReconcilerIsQuietAfterSuccessAndReturnsItsErrors(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	base := w.planner.client
	refused := errors.New("etcd is full")
	creates := 0
	w.race(interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		creates++
		return refused
	}})
	w.clock = w.clock.Add(w.reconcile().RequeueAfter)
	for attempt := range 3 {
		result, err := w.planner.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: node}})
		require.ErrorIs(t, err, refused)
		assert.Zero(t, result)
		assert.Equal(t, attempt+1, creates, "one attempt a call")
	}
	w.planner.client = base
	w.settle()
	require.NotNil(t, w.queued())
	for range 3 {
		assert.Zero(t, w.reconcile(), "the job wakes the node, no timer does")
	}
	assert.Len(t, w.jobs(), 1)
}
