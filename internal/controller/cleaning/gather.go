package cleaning

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{now: r.now()}
	var n corev1.Node
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &n); err != nil {
		return f, client.IgnoreNotFound(err)
	}
	var nfw v1alpha1.NodeFirmware
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &nfw); err != nil {
		return f, client.IgnoreNotFound(err)
	}
	f.node, f.firmware = &n, &nfw
	var jobs v1alpha1.FirmwareJobList
	if err := r.client.List(ctx, &jobs, client.MatchingFields{index.NodeName: name}); err != nil {
		return f, fmt.Errorf("list firmware jobs of node %s: %w", name, err)
	}
	f.jobs = slices.DeleteFunc(jobs.Items, func(j v1alpha1.FirmwareJob) bool { return j.Spec.Task.CleaningPolicyRef == nil })
	desired.SortJobs(f.jobs)
	if !f.isConcerned() {
		return f, nil
	}
	var policies v1alpha1.CleaningPolicyList
	if err := r.client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list cleaning policies: %w", err)
	}
	f.policies = slices.SortedFunc(slices.Values(policies.Items), func(a, b v1alpha1.CleaningPolicy) int { return cmp.Compare(a.Name, b.Name) })
	var rollouts v1alpha1.RolloutPolicyList
	if err := r.client.List(ctx, &rollouts, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list rollout policies: %w", err)
	}
	f.healthyFor = schedule.SettingsOf(rollouts.Items, n.Labels).HealthyFor
	isNew := taint(f.node, v1alpha1.UnverifiedTaint) != nil
	if !isNew && f.firmware.Spec.Service != v1alpha1.NodeOutOfService {
		return f, nil
	}
	var devices v1alpha1.NodeDeviceList
	if err := r.client.List(ctx, &devices, client.MatchingFields{index.NodeName: name}); err != nil {
		return f, fmt.Errorf("list devices of node %s: %w", name, err)
	}
	f.devices = devices.Items
	if !isNew || f.waits() != nil { // the look at all templates is the dearest, and hundreds of nodes may wait for their updates at once
		return f, nil
	}
	var err error
	f.unassigned, err = r.unassigned(ctx, f)
	return f, err
}

// unassigned is the first device of a new node that does not have yet what templates and pins say: without a look at them, a device that
// nobody has assigned anything to is no different from one that is to have nothing.
func (r *Reconciler) unassigned(ctx context.Context, f facts) (string, error) {
	ix := match.NewIndex()
	ix.SetNode(f.node.Name, f.node.Labels)
	ix.SetNodeFirmware(f.firmware)
	var sources v1alpha1.FirmwareSourceList
	var firmware v1alpha1.FirmwareTemplateList
	var settings v1alpha1.ConfigurationTemplateList
	for _, list := range []client.ObjectList{&sources, &firmware, &settings} {
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("list what is assigned to new node %s: %w", f.node.Name, err)
		}
	}
	for i := range sources.Items {
		ix.SetSource(&sources.Items[i])
	}
	for i := range firmware.Items {
		ix.SetTemplate(&firmware.Items[i])
	}
	for i := range settings.Items {
		ix.SetConfigurationTemplate(&settings.Items[i])
	}
	for i := range f.devices {
		ix.SetDevice(&f.devices[i])
	}
	for i := range f.devices {
		if d, known := ix.Decision(f.devices[i].Name); !known || !d.Done(&f.devices[i]) {
			return f.devices[i].Name, nil
		}
	}
	return "", nil
}
