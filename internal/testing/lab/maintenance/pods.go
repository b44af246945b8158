package maintenance

import (
	"context"
	"fmt"
	"slices"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/drain"
)

// notItself spares the pods of the maintenance-operator.
const notItself = "app.kubernetes.io/component!=maintenance-operator-controller-manager"

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
	left, err := drain.Round(ctx, o.pods, nm.Spec.NodeName, options)
	if err != nil {
		return false, fmt.Errorf("drain: %w", err)
	}
	if nm.Status.Drain != nil && slices.Equal(nm.Status.Drain.WaitForEviction, left.Pods) {
		return left.Done(), nil
	}
	before := nm.DeepCopy()
	nm.Status.Drain = &maintenancev1alpha1.DrainStatus{WaitForEviction: left.Pods}
	if err := o.client.Status().Patch(ctx, nm, client.MergeFrom(before)); err != nil {
		return false, fmt.Errorf("report drain: %w", err)
	}
	return left.Done(), nil
}
