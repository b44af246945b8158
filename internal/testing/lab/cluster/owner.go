package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// owned makes the owner of a pod where it does not exist, and returns the reference to it. A garbage collector deletes a pod
// whose owner is not there.
func owned(ctx context.Context, c client.Client, owner client.Object, kind string) ([]metav1.OwnerReference, error) {
	if err := c.Create(ctx, owner); client.IgnoreAlreadyExists(err) != nil {
		return nil, fmt.Errorf("create %s %s: %w", kind, owner.GetName(), err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(owner), owner); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind, owner.GetName(), err)
	}
	return []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true),
	}}, nil
}

func ownSelector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func ownTemplate(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "simulated"}}},
	}
}
