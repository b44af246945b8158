package cleaning

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/trim"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// cluster is a cluster of one node, whose kubelet and daemon are played, and of a policy for it.
type cluster struct {
	*testing.T
	*apitest.Env
	events *events.FakeRecorder
}

// foreign is a taint that is no business of this product.
var foreign = corev1.Taint{Key: "example.com/gpu", Value: "a", Effect: corev1.TaintEffectNoSchedule}

func newCluster(t *testing.T, taints ...corev1.Taint) *cluster {
	c := &cluster{t, apitest.New(t), events.NewFakeRecorder(100)}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"pool": "storage"}}, Spec: corev1.NodeSpec{Taints: append(taints, foreign)}}
	require.NoError(t, c.Client.Create(t.Context(), n))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	require.NoError(t, c.Client.Status().Update(t.Context(), n))
	require.NoError(t, c.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	p := policy("storage", map[string]string{"pool": "storage"})
	require.NoError(t, c.Client.Create(t.Context(), &p))
	return c
}

// start runs the operator's part until the function that it returns is called, or the test ends.
func (c *cluster) start() (stop func()) {
	skip := true
	mgr, err := ctrl.NewManager(c.Config, ctrl.Options{
		Scheme: c.Scheme, Cache: cache.Options{DefaultTransform: trim.Object}, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
	})
	require.NoError(c, err)
	require.NoError(c, index.Register(c.Context(), mgr.GetFieldIndexer()))
	require.NoError(c, New(mgr.GetClient(), mgr.GetAPIReader(), c.events, time.Now).SetupWithManager(mgr))
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

// report is what the daemon says of a node with one device that is at its target.
func (c *cluster) report() {
	c.Helper()
	ready := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNotAssigned, LastTransitionTime: metav1.Now()}}
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n1-nic-1"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n1"}}
	if err := c.Client.Create(c.Context(), d); !apierrors.IsAlreadyExists(err) {
		require.NoError(c, err)
	}
	require.NoError(c, c.Client.Get(c.Context(), client.ObjectKeyFromObject(d), d))
	inspected := metav1.Condition{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, LastTransitionTime: metav1.Now()}
	require.NoError(c, fieldset.ApplyObservation(c.Context(), c.Client, d.Name, v1alpha1.NodeDeviceStatus{
		ObservedGeneration: d.Generation, Class: v1alpha1.ClassNIC, PCIID: "15b3:101d", UniqueID: "nic", Conditions: append(ready, inspected),
		Firmware: &v1alpha1.ObservedFirmware{Running: "1.0", Driver: "mstflint"},
	}))
	require.NoError(c, fieldset.ApplyNode(c.Context(), c.Client, "n1", v1alpha1.NodeFirmwareStatus{ObservedGeneration: 1, LastScanTime: ptr.To(metav1.Now()), Conditions: ready}))
}

// service takes the node out of service, or returns it.
func (c *cluster) service(is v1alpha1.NodeService, release string) error {
	c.Helper()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n := &v1alpha1.NodeFirmware{}
		require.NoError(c, c.Client.Get(c.Context(), client.ObjectKey{Name: "n1"}, n))
		n.Spec.Service, n.Spec.Requests.Release = is, release
		return c.Client.Update(c.Context(), n)
	})
}

func (c *cluster) edit(change func(*corev1.Node)) {
	c.Helper()
	require.Eventually(c, func() bool {
		n := c.node()
		change(n)
		return c.Client.Update(c.Context(), n) == nil
	}, time.Minute, 10*time.Millisecond)
}

func (c *cluster) node() *corev1.Node {
	c.Helper()
	n := &corev1.Node{}
	require.NoError(c, c.Client.Get(c.Context(), client.ObjectKey{Name: "n1"}, n))
	return n
}

// clean is the condition Clean; empty for none.
func (c *cluster) clean() string {
	c.Helper()
	n := &v1alpha1.NodeFirmware{}
	require.NoError(c, c.Client.Get(c.Context(), client.ObjectKey{Name: "n1"}, n))
	if is := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionClean); is != nil {
		return string(is.Status) + " " + is.Reason
	}
	return ""
}

// await waits until the node says that it is clean so, and bears that taint of the product, "" for none.
func (c *cluster) await(clean, key string) {
	c.Helper()
	require.EventuallyWithT(c, func(t *assert.CollectT) {
		assert.Equal(t, clean, c.clean())
		var keys []string
		for _, has := range c.node().Spec.Taints {
			if strings.HasPrefix(has.Key, "nodefirmware.io/") {
				keys = append(keys, has.Key)
			}
		}
		assert.Equal(t, key, strings.Join(keys, " "))
	}, 2*time.Minute, 20*time.Millisecond)
	assert.Contains(c, c.node().Spec.Taints, foreign, "taints of others stay")
}

