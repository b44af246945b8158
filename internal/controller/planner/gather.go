package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

func (r *Reconciler) gather(ctx context.Context, name string) (due.Facts, error) {
	f := due.Facts{Name: name, Now: r.now(), Seen: r.due.Since(name), QuietPeriod: r.quietPeriod}
	var node corev1.Node
	if err := r.client.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.failed.Note(name, nil, f.Now)
			return f, nil
		}
		return f, fmt.Errorf("read node: %w", err)
	}
	f.NodeUID = node.UID
	if err := r.gatherFleet(ctx, &f, node.Labels); err != nil {
		return f, err
	}
	var firmware v1alpha1.NodeFirmware
	if err := r.client.Get(ctx, types.NamespacedName{Name: name}, &firmware); client.IgnoreNotFound(err) != nil {
		return f, fmt.Errorf("read node firmware: %w", err)
	}
	f.Retry, f.Answered, f.HeldBy = desired.Retry(&firmware), firmware.Status.Requests.Retry, firmware.Status.HeldBy
	var devices v1alpha1.NodeDeviceList
	if err := r.client.List(ctx, &devices, client.MatchingFields{index.NodeName: name}); err != nil {
		return f, fmt.Errorf("list node devices: %w", err)
	}
	f.Devices = devices.Items
	slices.SortFunc(f.Devices, func(a, b v1alpha1.NodeDevice) int { return cmp.Compare(a.Name, b.Name) })
	var jobs v1alpha1.FirmwareJobList
	if err := r.client.List(ctx, &jobs, client.MatchingFields{index.NodeName: name}); err != nil {
		return f, fmt.Errorf("list firmware jobs: %w", err)
	}
	f.Jobs = jobs.Items
	desired.SortJobs(f.Jobs)
	var failed []types.UID
	for i := range f.Jobs {
		if f.Jobs[i].Failed() {
			failed = append(failed, f.Jobs[i].UID)
		}
	}
	f.Failed = r.failed.Note(name, failed, f.Now)
	return f, nil
}

// gatherFleet reads what the node has in common with others: its policy, the sources, and what is quarantined.
func (r *Reconciler) gatherFleet(ctx context.Context, f *due.Facts, nodeLabels map[string]string) error {
	var policies v1alpha1.RolloutPolicyList
	if err := r.client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list rollout policies: %w", err)
	}
	f.Settings = schedule.SettingsOf(policies.Items, nodeLabels)
	var sources v1alpha1.FirmwareSourceList
	if err := r.client.List(ctx, &sources, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list firmware sources: %w", err)
	}
	f.Sources = sources.Items
	var quarantines v1alpha1.FirmwareQuarantineList
	if err := r.client.List(ctx, &quarantines, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list firmware quarantines: %w", err)
	}
	f.Quarantines = quarantines.Items
	var reports v1alpha1.FirmwareJobList
	withBlame := client.MatchingFields{index.Blamed: index.Some}
	if err := r.client.List(ctx, &reports, withBlame, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list firmware jobs with bad images: %w", err)
	}
	jobs := make([]*v1alpha1.FirmwareJob, len(reports.Items))
	for i := range reports.Items {
		jobs[i] = &reports.Items[i]
	}
	pools := sync.OnceValue(func() quarantine.Pools { return quarantine.NewPools(policies.Items) }) // few plans ask for it
	var unread error
	f.Bad = quarantine.Compute(quarantine.Facts{Jobs: jobs, Quarantines: f.Quarantines, Now: f.Now, Pool: func(name string) string {
		var node corev1.Node
		err := r.client.Get(ctx, types.NamespacedName{Name: name}, &node)
		if client.IgnoreNotFound(err) != nil {
			unread = fmt.Errorf("read node %s: %w", name, err)
		}
		return pools().Of(node.Labels) // of one that is gone: none
	}})
	return unread
}
