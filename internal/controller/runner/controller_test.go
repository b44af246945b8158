package runner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/cacheview"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const namespace = "node-firmware-system"

// world is a cluster with two Nodes, the DaemonSet of the manifests, and the reconciler.
type world struct {
	*testing.T
	client.Client
	r      *Reconciler
	events *events.FakeRecorder
	// refuse is what the API server says to every pod.
	refuse error
}

// manifest is the DaemonSet as it is deployed, with the update strategy.
func manifest(t *testing.T, strategy string) *appsv1.DaemonSet {
	t.Helper()
	objects, err := deploy.Objects(deploy.Daemon)
	require.NoError(t, err)
	var ds appsv1.DaemonSet
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, &ds))
	env := ds.Spec.Template.Spec.Containers[0].Env
	at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "UPDATE_STRATEGY" })
	require.GreaterOrEqual(t, at, 0)
	require.Equal(t, "daemon", env[at].Value)
	env[at].Value = strategy
	return &ds
}

func newWorld(t *testing.T, handlers Handlers, objects ...client.Object) *world {
	t.Helper()
	scheme, err := apitest.Scheme()
	require.NoError(t, err)
	require.NoError(t, appsv1.AddToScheme(scheme))
	w := &world{T: t, events: events.NewFakeRecorder(100)}
	for _, name := range []string{node, "gpu-2"} {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	inner := fake.NewClientBuilder().WithScheme(scheme).
		WithTypeConverters(apitest.TypeConverter(t), managedfields.NewDeducedTypeConverter()).WithObjects(objects...).WithStatusSubresource(&v1alpha1.FirmwareJob{}).
		WithIndex(&v1alpha1.FirmwareJob{}, index.NodeName, index.ByNode).WithIndex(&corev1.Pod{}, index.NodeName, index.ByNode).Build()
	w.Client = interceptor.NewClient(inner, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if w.refuse != nil {
			return w.refuse
		}
		return c.Create(ctx, o, opts...)
	}})
	w.r = New(cacheview.Client{Client: w}, w, w.events, namespace, "firmware-daemon", handlers, func() time.Time { return clock })
	return w
}

func (w *world) reconcile() error {
	_, err := w.r.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: node}})
	return err
}

func (w *world) pods() []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	require.NoError(w, w.List(w.Context(), &list))
	return list.Items
}

func (w *world) job(name string) *v1alpha1.FirmwareJob {
	w.Helper()
	j := &v1alpha1.FirmwareJob{}
	require.NoError(w, w.Get(w.Context(), client.ObjectKey{Name: name}, j))
	return j
}

// Which job a node is in the middle of is what its daemon says. One that lies must not keep another node's job from its pod.
func TestANodeCannotTakeTheNameOfThePodOfAnothersJob(t *testing.T) {
	liar, foreign := nodeFirmware(), fwjob("gpu-2-bbbb", admitted)
	liar.Status.CurrentStep = &v1alpha1.CurrentStep{Job: "gpu-2-bbbb", Name: "flash"}
	foreign.Spec.NodeName = "gpu-2"
	victim := nodeFirmware()
	victim.Name, victim.UID = "gpu-2", "other-uid"
	w := newWorld(t, Handlers{{Image: image}}, liar, victim, &foreign, manifest(t, "pod"))
	require.NoError(t, w.reconcile())
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "gpu-2"}})
	require.NoError(t, err)
	nodes := map[string]string{}
	for _, p := range w.pods() {
		nodes[p.Spec.NodeName] = p.Name
	}
	assert.Equal(t, "firmware-job-gpu-2-bbbb", nodes["gpu-2"])
}

func TestAJobPodIsLikeTheDaemonsExceptForWhatItIs(t *testing.T) { // R000-60
	job := fwjob("gpu-1-aaaa", admitted)
	ds := manifest(t, "pod")
	w := newWorld(t, Handlers{{Vendor: "Lenovo", Image: image, Args: []string{"--log-level=debug"}}}, nodeFirmware(), &job, ds)
	require.NoError(t, w.reconcile())
	require.Len(t, w.pods(), 1)
	p := w.pods()[0]
	assert.Equal(t, namespace, p.Namespace)
	assert.Equal(t, "firmware-job-gpu-1-aaaa", p.Name)
	assert.Equal(t, "uid-gpu-1-aaaa", p.Labels[v1alpha1.JobPodLabel])
	assert.Equal(t, "gpu-1-aaaa", p.Annotations[jobAnnotation])
	owner := metav1.GetControllerOf(&p)
	require.NotNil(t, owner)
	assert.Equal(t, "NodeFirmware", owner.Kind, "who deletes a job does not end what it began")
	selected, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
	require.NoError(t, err)
	assert.False(t, selected.Matches(labels.Set(p.Labels)), "the DaemonSet does not take it for one of its own")

	template := ds.Spec.Template.Spec
	daemon, c := template.Containers[0], p.Spec.Containers[0]
	require.Len(t, p.Spec.Containers, 1)
	assert.Equal(t, image, c.Image)
	assert.Equal(t, []string{"job", "--name=gpu-1-aaaa"}, c.Args[:2])
	assert.Equal(t, daemon.Args[1:], c.Args[2:2+len(daemon.Args)-1], "the arguments of the daemon")
	assert.Equal(t, "--log-level=debug", p.Annotations[handlerArgsAnnotation], "an admission policy compares it with the file")
	assert.Equal(t, []string{"--log-level=debug", "--health-probe-bind-address=0", "--metrics-bind-address=0"}, c.Args[1+len(daemon.Args):])
	assert.Equal(t, daemon.VolumeMounts, c.VolumeMounts)
	assert.Equal(t, daemon.SecurityContext, c.SecurityContext)
	assert.Equal(t, daemon.Env, c.Env)
	assert.Nil(t, c.LivenessProbe, "nobody listens in it")
	assert.Equal(t, node, p.Spec.NodeName, "no scheduler is asked about a node that is cordoned")
	assert.Equal(t, corev1.RestartPolicyOnFailure, p.Spec.RestartPolicy)
	p.Spec.NodeName, p.Spec.RestartPolicy, p.Spec.Containers = "", "", template.Containers
	assert.Equal(t, template, p.Spec, "all else is the daemon's: volumes, account, namespaces of the host, grace period, priority, tolerations")
	assert.Contains(t, <-w.events.Events, v1alpha1.ReasonProgressing)

	require.NoError(t, w.reconcile())
	assert.Len(t, w.pods(), 1, "R000-54")
	apitest.RequireStatus(t, w.job("gpu-1-aaaa"), status.InProgressStatus)
}

