package maintenance

import (
	"testing"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// stage is a stand-in in front of the real API.
type stage struct {
	t   *testing.T
	env *apitest.Env
	op  *Operator
}

func newStage(t *testing.T) *stage {
	env := apitest.New(t)
	op, err := New(env.Config)
	require.NoError(t, err)
	s := &stage{t: t, env: env, op: op}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	require.NoError(t, env.Client.Create(t.Context(), n))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	require.NoError(t, env.Client.Status().Update(t.Context(), n))
	return s
}

func (s *stage) steps(n int) {
	for range n {
		require.NoError(s.t, s.op.Step(s.t.Context()))
	}
}

func (s *stage) request(spec maintenancev1alpha1.NodeMaintenanceSpec) *maintenancev1alpha1.NodeMaintenance {
	spec.NodeName, spec.RequestorID = "a", "test"
	nm := &maintenancev1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: "m"}, Spec: spec}
	require.NoError(s.t, s.env.Client.Create(s.t.Context(), nm))
	return nm
}

// reason is the reason of Ready, or "gone".
func (s *stage) reason() string {
	nm := &maintenancev1alpha1.NodeMaintenance{}
	err := s.env.Client.Get(s.t.Context(), client.ObjectKey{Namespace: apitest.Namespace, Name: "m"}, nm)
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	require.NoError(s.t, err)
	return readyReason(nm)
}

func (s *stage) cordoned() bool {
	n := &corev1.Node{}
	require.NoError(s.t, s.env.Client.Get(s.t.Context(), client.ObjectKey{Name: "a"}, n))
	return n.Spec.Unschedulable
}

func TestStandInTakesANodeThroughTheStatesAndBack(t *testing.T) {
	s := newStage(t)
	nm := s.request(maintenancev1alpha1.NodeMaintenanceSpec{Cordon: true})
	var states []string
	for range 8 {
		s.steps(1)
		if r := s.reason(); len(states) == 0 || states[len(states)-1] != r {
			states = append(states, r)
		}
	}
	assert.Equal(t, []string{"Pending", "Cordon", "WaitForPodCompletion", "Draining", "Ready"}, states, "Scheduled is left in the step it is entered in")
	assert.True(t, s.cordoned())
	require.NoError(t, s.env.Client.Delete(t.Context(), nm))
	assert.Equal(t, "Ready", s.reason(), "the finalizer holds the object")
	s.steps(1)
	assert.Equal(t, "gone", s.reason())
	assert.False(t, s.cordoned())
}

func TestStandInHoldsTheNodeForAdditionalRequestors(t *testing.T) {
	s := newStage(t)
	nm := s.request(maintenancev1alpha1.NodeMaintenanceSpec{Cordon: true, AdditionalRequestors: []string{"other"}})
	s.steps(7)
	require.NoError(t, s.env.Client.Delete(t.Context(), nm))
	s.steps(3)
	assert.Equal(t, "Ready", s.reason())
	assert.True(t, s.cordoned())
	require.NoError(t, s.env.Client.Patch(t.Context(), nm, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"additionalRequestors":null}}`))))
	s.steps(1)
	assert.Equal(t, "gone", s.reason())
	assert.False(t, s.cordoned())
}

func TestStandInKeepsAnothersCordon(t *testing.T) {
	s := newStage(t)
	require.NoError(t, s.env.Client.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))))
	nm := s.request(maintenancev1alpha1.NodeMaintenanceSpec{Cordon: true})
	s.steps(7)
	require.NoError(t, s.env.Client.Delete(t.Context(), nm))
	s.steps(2)
	assert.Equal(t, "gone", s.reason())
	assert.True(t, s.cordoned())
}

func TestShowsFailedRequestor(t *testing.T) {
	s := newStage(t)
	nm := s.request(maintenancev1alpha1.NodeMaintenanceSpec{Cordon: true})
	s.steps(7)
	require.NoError(t, s.env.Client.Get(t.Context(), client.ObjectKeyFromObject(nm), nm))
	meta.SetStatusCondition(&nm.Status.Conditions, metav1.Condition{Type: maintenancev1alpha1.ConditionTypeRequestorFailed, Status: "True", Reason: maintenancev1alpha1.ConditionReasonFailedMaintenance})
	require.NoError(t, s.env.Client.Status().Update(t.Context(), nm))
	s.steps(1)
	assert.Equal(t, "RequestorFailed", s.reason())
	assert.True(t, s.cordoned())
}

// A garbage collector deletes the maintenance with its Node.
func TestStandInMakesAMaintenanceGoWithItsNode(t *testing.T) {
	s := newStage(t)
	nm := s.request(maintenancev1alpha1.NodeMaintenanceSpec{Cordon: true})
	s.steps(2)
	require.NoError(t, s.env.Client.Get(t.Context(), client.ObjectKeyFromObject(nm), nm))
	require.Len(t, nm.OwnerReferences, 1)
	assert.Equal(t, "a", nm.OwnerReferences[0].Name)
}
