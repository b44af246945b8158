package cluster

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/deploy"
)

// Service accounts of the product.
const (
	OperatorAccount = "firmware-operator"
	DaemonAccount   = "firmware-daemon"
)

// tokenSeconds is the lifetime of a lab token; the lab does not renew tokens.
const tokenSeconds = 12 * 3600

// RunPod records a pod of a service account on a node, as a kubelet that runs it would. An existing one is kept.
func RunPod(ctx context.Context, c client.Client, name, account, node string) (*corev1.Pod, error) {
	owner, err := owned(ctx, c, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: account},
		Spec:       appsv1.DaemonSetSpec{Selector: ownSelector(account), Template: ownTemplate(account)},
	}, "DaemonSet")
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{
		// Owned like a DaemonSet's pod, so that a drain does not evict it.
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, OwnerReferences: owner},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "simulated"}}},
	}
	if account == DaemonAccount {
		if pod.Spec, err = daemonSpec(); err != nil {
			return nil, err
		}
	}
	pod.Spec.NodeName, pod.Spec.ServiceAccountName, pod.Spec.TerminationGracePeriodSeconds = node, account, ptr.To(int64(0))
	if err := c.Create(ctx, pod); client.IgnoreAlreadyExists(err) != nil {
		return nil, fmt.Errorf("create pod %s: %w", name, err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return nil, fmt.Errorf("read pod %s: %w", name, err)
	}
	return pod, nil
}

// daemonSpec is what the manifests say about the pods of the daemon.
func daemonSpec() (corev1.PodSpec, error) {
	objects, err := deploy.Objects(deploy.Daemon)
	if err != nil {
		return corev1.PodSpec{}, err
	}
	for _, o := range objects {
		var ds appsv1.DaemonSet
		if o.GetKind() != "DaemonSet" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &ds); err != nil {
			return corev1.PodSpec{}, fmt.Errorf("read daemon set: %w", err)
		}
		return ds.Spec.Template.Spec, nil
	}
	return corev1.PodSpec{}, errors.New("the manifests hold no DaemonSet")
}

// PodToken mints a token that is bound to the pod, with the claims a kubelet's has: the API server adds the node's name.
func PodToken(ctx context.Context, c client.Client, pod *corev1.Pod, audiences ...string) (string, error) {
	return mint(ctx, c, pod.Namespace, pod.Spec.ServiceAccountName, authenticationv1.TokenRequestSpec{
		Audiences:      audiences,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	})
}

// AccountToken mints a token of a service account that is bound to no pod and so names no node.
func AccountToken(ctx context.Context, c client.Client, account *corev1.ServiceAccount) (string, error) {
	return mint(ctx, c, account.Namespace, account.Name, authenticationv1.TokenRequestSpec{})
}

func mint(ctx context.Context, c client.Client, namespace, name string, spec authenticationv1.TokenRequestSpec) (string, error) {
	spec.ExpirationSeconds = ptr.To(int64(tokenSeconds))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{Spec: spec}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("mint token of %s: %w", name, err)
	}
	return request.Status.Token, nil
}