// job waits for the newest job of the policy, beside those that are known.
func (c *cluster) job(known ...*v1alpha1.FirmwareJob) *v1alpha1.FirmwareJob {
	c.Helper()
	var found *v1alpha1.FirmwareJob
	require.Eventually(c, func() bool {
		var jobs v1alpha1.FirmwareJobList
		require.NoError(c, c.Client.List(c.Context(), &jobs))
		if len(jobs.Items) != len(known)+1 {
			return false
		}
		for i := range jobs.Items {
			isKnown := false
			for _, k := range known {
				isKnown = isKnown || k.Name == jobs.Items[i].Name
			}
			if !isKnown {
				found = &jobs.Items[i]
			}
		}
		return true
	}, 2*time.Minute, 20*time.Millisecond)
	return found
}

// plays has the daemon say that of a job.
func (c *cluster) plays(j *v1alpha1.FirmwareJob, kinds ...string) {
	c.Helper()
	require.NoError(c, c.Client.Get(c.Context(), client.ObjectKeyFromObject(j), j))
	j.Status.StartTime = ptr.To(metav1.Now())
	for _, kind := range append(kinds, v1alpha1.ConditionAdmitted) {
		meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", Message: "Step verify-firmware failed."})
	}
	require.NoError(c, c.Client.Status().Update(c.Context(), j))
}

// R003-2: a new node runs the steps before anything is scheduled on it. It is brought to its target first, and an operator that starts in the
// middle goes on from there.
func TestANewNodeIsProven(t *testing.T) {
	c := newCluster(t, corev1.Taint{Key: v1alpha1.UnverifiedTaint, Effect: corev1.TaintEffectNoSchedule})
	template := &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: "nics"}, Spec: v1alpha1.ConfigurationTemplateSpec{Rules: []v1alpha1.ConfigurationRule{{
		Name: "cx6", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"},
		DesiredConfiguration: v1alpha1.DesiredConfiguration{Settings: v1alpha1.Settings{NumVFs: ptr.To[int32](4)}},
	}}}}
	require.NoError(t, c.Client.Create(t.Context(), template))
	stop := c.start()
	c.await("False NotReporting", v1alpha1.UnverifiedTaint)
	c.report() // the template has not assigned anything yet
	c.await("False Pending", v1alpha1.UnverifiedTaint)
	var jobs v1alpha1.FirmwareJobList
	require.NoError(t, c.Client.List(t.Context(), &jobs))
	assert.Empty(t, jobs.Items, "no step runs before the node is at its target")

	require.NoError(t, c.Client.Delete(t.Context(), template))
	j := c.job()
	assert.Equal(t, []v1alpha1.RequestedStep{{Name: "reset-bios-settings"}, {Name: "verify-firmware"}}, j.Spec.Task.Steps)
	assert.Equal(t, v1alpha1.UnverifiedTaint, c.node().Spec.Taints[0].Key)
	stop()
	c.plays(j)
	stop = c.start()
	c.await("False Progressing", v1alpha1.UnverifiedTaint)
	require.Eventually(t, func() bool { return c.node().Annotations[v1alpha1.CleaningAnnotation] == j.Name }, time.Minute, 20*time.Millisecond)
	stop()
	c.plays(j, v1alpha1.ConditionComplete)
	c.start()
	c.await("", "")
	assert.Empty(t, c.node().Annotations[v1alpha1.CleaningAnnotation])
}

// R003-20, R003-21, R003-37: a request to leave service is answered at once, the steps begin by themselves, and the node is seen to be clean until
// it returns.
func TestANodeOutOfServiceIsCleaned(t *testing.T) {
	c := newCluster(t)
	c.report()
	c.start()
	require.NoError(t, c.service(v1alpha1.NodeOutOfService, ""))
	c.await("False Pending", v1alpha1.OutOfServiceTaint)
	j := c.job()
	c.plays(j)
	c.await("False Progressing", v1alpha1.OutOfServiceTaint)
	err := c.service(v1alpha1.NodeInService, "now")
	assert.ErrorContains(t, err, "steps run on the node", "R003-31: nothing changes that while they run")
	c.plays(j, v1alpha1.ConditionComplete)
	c.await("True Succeeded", v1alpha1.OutOfServiceTaint)
	require.Eventually(t, func() bool {
		p := &v1alpha1.CleaningPolicy{}
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: "storage"}, p))
		return p.Status.Nodes == v1alpha1.CleaningNodes{Selected: 1, Clean: 1} && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
	}, time.Minute, 20*time.Millisecond)

	// Who takes the taint off lets in what the next owner must not find.
	c.edit(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{foreign} })
	second := c.job(j)
	c.await("False Pending", v1alpha1.OutOfServiceTaint)
	c.plays(second, v1alpha1.ConditionComplete)
	c.await("True Succeeded", v1alpha1.OutOfServiceTaint)
	require.NoError(t, c.service(v1alpha1.NodeInService, ""))
	c.await("", "")
}

