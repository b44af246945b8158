package daemon

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
)

// readiness reads whether the cluster considers one Node Ready.
type readiness struct {
	Reader client.Reader
	Name   string
	// BootID reads the boot id of the running kernel; nil to accept reports of the kubelet from any boot.
	BootID func() (string, error)
}

// Ready returns the Node's condition Ready and its message. A report from before the last boot, which stays in the
// status for a while, does not count.
func (n readiness) Ready(ctx context.Context) (bool, string, error) {
	var node corev1.Node
	if err := n.Reader.Get(ctx, client.ObjectKey{Name: n.Name}, &node); err != nil {
		err = fmt.Errorf("get node %s: %w", n.Name, err)
		if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) { // a refusal is an answer
			err = fmt.Errorf("%w: %w", health.ErrUnanswered, err)
		}
		return false, "", err
	}
	if old, err := n.stale(&node); err != nil || old {
		return false, "the kubelet has not reported since the boot", err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.Message, nil
		}
	}
	return false, "it has no condition Ready", nil
}

// stale reports whether the kubelet's last report is from another boot.
func (n readiness) stale(node *corev1.Node) (bool, error) {
	reported := node.Status.NodeInfo.BootID
	if n.BootID == nil || reported == "" {
		return false, nil
	}
	bootID, err := n.BootID()
	if err != nil {
		return false, fmt.Errorf("read boot id: %w", err)
	}
	return reported != bootID, nil
}