// The NodeFirmware and the job outlive their Node, and the cluster removes every pod that is made for it.
func TestANodeThatIsGoneGetsNoPodUntilItIsBack(t *testing.T) {
	job := fwjob("gpu-1-aaaa", admitted, started)
	w := newWorld(t, Handlers{{Image: image}}, nodeFirmware(), &job, manifest(t, "pod"))
	gone := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	require.NoError(t, w.Delete(t.Context(), gone))
	require.NoError(t, w.reconcile())
	assert.Empty(t, w.pods())
	assert.Empty(t, w.events.Events)
	require.NoError(t, w.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	require.NoError(t, w.reconcile())
	assert.Len(t, w.pods(), 1)
}

// TestAJobOfAMachineWithoutHandlerFailsAndSaysWhatToDo proves R000-60.
func TestAJobOfAMachineWithoutHandlerFailsAndSaysWhatToDo(t *testing.T) {
	waiting, begun := fwjob("waiting", admitted), fwjob("begun", admitted, started)
	w := newWorld(t, Handlers{{Vendor: "Dell", Image: image}}, nodeFirmware(), &waiting, manifest(t, "pod"))
	require.NoError(t, w.reconcile())
	assert.Empty(t, w.pods())
	j := w.job("waiting")
	c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionFailed)
	require.NotNil(t, c)
	assert.Equal(t, v1alpha1.ReasonNoRunner, c.Reason)
	for _, want := range []string{`machine "Lenovo 7X21" of node gpu-1`, "--pod-handlers", "planned again automatically"} {
		assert.Contains(t, c.Message, want)
	}
	assert.NotNil(t, j.Status.CompletionTime)
	assert.True(t, meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionAdmitted), "the condition is the rollout's")
	assert.Contains(t, <-w.events.Events, v1alpha1.ReasonNoRunner)
	apitest.RequireStatus(t, j, status.FailedStatus)

	require.NoError(t, w.Create(t.Context(), &begun))
	require.NoError(t, w.Status().Update(t.Context(), &begun))
	require.NoError(t, w.reconcile())
	assert.False(t, meta.IsStatusConditionTrue(w.job("begun").Status.Conditions, v1alpha1.ConditionFailed), "what has begun is not declared over")
	assert.Contains(t, <-w.events.Events, "cannot continue")
}

func TestAPodThatCannotBeMadeIsReportedAndTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		daemon *appsv1.DaemonSet
		refuse error
		want   string
	}{
		"the daemons execute jobs themselves": {manifest(t, "daemon"), nil, "--update-strategy=daemon and the operator with pod"},
		"there is no DaemonSet":               {nil, nil, "not found"},
		"a quota":                             {manifest(t, "pod"), errors.New("exceeded quota"), "exceeded quota"},
	} {
		t.Run(name, func(t *testing.T) {
			job := fwjob("a", admitted)
			w := newWorld(t, Handlers{{Image: image}}, nodeFirmware(), &job)
			if c.daemon != nil {
				require.NoError(t, w.Create(t.Context(), c.daemon))
			}
			w.refuse = c.refuse
			require.ErrorContains(t, w.reconcile(), c.want)
			assert.Empty(t, w.pods())
			event := <-w.events.Events
			assert.Contains(t, event, v1alpha1.ReasonNoRunner)
			assert.Contains(t, event, c.want)
			apitest.RequireStatus(t, w.job("a"), status.InProgressStatus)
		})
	}
}

func TestPodNamesAreValidAndOneAJob(t *testing.T) {
	long := slices.Repeat([]string{"0123456789"}, 25)
	one, other := "", ""
	for _, s := range long {
		one, other = one+s, other+s
	}
	one, other = one+"a", other+"b"
	assert.Len(t, podName(node, one, "uid"), maxPodName)
	assert.NotEqual(t, podName(node, one, "uid"), podName(node, other, "uid"))
}
