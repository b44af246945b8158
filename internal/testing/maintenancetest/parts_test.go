package maintenancetest_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Run runs the contract. Each part of it gets a world of its own.
func Run(t *testing.T, world func(*testing.T) World) {
	t.Helper()
	for name, part := range map[string]func(*scene){
		"a node is taken out of service and returned":                             takenAndReturned,
		"every pod is taken away that no DaemonSet keeps there":                   drained,
		"a pod that must not be evicted is waited for and named":                  disruptionBudget,
		"a node that a person cordoned is updated if they let it, and stays so":   cordonedBefore,
		"a node that a person cordons again meanwhile stays cordoned":             cordonedAgain,
		"a node that kured has is left alone":                                     takenBefore,
		"a node that others have meanwhile is returned when they are done":        takenMeanwhile,
		"or when a person uncordons it":                                           takenAndUncordoned,
		"one that they cordoned themselves stays theirs":                          takenAndCordoned,
		"a drain that is called off while others have the node leaves no cordon":  takenInTheDrain,
		"a maintenance removed by force leaves no cordon behind":                  removedByForce,
		"nor does one removed while others have the node":                         removedWhileTaken,
		"nor does one whose job holds the node":                                   removedWhileHeld,
		"one removed before it was ready leaves a cordon, and says so":            removedTooEarly,
		"a node that a person uncordoned is not out of service until asked again": uncordoned,
		"a node that was registered again is not out of service":                  registeredAgain,
		"after a failure the node stays out of service until it is asked again":   failedAndResumed,
		"a drain can be called off":                                               calledOff,
		"a restart changes nothing":                                               restarted,
	} {
		t.Run(name, func(t *testing.T) { part(newScene(t, world(t))) })
	}
}

func takenAndReturned(s *scene) {
	assert.Equal(s, maintenance.State{Phase: step.MaintenanceNone}, s.state())
	s.release()
	assert.Equal(s, step.MaintenanceNone, s.state().Phase, "nothing to release")
	s.schedule()
	s.schedule()
	state := s.becomes(step.MaintenanceReady)
	assert.Equal(s, string(s.node().UID), state.Node)
	s.requireCordoned(true)
	s.schedule()
	s.stays(step.MaintenanceReady)
	s.release()
	s.release()
	assert.Empty(s, s.becomes(step.MaintenanceNone).Message, "there is nothing to say about a node in service")
	s.requireCordoned(false)
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.requireCordoned(true)
}

func drained(s *scene) {
	s.pod("workload", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{owner("ReplicaSet", &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r"}})}
	})
	s.pod("alone", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	s.pod("finished", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	s.pod("orphan", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{owner("DaemonSet", &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "gone", UID: "g"}})}
	})
	kept := s.daemonSet("agent")
	s.pod("agent", func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{kept} })
	s.pod("static", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	s.schedule()
	s.becomes(step.MaintenanceReady)
	for name, stays := range map[string]bool{"workload": false, "alone": false, "finished": false, "orphan": false, "agent": true, "static": true} {
		assert.Equal(s, stays, s.exists(name), name)
	}
}

func disruptionBudget(s *scene) {
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "never"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "db-0"}},
		},
	}
	require.NoError(s, s.Client.Create(s.Context(), pdb))
	s.Cleanup(func() { _ = s.Client.Delete(context.WithoutCancel(s.Context()), pdb) })
	s.pod("db-0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	s.pod("other", func(*corev1.Pod) {})
	s.schedule()
	s.until("the pod to be named, and no other", func(state maintenance.State) bool {
		return state.Phase == step.MaintenanceRequested && strings.Contains(state.Message, "default/db-0") && !s.exists("other") && !strings.Contains(state.Message, "default/other")
	})
	pdb.Status.ObservedGeneration = pdb.Generation // its controller has seen it: from now on the API server refuses at once
	require.NoError(s, s.Client.Status().Update(s.Context(), pdb))
	s.stays(step.MaintenanceRequested)
	assert.True(s, s.exists("db-0"))
	require.NoError(s, s.Client.Delete(s.Context(), pdb))
	s.becomes(step.MaintenanceReady)
	assert.False(s, s.exists("db-0"))
}

