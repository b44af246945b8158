package maintenance

import (
	"testing"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func node(name string, ready corev1.ConditionStatus) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n
}

func request(node, reason string, age int) maintenancev1alpha1.NodeMaintenance {
	nm := maintenancev1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + reason, CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0))}}
	nm.Spec.NodeName = node
	nm.Status.Conditions = []metav1.Condition{{Type: maintenancev1alpha1.ConditionTypeReady, Reason: reason}}
	return nm
}

func by(requestor string, nm maintenancev1alpha1.NodeMaintenance) maintenancev1alpha1.NodeMaintenance {
	nm.Spec.RequestorID = requestor
	return nm
}

func TestScheduleKeepsTheLimitsOfTheMaintenanceOperator(t *testing.T) {
	const pending, ready = maintenancev1alpha1.ConditionReasonPending, maintenancev1alpha1.ConditionReasonReady
	fleet := []corev1.Node{node("a", "True"), node("b", "True"), node("c", "True"), node("d", "False"), {ObjectMeta: metav1.ObjectMeta{Name: "e"}}}
	for name, tc := range map[string]struct {
		list []maintenancev1alpha1.NodeMaintenance
		limits
		want []string
	}{
		"one at a time, oldest first": {
			list:   []maintenancev1alpha1.NodeMaintenance{request("a", pending, 1), request("b", pending, 9)},
			limits: limits{parallel: intstr.FromInt32(1)}, want: []string{"b-Pending"},
		},
		"none while the only slot is taken": {
			list:   []maintenancev1alpha1.NodeMaintenance{request("a", ready, 1), request("b", pending, 9)},
			limits: limits{parallel: intstr.FromInt32(1)},
		},
		"a percentage of operations is rounded up": {
			list:   []maintenancev1alpha1.NodeMaintenance{request("a", pending, 3), request("b", pending, 2), request("c", pending, 1)},
			limits: limits{parallel: intstr.FromString("21%")}, want: []string{"a-Pending", "b-Pending"},
		},
		"a percentage of unavailable nodes is rounded down, and a node that is not Ready counts": {
			list:   []maintenancev1alpha1.NodeMaintenance{request("a", pending, 3), request("b", pending, 2)},
			limits: limits{parallel: intstr.FromInt32(4), unavailable: ptr.To(intstr.FromString("59%"))}, want: []string{"a-Pending"},
		},
		"a node that is unavailable already may always begin": {
			list:   []maintenancev1alpha1.NodeMaintenance{request("a", pending, 3), request("d", pending, 2)},
			limits: limits{parallel: intstr.FromInt32(4), unavailable: ptr.To(intstr.FromInt32(1))}, want: []string{"d-Pending"},
		},
		"one maintenance per node": {
			list:   []maintenancev1alpha1.NodeMaintenance{request("a", ready, 1), request("a", pending, 9)},
			limits: limits{parallel: intstr.FromString("100%")},
		},
		"no limit": {
			list:   []maintenancev1alpha1.NodeMaintenance{request("a", pending, 1), request("b", pending, 2), request("gone", pending, 3)},
			limits: limits{parallel: intstr.FromString("100%")}, want: []string{"b-Pending", "a-Pending"},
		},
		"0 is no slot": {
			list:   []maintenancev1alpha1.NodeMaintenance{request("a", pending, 1)},
			limits: limits{parallel: intstr.FromInt32(0)},
		},
		"a requestor that has one in progress goes before older ones": {
			list:   []maintenancev1alpha1.NodeMaintenance{by("x", request("a", ready, 1)), by("x", request("b", pending, 1)), by("y", request("c", pending, 9))},
			limits: limits{parallel: intstr.FromInt32(2)}, want: []string{"b-Pending"},
		},
		"the requestor with the fewest pending goes before older ones": {
			list:   []maintenancev1alpha1.NodeMaintenance{by("x", request("a", pending, 9)), by("x", request("b", pending, 8)), by("y", request("c", pending, 1))},
			limits: limits{parallel: intstr.FromInt32(1)}, want: []string{"c-Pending"},
		},
		"none behind the first slots is looked at": {
			list:   []maintenancev1alpha1.NodeMaintenance{request("a", pending, 9), request("b", pending, 8), request("d", pending, 1)},
			limits: limits{parallel: intstr.FromInt32(2), unavailable: ptr.To(intstr.FromInt32(1))},
		},
		"a node without a condition Ready counts as ready": {
			list:   []maintenancev1alpha1.NodeMaintenance{request("e", pending, 9)},
			limits: limits{parallel: intstr.FromInt32(2), unavailable: ptr.To(intstr.FromInt32(1))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, nm := range schedule(fleet, tc.list, tc.limits) {
				got = append(got, nm.Name)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}
