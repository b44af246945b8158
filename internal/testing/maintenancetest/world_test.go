package maintenancetest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// NodeName is the Node that the contract takes out of service. The World has none yet.
const NodeName = "n1"

// World is one implementation in front of a real API server.
type World struct {
	// Client is an administrator's, and reads from the API server.
	Client client.Client
	// Window returns the window of a daemon that has just started.
	Window func() maintenance.Window
	// Step lets the other side work once; nil where it works by itself. Restart ends and starts it; nil where it keeps nothing in memory.
	Step    func(ctx context.Context) error
	Restart func()
	// Was is what a daemon remembers of the cordon of the maintenance that its job has; nil where the implementation needs no memory.
	Was *maintenance.Cordon
	// Force removes the maintenance by force, as a person can; nil where it is no object of its own.
	Force func()
}

// patience is how long the other side may take; the maintenance-operator looks every ten seconds, and twice for a drain.
const patience = 2 * time.Minute

// scene is a World with a Node, and what the contract asks of them.
type scene struct {
	*testing.T
	World
	window maintenance.Window
}

func newScene(t *testing.T, w World) *scene {
	// The API server tells who changes what of an object only where it was made with something to own, as a kubelet does.
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName, Labels: map[string]string{corev1.LabelHostname: NodeName}}}
	require.NoError(t, w.Client.Create(t.Context(), n))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	require.NoError(t, w.Client.Status().Update(t.Context(), n))
	return &scene{T: t, World: w, window: w.Window()}
}

func (s *scene) schedule() { s.Helper(); s.ask(s.window.Schedule) }
func (s *scene) release()  { s.Helper(); s.ask(s.window.Release) }

// ask asks again where the other side has changed the same object meanwhile, as the daemon does.
func (s *scene) ask(what func(context.Context) error) {
	s.Helper()
	err := what(s.Context())
	for apierrors.IsConflict(err) {
		err = what(s.Context())
	}
	require.NoError(s, err)
}

func (s *scene) state() maintenance.State {
	s.Helper()
	state, err := s.window.State(s.Context())
	require.NoError(s, err)
	return state
}

// restart is a daemon and another side that know nothing but what the API holds.
func (s *scene) restart() {
	s.window = s.World.Window()
	if s.World.Restart != nil {
		s.World.Restart()
	}
}

// becomes waits until the window is in the phase, and asks once more for what is asked for again and again. Pods that were evicted
// end meanwhile.
func (s *scene) becomes(phase step.Maintenance) maintenance.State {
	s.Helper()
	state := s.until(fmt.Sprintf("phase %d", phase), func(state maintenance.State) bool { return state.Phase == phase })
	if phase == step.MaintenanceReady && s.Was != nil {
		*s.Was = state.Cordon
	}
	return state
}

// returned asks for the return again and again, until there is no maintenance any more.
func (s *scene) returned() maintenance.State {
	s.Helper()
	return s.until("the end", func(state maintenance.State) bool {
		s.release()
		return state.Phase == step.MaintenanceNone
	})
}

// leftAlone requires that the node is asked for in vain, and that the message says so.
func (s *scene) leftAlone(says string) {
	s.Helper()
	before := s.node()
	s.schedule()
	s.until("the reason", func(state maintenance.State) bool {
		require.NotEqual(s, step.MaintenanceReady, state.Phase)
		return strings.Contains(state.Message, says)
	})
	for range 5 {
		s.schedule()
		if s.Step != nil {
			require.NoError(s, s.Step(s.Context()))
		}
		require.NotEqual(s, step.MaintenanceReady, s.state().Phase)
	}
	after := s.node()
	assert.Equal(s, before.Spec, after.Spec, "nothing is done to it")
}

// change edits the Node as a person or another product does.
func (s *scene) change(edit func(*corev1.Node)) {
	s.Helper()
	n := s.node()
	before := n.DeepCopy()
	edit(n)
	require.NoError(s, s.Client.Patch(s.Context(), n, client.MergeFrom(before)))
}

func (s *scene) until(what string, is func(maintenance.State) bool) maintenance.State {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s.endPods(ctx)
		state := s.state()
		if is(state) {
			return state
		}
		if s.Step != nil {
			require.NoError(s, s.Step(ctx))
		}
		select {
		case <-ctx.Done():
			require.FailNow(s, "waited in vain", "for %s; it is %d: %s", what, state.Phase, state.Message)
		case <-tick.C:
		}
	}
}

// works lets the other side work for a while, and requires that the phase stays.
func (s *scene) stays(phase step.Maintenance) {
	s.Helper()
	for range 5 {
		if s.Step != nil {
			require.NoError(s, s.Step(s.Context()))
		}
		require.Equal(s, phase, s.state().Phase, s.state().Message)
	}
}

// pod records a pod on the node.
func (s *scene) pod(name string, change func(*corev1.Pod)) {
	s.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{"name": name}},
		Spec: corev1.PodSpec{
			NodeName: NodeName, TerminationGracePeriodSeconds: ptr.To(int64(1)), Containers: []corev1.Container{{Name: "main", Image: "simulated"}},
		},
	}
	change(p)
	phase := p.Status.Phase
	require.NoError(s, s.Client.Create(s.Context(), p))
	if phase != "" {
		p.Status.Phase = phase
		require.NoError(s, s.Client.Status().Update(s.Context(), p))
	}
}

// exists reports whether a pod is there and not ending.
func (s *scene) exists(name string) bool {
	s.Helper()
	var p corev1.Pod
	err := s.Client.Get(s.Context(), podKey(name), &p)
	require.NoError(s, client.IgnoreNotFound(err))
	return err == nil && p.DeletionTimestamp == nil
}

// endPods does what the kubelet does for pods that are to end.
func (s *scene) endPods(ctx context.Context) {
	s.Helper()
	var pods corev1.PodList
	require.NoError(s, s.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": NodeName}))
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil {
			require.NoError(s, client.IgnoreNotFound(s.Client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))))
		}
	}
}

func (s *scene) node() *corev1.Node {
	s.Helper()
	n := &corev1.Node{}
	require.NoError(s, s.Client.Get(s.Context(), client.ObjectKey{Name: NodeName}, n))
	return n
}

// cordon does by hand what a person does.
func (s *scene) cordon(is bool) {
	s.Helper()
	body := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, is)
	require.NoError(s, s.Client.Patch(s.Context(), s.node(), client.RawPatch("application/merge-patch+json", []byte(body)), client.FieldOwner("kubectl-cordon")))
}

func (s *scene) requireCordoned(is bool) {
	s.Helper()
	assert.Equal(s, is, s.node().Spec.Unschedulable, "cordoned")
}

// daemonSet makes the owner of a pod that no drain takes away.
func (s *scene) daemonSet(name string) metav1.OwnerReference {
	s.Helper()
	labels := map[string]string{"app": name}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "simulated"}}},
		}},
	}
	if err := s.Client.Create(s.Context(), ds); !apierrors.IsAlreadyExists(err) {
		require.NoError(s, err)
	}
	require.NoError(s, s.Client.Get(s.Context(), client.ObjectKeyFromObject(ds), ds))
	s.Cleanup(func() { _ = s.Client.Delete(context.WithoutCancel(s.Context()), ds) })
	return owner("DaemonSet", ds)
}

func owner(kind string, o client.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: ptr.To(true)}
}

func podKey(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}
}
