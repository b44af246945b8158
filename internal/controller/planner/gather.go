package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/index"
)

// facts is what is known about one node.
type facts struct {
	name string
	now  time.Time
	// nodeUID is empty when there is no such Node.
	nodeUID types.UID
	// retryAfter forgives failures before it; zero when nobody asked.
	retryAfter time.Time
	// devices are in order of name.
	devices []v1alpha1.NodeDevice
	// jobs are oldest first.
	jobs []v1alpha1.FirmwareJob
}

func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{name: name, now: r.now()}
	var node corev1.Node
	if err := r.client.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return f, nil
		}
		return f, fmt.Errorf("read node: %w", err)
	}
	f.nodeUID = node.UID
	var firmware v1alpha1.NodeFirmware
	if err := r.client.Get(ctx, types.NamespacedName{Name: name}, &firmware); client.IgnoreNotFound(err) != nil {
		return f, fmt.Errorf("read node firmware: %w", err)
	}
	if t := firmware.Spec.RetryRequestedAt; t != nil {
		f.retryAfter = t.Time
	}
	var devices v1alpha1.NodeDeviceList
	if err := r.client.List(ctx, &devices, client.MatchingFields{index.NodeName: name}); err != nil {
		return f, fmt.Errorf("list node devices: %w", err)
	}
	f.devices = devices.Items
	slices.SortFunc(f.devices, func(a, b v1alpha1.NodeDevice) int { return cmp.Compare(a.Name, b.Name) })
	var jobs v1alpha1.FirmwareJobList
	if err := r.client.List(ctx, &jobs, client.MatchingFields{index.NodeName: name}); err != nil {
		return f, fmt.Errorf("list firmware jobs: %w", err)
	}
	f.jobs = jobs.Items
	slices.SortFunc(f.jobs, func(a, b v1alpha1.FirmwareJob) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return f, nil
}

func ended(j *v1alpha1.FirmwareJob) bool {
	return meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionComplete) || hasFailed(j)
}

func hasFailed(j *v1alpha1.FirmwareJob) bool {
	return meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionFailed)
}

func isHeld(j *v1alpha1.FirmwareJob) bool {
	return hasFailed(j) && meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionHeld)
}

func isAdmitted(j *v1alpha1.FirmwareJob) bool {
	return meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionAdmitted)
}

// endedAt is when the job ended, by the clock of who ended it.
func endedAt(j *v1alpha1.FirmwareJob) time.Time {
	if j.Status.CompletionTime != nil {
		return j.Status.CompletionTime.Time
	}
	if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionFailed); c != nil {
		return c.LastTransitionTime.Time
	}
	return j.CreationTimestamp.Time
}
