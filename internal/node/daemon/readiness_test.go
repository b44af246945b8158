package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestReadyUnderThisBootOnly(t *testing.T) {
	for name, c := range map[string]struct {
		bootID string
		status corev1.ConditionStatus
		want   bool
	}{
		"ready":                    {"boot-2", corev1.ConditionTrue, true},
		"ready, boot id not known": {"", corev1.ConditionTrue, true},
		"ready before the boot":    {"boot-1", corev1.ConditionTrue, false},
		"not ready":                {"boot-2", corev1.ConditionFalse, false},
		"kubelet silent":           {"boot-2", corev1.ConditionUnknown, false},
		"kubelet silent, old":      {"boot-1", corev1.ConditionUnknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			node.Status.NodeInfo.BootID = c.bootID
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.status}}
			n := readiness{
				Reader: fake.NewClientBuilder().WithObjects(node).Build(), Name: "n1",
				BootID: func() (string, error) { return "boot-2", nil },
			}
			ready, message, err := n.Ready(t.Context())
			require.NoError(t, err)
			assert.Equal(t, c.want, ready, message)
		})
	}
	n := readiness{Reader: fake.NewClientBuilder().Build(), Name: "gone"}
	_, _, err := n.Ready(t.Context())
	require.Error(t, err)
}