// R003-27, R003-34: a node on which a step failed waits for a person, who has it tried again or returns it as it is.
func TestAFailedStepWaitsForAPerson(t *testing.T) {
	c := newCluster(t)
	c.report()
	c.start()
	require.NoError(t, c.service(v1alpha1.NodeOutOfService, ""))
	j := c.job()
	c.plays(j, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	c.await("False StepFailed", v1alpha1.OutOfServiceTaint)
	assert.ErrorContains(t, c.service(v1alpha1.NodeInService, ""), "the node is not clean")
	require.NoError(t, c.Client.Patch(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"requests":{"retry":"reseated"}}}`))))
	second := c.job(j)
	c.plays(second, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	c.await("False StepFailed", v1alpha1.OutOfServiceTaint)
	require.NoError(t, c.service(v1alpha1.NodeInService, "as it is"))
	c.await("", "")
}

// A node that returns before its job began leaves none behind.
func TestAJobThatIsNotWantedIsWithdrawn(t *testing.T) {
	c := newCluster(t)
	c.report()
	c.start()
	require.NoError(t, c.service(v1alpha1.NodeOutOfService, ""))
	j := c.job()
	c.await("False Pending", v1alpha1.OutOfServiceTaint)
	require.NoError(t, c.service(v1alpha1.NodeInService, "as it is"))
	c.await("", "")
	require.Eventually(t, func() bool {
		err := c.Client.Get(c.Context(), client.ObjectKeyFromObject(j), j)
		if err == nil && j.DeletionTimestamp != nil { // the protection controller lets it go
			_ = fieldset.ReleaseJob(t.Context(), c.Client, j)
		}
		return apierrors.IsNotFound(err)
	}, time.Minute, 20*time.Millisecond)
}

func TestWhoTakesATaintOffIsNoticed(t *testing.T) {
	c := newCluster(t, corev1.Taint{Key: v1alpha1.UnverifiedTaint, Effect: corev1.TaintEffectNoSchedule})
	c.start()
	c.await("False NotReporting", v1alpha1.UnverifiedTaint)
	c.edit(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{foreign} })
	c.await("", "")
	for said := range c.events.Events {
		if strings.Contains(said, "Somebody removed the taint") {
			return
		}
	}
}

// Nothing but a change of the spec, or of what a policy counts, brings a pass: one whose write was refused comes again by itself.
func TestAPolicyThatSomebodyEditedMeanwhileIsCountedAgain(t *testing.T) {
	c := newCluster(t)
	later := policy("too", map[string]string{"pool": "gpu"})
	require.NoError(t, c.Client.Create(t.Context(), &later))
	r := &policies{client: &late{Client: c.Client, edit: "storage"}, now: time.Now}
	selected := func(name string) (out v1alpha1.CleaningPolicyStatus) {
		p := &v1alpha1.CleaningPolicy{}
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: name}, p))
		return p.Status
	}
	result, err := r.Reconcile(t.Context(), all)
	require.NoError(t, err)
	assert.EqualValues(t, -1, selected("storage").ObservedGeneration, "what was written meanwhile is not overwritten")
	assert.EqualValues(t, 1, selected("too").ObservedGeneration, "the others are written all the same")
	assert.Equal(t, again, result.RequeueAfter)

	result, err = r.Reconcile(t.Context(), all)
	require.NoError(t, err)
	assert.EqualValues(t, 1, selected("storage").Nodes.Selected)
	assert.Zero(t, result)
}

// late shows a policy as it was before somebody annotated it, once.
type late struct {
	client.Client
	edit string
}

func (l *late) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.Client.List(ctx, list, opts...)
	if _, is := list.(*v1alpha1.CleaningPolicyList); !is || l.edit == "" || err != nil {
		return err
	}
	p := &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: l.edit}}
	l.edit = ""
	return l.Patch(ctx, p, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/team":"blue"}}}`)))
}
