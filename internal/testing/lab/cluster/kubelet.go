package cluster

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Kubelet simulates the kubelet of one simulated machine: it registers the Node, reports whether it is Ready, and
// deletes evicted pods.
type Kubelet struct {
	Client client.Client
	Node   string
	Labels map[string]string
}

// Register creates the Node, or finds it.
func (k *Kubelet) Register(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.Node, Labels: k.Labels}}
	if err := k.Client.Create(ctx, node); client.IgnoreAlreadyExists(err) != nil {
		return nil, fmt.Errorf("register node %s: %w", k.Node, err)
	}
	if err := k.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return nil, fmt.Errorf("register node %s: %w", k.Node, err)
	}
	return node, nil
}

// Report sets the Ready condition and the boot id, as a kubelet does when it comes up; Unknown is what the node
// lifecycle controller sets when a kubelet does not report.
func (k *Kubelet) Report(ctx context.Context, ready corev1.ConditionStatus, bootID string) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var node corev1.Node
		if err := k.Client.Get(ctx, client.ObjectKey{Name: k.Node}, &node); err != nil {
			return err
		}
		reason := "KubeletReady"
		if ready != corev1.ConditionTrue {
			reason = "NodeStatusUnknown"
		}
		node.Status.NodeInfo.BootID = bootID
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, Reason: reason,
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}}
		return k.Client.Status().Update(ctx, &node)
	})
	if err != nil {
		return fmt.Errorf("report node %s: %w", k.Node, err)
	}
	return nil
}

// Ensure reads the Node, and reports when it does not say so already.
func (k *Kubelet) Ensure(ctx context.Context, ready corev1.ConditionStatus, bootID string) error {
	var node corev1.Node
	if err := k.Client.Get(ctx, client.ObjectKey{Name: k.Node}, &node); err != nil {
		return fmt.Errorf("read node %s: %w", k.Node, err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == ready && node.Status.NodeInfo.BootID == bootID {
			return nil
		}
	}
	return k.Report(ctx, ready, bootID)
}

// StartWorkload records a pod that a drain has to evict.
func (k *Kubelet) StartWorkload(ctx context.Context) error {
	owner, err := owned(ctx, k.Client, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "workload"},
		Spec:       appsv1.ReplicaSetSpec{Selector: ownSelector("workload"), Template: ownTemplate("workload")},
	}, "ReplicaSet")
	if err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "workload-" + k.Node, OwnerReferences: owner},
		Spec: corev1.PodSpec{
			NodeName: k.Node, TerminationGracePeriodSeconds: ptr.To(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "simulated"}},
		},
	}
	if err := k.Client.Create(ctx, pod); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("start workload on %s: %w", k.Node, err)
	}
	return nil
}

// Reap deletes the node's pods whose deletion was requested, until the context ends.
func (k *Kubelet) Reap(ctx context.Context, every time.Duration) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		var pods corev1.PodList
		_ = k.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": k.Node}) // where the API server is unreachable, there are none this time
		for i := range pods.Items {
			_, runs := pods.Items[i].Labels[v1alpha1.JobPodLabel] // a pod with a process ends with it
			if pods.Items[i].DeletionTimestamp != nil && !runs {
				_ = k.Client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))
			}
		}
	}, every)
}
