package maintenance

import (
	"context"
	"fmt"
	"slices"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/drain"
)

const (
	// waitStartAnnotation is when the wait for pods began.
	waitStartAnnotation = "maintenance.nvidia.com/wait-pod-completion-start-time"
	// notItself spares the pods of the maintenance-operator.
	notItself = "app.kubernetes.io/component!=maintenance-operator-controller-manager"
)

// waitForPods reports whether pods that the requestor waits for are there, finished ones too, within its timeout.
func (o *Operator) waitForPods(ctx context.Context, nm *maintenancev1alpha1.NodeMaintenance) (bool, error) {
	spec := nm.Spec.WaitForPodCompletion
	if spec == nil {
		return false, nil
	}
	began, err := time.Parse(time.RFC3339, nm.Annotations[waitStartAnnotation])
	if err != nil {
		began = o.now().UTC()
		metav1.SetMetaDataAnnotation(&nm.ObjectMeta, waitStartAnnotation, began.Format(time.RFC3339))
		if err := o.client.Update(ctx, nm); err != nil {
			return false, fmt.Errorf("note start of wait: %w", err)
		}
	}
	if spec.TimeoutSecond > 0 && o.now().After(began.Add(time.Duration(spec.TimeoutSecond)*time.Second)) {
		return false, nil
	}
	selector, err := labels.Parse(spec.PodSelector)
	if err != nil {
		return false, fmt.Errorf("parse pod selector: %w", err)
	}
	pods, err := o.podsOn(ctx, nm.Spec.NodeName, selector)
	if err != nil {
		return false, err
	}
	var waiting []string
	for _, p := range pods {
		waiting = append(waiting, p.Namespace+"/"+p.Name)
	}
	if !slices.Equal(nm.Status.WaitForCompletion, waiting) {
		before := nm.DeepCopy()
		nm.Status.WaitForCompletion = waiting
		if err := o.client.Status().Patch(ctx, nm, client.MergeFrom(before)); err != nil {
			return false, fmt.Errorf("report pods: %w", err)
		}
	}
	return len(waiting) > 0, nil
}

// drain evicts the pods to drain and reports whether all of them are gone. What is drained is decided by the same library.
func (o *Operator) drain(ctx context.Context, nm *maintenancev1alpha1.NodeMaintenance) (bool, error) {
	spec := nm.Spec.DrainSpec
	if spec == nil {
		return true, nil
	}
	options := drain.Options{Force: spec.Force, DeleteEmptyDir: spec.DeleteEmptyDir, PodSelector: notItself}
	if spec.PodSelector != "" {
		options.PodSelector += "," + spec.PodSelector
	}
	if filters := spec.PodEvictionFilters; len(filters) > 0 {
		options.Takes = func(pod *corev1.Pod) bool {
			return slices.ContainsFunc(filters, func(f maintenancev1alpha1.PodEvictionFiterEntry) bool { return f.Match(pod) })
		}
	}
	left, err := drain.Round(ctx, o.pods, nm.Spec.NodeName, options)
	if err != nil {
		return false, fmt.Errorf("drain: %w", err)
	}
	return left.Done(), o.reportDrain(ctx, nm, left.Pods)
}

func (o *Operator) reportDrain(ctx context.Context, nm *maintenancev1alpha1.NodeMaintenance, waiting []string) error {
	before := nm.DeepCopy()
	if nm.Status.Drain == nil {
		all, err := o.podsOn(ctx, nm.Spec.NodeName, labels.Everything())
		if err != nil {
			return err
		}
		nm.Status.Drain = &maintenancev1alpha1.DrainStatus{TotalPods: int32(len(all)), EvictionPods: int32(len(waiting))}
	}
	d := nm.Status.Drain
	d.WaitForEviction, d.DrainProgress = waiting, 100
	if d.EvictionPods > 0 {
		d.DrainProgress = max(0, d.EvictionPods-int32(len(waiting))) * 100 / d.EvictionPods
	}
	if before.Status.Drain != nil && before.Status.Drain.DrainProgress == d.DrainProgress && slices.Equal(before.Status.Drain.WaitForEviction, waiting) {
		return nil
	}
	if err := o.client.Status().Patch(ctx, nm, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report drain: %w", err)
	}
	return nil
}

func (o *Operator) podsOn(ctx context.Context, node string, selector labels.Selector) ([]corev1.Pod, error) {
	var pods corev1.PodList
	options := client.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node), LabelSelector: selector}
	if err := o.client.List(ctx, &pods, &options); err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", node, err)
	}
	return pods.Items, nil
}
