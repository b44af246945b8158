package rollout_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
)

// fleet is a cache over 5,000 nodes that gives its objects away without copying them. Writes fail: a pass at rest makes none.
type fleet struct {
	client.Client
	nodes    corev1.NodeList
	jobs     v1alpha1.FirmwareJobList
	policies v1alpha1.RolloutPolicyList
}

func (f *fleet) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.NodeList:
		*l = f.nodes
	case *v1alpha1.FirmwareJobList:
		*l = f.jobs
	case *v1alpha1.RolloutPolicyList:
		f.policies.DeepCopyInto(l)
	}
	return nil
}

func (f *fleet) Status() client.SubResourceWriter { return keeper{f: f} }

// keeper takes the status of a policy and nothing else.
type keeper struct {
	client.SubResourceWriter
	f *fleet
}

func (k keeper) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	for i := range k.f.policies.Items {
		if p := &k.f.policies.Items[i]; p.Name == o.GetName() {
			o.(*v1alpha1.RolloutPolicy).DeepCopyInto(p)
		}
	}
	return nil
}

// BenchmarkPassAtRest5000 is the cost of one event that changes nothing: 5,000 nodes, each with a job that waits.
func BenchmarkPassAtRest5000(b *testing.B) {
	f := &fleet{policies: v1alpha1.RolloutPolicyList{Items: []v1alpha1.RolloutPolicy{*newPolicy("default", intstr.FromInt32(0), nil)}}}
	for i := range 5000 {
		name := fmt.Sprintf("n%d", i)
		f.nodes.Items = append(f.nodes.Items, *newNode(name, map[string]string{"pool": "gpu"}))
		f.jobs.Items = append(f.jobs.Items, v1alpha1.FirmwareJob{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       v1alpha1.FirmwareJobSpec{NodeName: name, Type: v1alpha1.JobTypeUpdate},
			Status: v1alpha1.FirmwareJobStatus{Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonBudgetExhausted},
			}},
		})
	}
	r := rollout.New(f, f, events.NewFakeRecorder(10), time.Now, "")
	for b.Loop() {
		_, err := r.Reconcile(b.Context(), ctrl.Request{})
		require.NoError(b, err)
	}
}