func cordonedBefore(s *scene) {
	s.cordon(true)
	s.leftAlone("kubectl annotate node " + NodeName + " nodefirmware.io/update-while-cordoned=true")
	s.change(func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.UpdateWhileCordonedAnnotation: "true"}
	})
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.release()
	state := s.becomes(step.MaintenanceNone)
	assert.Contains(s, state.Message, "stays cordoned")
	s.requireCordoned(true)
}

func cordonedAgain(s *scene) {
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.cordon(false)
	s.cordon(true)
	s.release()
	assert.Contains(s, s.returned().Message, "stays cordoned")
	s.requireCordoned(true)
}

func takenBefore(s *scene) {
	const sign = "weave.works/kured-reboot-in-progress"
	s.change(func(n *corev1.Node) { n.Annotations = map[string]string{sign: "2026-11-23T03:00:00Z"} })
	s.leftAlone("kured (annotation " + sign + ")")
	s.requireCordoned(false)
	s.change(func(n *corev1.Node) { delete(n.Annotations, sign) })
	s.schedule()
	s.becomes(step.MaintenanceReady)
}

// sign taints the Node as another product does, or takes that back.
func (s *scene) sign(is bool) {
	s.Helper()
	s.change(func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint })
		if is {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoSchedule})
		}
	})
}

const taint = "medik8s.io/drain"

// keptFor requires that the node is asked back in vain while the sign is there, and that the message says so.
func (s *scene) keptFor() {
	s.Helper()
	says := "medik8s (taint " + taint + ") has the node too: after the job it stays cordoned until that ends, or until you run: kubectl uncordon " + NodeName
	s.until("the message to name who has the node", func(state maintenance.State) bool {
		s.release()
		return strings.Contains(state.Message, says)
	})
	for range 5 {
		s.release()
		if s.Step != nil {
			require.NoError(s, s.Step(s.Context()))
		}
		state := s.state()
		require.NotEqual(s, step.MaintenanceNone, state.Phase)
		require.Contains(s, state.Message, says)
	}
	s.requireCordoned(true)
}

func takenMeanwhile(s *scene) {
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.sign(true)
	s.keptFor()
	s.restart()
	s.keptFor()
	s.sign(false)
	assert.Empty(s, s.returned().Message)
	s.requireCordoned(false)
}

func takenAndUncordoned(s *scene) {
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.sign(true)
	s.keptFor()
	s.cordon(false)
	s.returned()
	s.requireCordoned(false)
	s.cordon(true)
	s.stays(step.MaintenanceNone)
	s.requireCordoned(true)
}

func takenAndCordoned(s *scene) {
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.sign(true)
	s.keptFor()
	s.cordon(false)
	s.cordon(true)
	assert.Contains(s, s.returned().Message, "medik8s (taint "+taint+")")
	s.sign(false)
	s.stays(step.MaintenanceNone)
	s.requireCordoned(true)
}

