package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

type facts struct {
	name string
	now  time.Time
	// nodeUID is empty when there is no such Node.
	nodeUID types.UID
	// retry is the request to retry; empty when there is none. Answered is the one that the daemon has answered.
	retry    plan.Clearance
	answered string
	// heldBy is the failed job that holds the node as the daemon reports it, even one that was deleted; empty when none does.
	heldBy string
	// devices are in order of name.
	devices []v1alpha1.NodeDevice
	// jobs are oldest first: those of the planner by their turn, whatever clocks say, and those of persons between them by age.
	jobs []v1alpha1.FirmwareJob
	// failed is when this process first saw each failed job, by its clock.
	failed map[types.UID]time.Time
	// settings are what the node's RolloutPolicy says about how its jobs run.
	settings schedule.Settings
	// sources belong to the cache and must not be changed.
	sources []v1alpha1.FirmwareSource
	// quarantines belong to the cache and must not be changed; bad is what follows from them and from what jobs report.
	quarantines []v1alpha1.FirmwareQuarantine
	bad         quarantine.Set
	// seen is since when the work has been due that was due when the node was last planned, by its fingerprint, and quietPeriod how
	// long work must stay the same before it is queued.
	seen        map[string]time.Time
	quietPeriod time.Duration
}

func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{name: name, now: r.now(), seen: r.due.Since(name), quietPeriod: r.quietPeriod}
	var node corev1.Node
	if err := r.client.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.failed.Note(name, nil, f.now)
			return f, nil
		}
		return f, fmt.Errorf("read node: %w", err)
	}
	f.nodeUID = node.UID
	if err := r.gatherFleet(ctx, &f, node.Labels); err != nil {
		return f, err
	}
	var firmware v1alpha1.NodeFirmware
	if err := r.client.Get(ctx, types.NamespacedName{Name: name}, &firmware); client.IgnoreNotFound(err) != nil {
		return f, fmt.Errorf("read node firmware: %w", err)
	}
	f.retry, f.answered, f.heldBy = desired.Retry(&firmware), firmware.Status.Requests.Retry, firmware.Status.HeldBy
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
	desired.SortJobs(f.jobs)
	var failed []types.UID
	for i := range f.jobs {
		if f.jobs[i].Failed() {
			failed = append(failed, f.jobs[i].UID)
		}
	}
	f.failed = r.failed.Note(name, failed, f.now)
	return f, nil
}

// gatherFleet reads what the node has in common with others: its policy, the sources, and what is quarantined.
func (r *Reconciler) gatherFleet(ctx context.Context, f *facts, nodeLabels map[string]string) error {
	var policies v1alpha1.RolloutPolicyList
	if err := r.client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list rollout policies: %w", err)
	}
	f.settings = schedule.SettingsOf(policies.Items, nodeLabels)
	var sources v1alpha1.FirmwareSourceList
	if err := r.client.List(ctx, &sources, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list firmware sources: %w", err)
	}
	f.sources = sources.Items
	var quarantines v1alpha1.FirmwareQuarantineList
	if err := r.client.List(ctx, &quarantines, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list firmware quarantines: %w", err)
	}
	f.quarantines = quarantines.Items
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
	f.bad = quarantine.Compute(quarantine.Facts{Jobs: jobs, Quarantines: f.quarantines, Now: f.now, Pool: func(name string) string {
		var node corev1.Node
		err := r.client.Get(ctx, types.NamespacedName{Name: name}, &node)
		if client.IgnoreNotFound(err) != nil {
			unread = fmt.Errorf("read node %s: %w", name, err)
		}
		return pools().Of(node.Labels) // of one that is gone: none
	}})
	return unread
}
