package daemon

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
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

// A refusal is an answer: whoever refuses is reached.
func TestRefusalIsAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		silent bool
	}{
		"no route":      {&net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}, true},
		"no answer":     {context.DeadlineExceeded, true},
		"no such node":  {apierrors.NewNotFound(corev1.Resource("nodes"), "n1"), false},
		"no permission": {apierrors.NewForbidden(corev1.Resource("nodes"), "n1", nil), false},
		"no backend":    {apierrors.NewServiceUnavailable("the server is starting"), false},
	} {
		t.Run(name, func(t *testing.T) {
			refuse := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return c.err
			}}
			_, _, err := readiness{Reader: fake.NewClientBuilder().WithInterceptorFuncs(refuse).Build(), Name: "n1"}.Ready(t.Context())
			require.ErrorIs(t, err, c.err)
			assert.Equal(t, c.silent, errors.Is(err, health.ErrUnanswered))
		})
	}
}
