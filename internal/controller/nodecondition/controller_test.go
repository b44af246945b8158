package nodecondition

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	settings "github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/trim"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// cluster is a cluster of one node, whose kubelet and daemon are played.
type cluster struct {
	*testing.T
	*apitest.Env
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t, apitest.New(t)}
	require.NoError(t, c.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	c.kubelet("first")
	require.NoError(t, c.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	return c
}

// start runs the controller until the function that it returns is called, or the test ends.
func (c *cluster) start(kinds ...string) (stop func()) {
	skip := true
	mgr, err := ctrl.NewManager(c.Config, ctrl.Options{
		Scheme: c.Scheme, Cache: cache.Options{DefaultTransform: trim.Object}, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
	})
	require.NoError(c, err)
	require.NoError(c, index.Register(c.Context(), mgr.GetFieldIndexer()))
	require.NoError(c, SetupWithManager(mgr, kinds))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.NoError(c, mgr.Start(ctx))
	}()
	stop = func() {
		cancel()
		<-done
	}
	c.Cleanup(stop)
	return stop
}

// kubelet writes the node's own condition as a kubelet does: its own part of the list and nothing else.
func (c *cluster) kubelet(message string) {
	c.Helper()
	body := `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","message":"` + message + `"}]}}`
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	require.NoError(c, c.Client.Status().Patch(c.Context(), n, client.RawPatch(types.StrategicMergePatchType, []byte(body)), client.FieldOwner("kubelet")))
}

// report writes what the daemon says of the node.
func (c *cluster) report(f status.NodeFacts) {
	c.Helper()
	f.Node = "n1"
	s := v1alpha1.NodeFirmwareStatus{Conditions: status.Node(f, nil, 1, time.Now())}
	require.NoError(c, fieldset.ApplyNode(c.Context(), c.Client, "n1", s))
}

func (c *cluster) read() *corev1.Node {
	c.Helper()
	n := &corev1.Node{}
	require.NoError(c, c.Client.Get(c.Context(), client.ObjectKey{Name: "n1"}, n))
	return n
}

// said is what the Node says: the status and the reason of each of the product's conditions.
func (c *cluster) said() map[corev1.NodeConditionType]string {
	c.Helper()
	out := map[corev1.NodeConditionType]string{}
	for _, is := range ours(c.read()) {
		out[is.Type] = string(is.Status) + " " + is.Reason
	}
	return out
}

func (c *cluster) await(want map[corev1.NodeConditionType]string) {
	c.Helper()
	require.EventuallyWithT(c, func(t *assert.CollectT) { assert.Equal(t, want, c.said()) }, 2*time.Minute, 20*time.Millisecond)
}

func compliant(said string) map[corev1.NodeConditionType]string {
	return map[corev1.NodeConditionType]string{v1alpha1.ConditionFirmwareCompliant: said}
}

func device(kind, reason string) status.DeviceSummary {
	c := []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "Played.", LastTransitionTime: metav1.Now()}}
	return status.DeviceSummary{Name: "n1-nic-1", Assigned: true, Conditions: c}
}

var (
	runs   = status.NodeFacts{Devices: []status.DeviceSummary{device(v1alpha1.ConditionReady, v1alpha1.ReasonUpToDate)}}
	waits  = status.NodeFacts{Devices: []status.DeviceSummary{device(v1alpha1.ConditionReconciling, v1alpha1.ReasonPending)}}
	works  = status.NodeFacts{Working: "Job j is at step flash.", Devices: waits.Devices}
	broken = status.NodeFacts{Devices: []status.DeviceSummary{device(v1alpha1.ConditionStalled, v1alpha1.ReasonWriteFailed)}}
)

