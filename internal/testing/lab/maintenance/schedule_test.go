package maintenance

import (
	"testing"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOldestOfEachNodeBegins(t *testing.T) {
	request := func(name, node, reason string, age int) maintenancev1alpha1.NodeMaintenance {
		return maintenancev1alpha1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0))},
			Spec:       maintenancev1alpha1.NodeMaintenanceSpec{NodeName: node},
			Status: maintenancev1alpha1.NodeMaintenanceStatus{
				Conditions: []metav1.Condition{{Type: maintenancev1alpha1.ConditionTypeReady, Reason: reason}},
			},
		}
	}
	const pending, ready = maintenancev1alpha1.ConditionReasonPending, maintenancev1alpha1.ConditionReasonReady
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}, {ObjectMeta: metav1.ObjectMeta{Name: "c"}}}
	var got []string
	for _, nm := range schedule(nodes, []maintenancev1alpha1.NodeMaintenance{
		request("a-young", "a", pending, 1), request("a-old", "a", pending, 9), request("b-old", "b", pending, 9), request("b-ready", "b", ready, 1),
		request("c", "c", pending, 3), request("of-no-node", "gone", pending, 10),
	}) {
		got = append(got, nm.Name)
	}
	assert.Equal(t, []string{"a-old", "c"}, got)
}