func takenInTheDrain(s *scene) {
	s.pod("db-0", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/stays"} })
	s.schedule()
	s.until("the pod to be named", func(state maintenance.State) bool { return strings.Contains(state.Message, "default/db-0") })
	s.sign(true)
	s.keptFor()
	s.sign(false)
	s.returned()
	s.requireCordoned(false)
	s.freePod("db-0")
}

// byForce removes the maintenance as a person can; without an object of its own there is nothing to remove.
func (s *scene) byForce() {
	if s.Force == nil {
		s.Skip("the request is a part of the status of the NodeFirmware, and the cordon is marked on the Node")
	}
	s.Force()
}

func removedByForce(s *scene) {
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.byForce()
	s.requireCordoned(true)
	state := s.state()
	assert.Equal(s, step.MaintenanceEnding, state.Phase)
	assert.Contains(s, state.Message, "removed by force and left the node cordoned")
	s.restart()
	assert.Empty(s, s.returned().Message)
	s.requireCordoned(false)
}

func removedWhileTaken(s *scene) {
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.sign(true)
	s.byForce()
	s.keptFor()
	s.restart()
	s.keptFor()
	s.sign(false)
	assert.Empty(s, s.returned().Message)
	s.requireCordoned(false)
}

func removedWhileHeld(s *scene) {
	s.schedule()
	s.becomes(step.MaintenanceReady)
	require.NoError(s, s.window.Fail(s.Context(), "the write failed"))
	s.byForce()
	s.until("another one", func(maintenance.State) bool {
		require.NoError(s, s.window.Fail(s.Context(), "the write failed"))
		return s.state().Phase == step.MaintenanceRequested
	})
	s.requireCordoned(true)
	s.restart()
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.release()
	assert.Empty(s, s.returned().Message)
	s.requireCordoned(false)
}

func removedTooEarly(s *scene) {
	s.pod("db-0", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/stays"} })
	s.schedule()
	s.until("the pod to be named", func(state maintenance.State) bool { return strings.Contains(state.Message, "default/db-0") })
	s.byForce()
	assert.Contains(s, s.returned().Message, "kubectl uncordon "+NodeName)
	s.requireCordoned(true)
	s.freePod("db-0")
}

// freePod lets a pod end that a finalizer keeps.
func (s *scene) freePod(name string) {
	s.Helper()
	var p corev1.Pod
	err := s.Client.Get(s.Context(), podKey(name), &p)
	if apierrors.IsNotFound(err) {
		return
	}
	require.NoError(s, err)
	p.Finalizers = nil
	require.NoError(s, s.Client.Update(s.Context(), &p))
}

func uncordoned(s *scene) {
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.cordon(false)
	s.stays(step.MaintenanceBroken)
	s.schedule()
	s.until("another drain", func(state maintenance.State) bool {
		if state.Phase == step.MaintenanceNone { // it is asked for again and again
			s.schedule()
		}
		return state.Phase == step.MaintenanceReady
	})
	s.requireCordoned(true)
}

func registeredAgain(s *scene) {
	s.schedule()
	first := s.becomes(step.MaintenanceReady)
	require.NoError(s, s.Client.Delete(s.Context(), s.node()))
	assert.Equal(s, step.MaintenanceBroken, s.state().Phase)
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName}}
	require.NoError(s, s.Client.Create(s.Context(), again))
	assert.NotEqual(s, first.Node, string(again.UID))
	assert.NotEqual(s, step.MaintenanceReady, s.state().Phase)
}

func failedAndResumed(s *scene) {
	s.schedule()
	s.becomes(step.MaintenanceReady)
	require.NoError(s, s.window.Fail(s.Context(), "the write failed"))
	require.NoError(s, s.window.Fail(s.Context(), "the write failed"))
	for range 5 {
		if s.Step != nil {
			require.NoError(s, s.Step(s.Context()))
		}
		s.requireCordoned(true)
	}
	s.restart()
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.requireCordoned(true)
	require.NoError(s, s.window.Fail(s.Context(), "again"))
	s.release()
	s.becomes(step.MaintenanceNone)
	s.requireCordoned(false)
}

func calledOff(s *scene) {
	s.pod("db-0", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/stays"} })
	s.schedule()
	s.until("the pod to be named", func(state maintenance.State) bool { return strings.Contains(state.Message, "default/db-0") })
	s.requireCordoned(true)
	s.release()
	s.becomes(step.MaintenanceNone)
	s.requireCordoned(false)
	s.freePod("db-0")
}

func restarted(s *scene) {
	s.schedule()
	s.restart()
	s.schedule()
	s.becomes(step.MaintenanceReady)
	s.restart()
	s.stays(step.MaintenanceReady)
	s.requireCordoned(true)
	s.release()
	s.restart()
	s.becomes(step.MaintenanceNone)
	s.requireCordoned(false)
}