func TestNodeSaysWhetherItRunsItsFirmware(t *testing.T) {
	c := newCluster(t)
	stop := c.start(settings.NodeConditionsCompliance)
	c.report(waits)
	c.await(compliant("False OutOfDate"))
	first := c.read()
	c.report(works)
	c.report(runs)
	c.await(compliant("True UpToDate"))
	c.kubelet("second")
	c.report(broken)
	c.await(compliant("False WriteFailed"))
	n := c.read()
	require.Len(t, n.Status.Conditions, 2, "what the kubelet says stays")
	assert.Equal(t, "second", n.Status.Conditions[0].Message)
	assert.Equal(t, first.Spec, n.Spec)

	stop()
	c.report(runs) // while no operator is there
	require.NoError(t, c.Client.Status().Patch(t.Context(), n, client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`))))
	stop = c.start(settings.NodeConditionsCompliance)
	c.await(compliant("True UpToDate"))

	stop()
	c.start() // its owner wants nothing said
	c.await(map[corev1.NodeConditionType]string{})
}

// An operator that was away while a job was admitted has not seen that the node fell behind: devices say it.
func TestANodeThatIsFlashedIsNotCompliant(t *testing.T) {
	c := newCluster(t)
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n1-nic-1"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n1"}}
	require.NoError(t, c.Client.Create(t.Context(), d))
	d.Status.Firmware = &v1alpha1.ObservedFirmware{Running: "1.0"}
	require.NoError(t, c.Client.Status().Update(t.Context(), d))
	desire := func(version string) {
		t.Helper()
		d.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: version, Downgrade: v1alpha1.DowngradeForbid, Policy: v1alpha1.PolicyApply}
		d.Spec.Origin = []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", UID: "x", Rule: "r"}}
		require.NoError(t, c.Client.Update(t.Context(), d))
	}
	desire("1.0")
	stop := c.start(settings.NodeConditionsCompliance)
	c.report(runs)
	c.await(compliant("True UpToDate"))

	stop()
	desire("2.0")
	c.report(works)
	stop = c.start(settings.NodeConditionsCompliance)
	c.await(compliant("False OutOfDate"))

	d.Status.Firmware.Running = "2.0"
	require.NoError(t, c.Client.Status().Update(t.Context(), d))
	c.report(status.NodeFacts{Working: "Job j is at step health."})
	c.report(runs)
	c.await(compliant("True UpToDate"))
	stop()
	c.report(status.NodeFacts{Working: "Job k is at step restart-device."})
	r := New(c.Client, time.Now, []string{settings.NodeConditionsCompliance})
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n1"}})
	require.NoError(t, err)
	assert.Equal(t, compliant("True UpToDate"), c.said(), "a job that changes no firmware changes nothing of that")
}

func TestNodeSaysNothingWithoutNodeFirmware(t *testing.T) {
	c := newCluster(t)
	c.start(settings.NodeConditionsCompliance)
	c.report(runs)
	c.await(compliant("True UpToDate"))
	require.NoError(t, c.Client.Delete(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	c.await(map[corev1.NodeConditionType]string{})
}

// The operator is killed at each stage of a maintenance, and what it says then is right again when it is back: above all that nothing
// is left of a job that has ended.
func TestNodeSaysHowFarItsMaintenanceIs(t *testing.T) {
	c := newCluster(t)
	n := c.read()
	stop := func() {}
	during := func(what string, change func(), want map[corev1.NodeConditionType]string) {
		t.Helper()
		stop()
		change()
		stop = c.start(settings.NodeConditionsLifecycle)
		require.EventuallyWithT(t, func(t *assert.CollectT) { assert.Equal(t, want, c.said(), what) }, 2*time.Minute, 20*time.Millisecond)
	}
	says := func(types ...corev1.NodeConditionType) map[corev1.NodeConditionType]string {
		out := map[corev1.NodeConditionType]string{}
		for _, kind := range types {
			out[kind] = "True " + v1alpha1.LifecycleReason
		}
		return out
	}
	job := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: "n1", Task: v1alpha1.JobTask{
		Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}},
	}}}
	report := func(kind, reason string, is metav1.ConditionStatus) {
		t.Helper()
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job))
		meta.SetStatusCondition(&job.Status.Conditions, metav1.Condition{Type: kind, Reason: reason, Status: is})
		require.NoError(t, c.Client.Status().Update(t.Context(), job))
	}
	answer := func(state v1alpha1.MaintenanceState) {
		t.Helper()
		require.NoError(t, fieldset.ApplyMaintenance(t.Context(), c.Client, "n1", v1alpha1.MaintenanceAnswer{RequestID: "1", State: state, NodeUID: string(n.UID)}))
	}
	cordon := func(is bool) {
		t.Helper()
		n.Spec.Unschedulable = is
		require.NoError(t, c.Client.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, is))))
	}

	during("queued", func() { require.NoError(t, c.Client.Create(t.Context(), job)) }, says())
	during("admitted", func() { report(v1alpha1.ConditionAdmitted, v1alpha1.ReasonAdmitted, "True") }, says(v1alpha1.ConditionMaintenancePlanned))
	during("draining", func() {
		require.NoError(t, fieldset.ApplyMaintenanceRequest(t.Context(), c.Client, "n1", v1alpha1.MaintenanceRequest{ID: "1", Type: v1alpha1.MaintenanceDrain}))
		cordon(true)
		answer(v1alpha1.MaintenanceDraining)
	}, says(v1alpha1.ConditionMaintenancePlanned, v1alpha1.ConditionDrainInProgress))
	during("drained", func() { answer(v1alpha1.MaintenanceDrained) }, says(v1alpha1.ConditionDrained, v1alpha1.ConditionMaintenanceInProgress))
	admin := `{"status":{"conditions":[{"type":"MaintenancePlanned","status":"True","reason":"AdminRequested"}]}}`
	require.NoError(t, c.Client.Status().Patch(t.Context(), c.read(), client.RawPatch(types.StrategicMergePatchType, []byte(admin)), client.FieldOwner("admin")))
	during("the job has ended", func() { report(v1alpha1.ConditionComplete, v1alpha1.ReasonSucceeded, "True") }, says())
	assert.NotNil(t, condition(c.read().Status.Conditions, v1alpha1.ConditionMaintenancePlanned), "what somebody else says stays")

	// And the same again while it runs.
	job = &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "k"}, Spec: job.Spec}
	require.NoError(t, c.Client.Create(t.Context(), job))
	report(v1alpha1.ConditionAdmitted, v1alpha1.ReasonAdmitted, "True")
	c.await(says(v1alpha1.ConditionDrained, v1alpha1.ConditionMaintenanceInProgress))
	cordon(false)
	c.await(says())
	cordon(true)
	c.await(says(v1alpha1.ConditionDrained, v1alpha1.ConditionMaintenanceInProgress))
	require.NoError(t, c.Client.Delete(t.Context(), job))
	c.await(says())
}

// counting is a client that counts writes of Nodes.
type counting struct {
	client.Client
	writes int
}

func (c *counting) Status() client.SubResourceWriter { return &countingStatus{c.Client.Status(), c} }

type countingStatus struct {
	client.SubResourceWriter
	of *counting
}

func (s *countingStatus) Apply(ctx context.Context, body runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	s.of.writes++
	return s.SubResourceWriter.Apply(ctx, body, opts...)
}

// An update is two writes of the Node, whatever its job says in between, and a heartbeat of the kubelet is none.
func TestAnUpdateIsTwoWrites(t *testing.T) {
	c := newCluster(t)
	counted := &counting{Client: c.Client}
	r := New(counted, time.Now, []string{settings.NodeConditionsCompliance})
	look := func(f status.NodeFacts, want int, why string) {
		t.Helper()
		c.report(f)
		for range 2 {
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n1"}})
			require.NoError(t, err)
		}
		assert.Equal(t, want, counted.writes, why)
	}
	look(runs, 1, "the first report")
	c.kubelet("again")
	look(runs, 1, "at rest")
	look(waits, 2, "it is behind")
	for _, working := range []string{"Job j is at step flash.", "Job j is at step reboot."} {
		look(status.NodeFacts{Working: working, Devices: waits.Devices}, 2, working)
	}
	look(runs, 3, "it is done")
}
