package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/lifetime"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// queued holds what may keep queued jobs from being admitted even if the budget has room.
type queued struct {
	// quarantined is the first update with a quarantined image, by the uid of its job.
	quarantined map[string]*schedule.QuarantinedUpdate
	// unlisted is the first update with a rollback image that no source lists for its device, by the uid of its job.
	unlisted map[string]*schedule.UnlistedRollback
	// unhealthy are the devices by node that a job left unhealthy and no request has cleared.
	unhealthy map[string][]schedule.UnhealthyDevice
	// scanned are the nodes with a queued job of type Steps or Restore that their daemon has scanned.
	scanned map[string]bool
}

// gatherQueued reads what may keep the queued jobs from being admitted.
//
// The quarantine is computed here and now, from the very jobs whose ends give places back: when one failed because of its
// image, its place goes to no other node with that image, though no FirmwareQuarantine lists it yet.
func (r *Reconciler) gatherQueued(ctx context.Context, f facts) (queued, error) {
	q := queued{
		quarantined: map[string]*schedule.QuarantinedUpdate{}, unlisted: map[string]*schedule.UnlistedRollback{}, scanned: map[string]bool{},
	}
	var err error
	if q.unhealthy, err = r.unhealthy(ctx); err != nil {
		return q, err
	}
	poolOf := f.poolOf()
	set := quarantine.Compute(quarantine.Facts{
		Jobs:        r.reporters.Remember(slices.Collect(maps.Values(f.jobs)), f.quarantines, r.now()),
		Quarantines: f.quarantines, Pool: poolOf, Now: r.now(),
	})
	for uid, j := range f.jobs {
		switch {
		case r.state(j) != schedule.Queued:
		case j.Spec.Task.Type != v1alpha1.JobTypeUpdate:
			firmware, err := r.firmware(ctx, j.Spec.NodeName)
			if err != nil {
				return q, err
			}
			q.scanned[j.Spec.NodeName] = isScanned(firmware)
		default:
			if q.quarantined[uid], err = r.quarantined(ctx, j, poolOf(j.Spec.NodeName), set); err != nil {
				return q, err
			}
			if q.unlisted[uid], err = r.unlisted(ctx, j, f.sources); err != nil {
				return q, err
			}
		}
	}
	return q, nil
}

// poolOf returns which RolloutPolicy a node belongs to.
func (f facts) poolOf() func(node string) string {
	policies := make([]v1alpha1.RolloutPolicy, 0, len(f.policies))
	for _, p := range f.policies {
		policies = append(policies, *p)
	}
	pools := quarantine.NewPools(policies)
	return func(node string) string {
		if n := f.nodes[node]; n != nil {
			return pools.Of(n.Labels)
		}
		return pools.Of(nil)
	}
}

// quarantined is the first update of a job whose image is quarantined for the model of its device; nil when none is.
func (r *Reconciler) quarantined(ctx context.Context, j *v1alpha1.FirmwareJob, pool string, set quarantine.Set) (*schedule.QuarantinedUpdate, error) {
	for _, u := range j.Spec.Task.Devices {
		for _, content := range u.Contents() {
			if !set.Holds(content) {
				continue
			}
			model, err := r.model(ctx, u.Name)
			if err != nil {
				return nil, err
			}
			if q, is := set.Blocks(content, model, pool); is {
				return &schedule.QuarantinedUpdate{Device: u.Name, Version: u.Called(content), Why: quarantine.Why(&q), Lift: quarantine.Lift(&q)}, nil
			}
		}
	}
	return nil, nil
}

// unhealthy lists the devices by node that a job left unhealthy and no request of a person has cleared, in order of
// name.
func (r *Reconciler) unhealthy(ctx context.Context) (map[string][]schedule.UnhealthyDevice, error) {
	out := map[string][]schedule.UnhealthyDevice{}
	var devices v1alpha1.NodeDeviceList
	onlyUnhealthy := client.MatchingFields{index.Unhealthy: index.Some}
	if err := r.client.List(ctx, &devices, onlyUnhealthy, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list unhealthy node devices: %w", err)
	}
	for _, d := range devices.Items {
		failure, node := d.Status.Failure, d.Spec.NodeName
		if !d.Status.IsUnhealthy() {
			continue
		}
		firmware, err := r.firmware(ctx, node)
		if err != nil {
			return nil, err
		}
		if !desired.Retry(firmware).Clears(&failure.Request) {
			out[node] = append(out[node], schedule.UnhealthyDevice{Name: d.Name, Job: failure.Job})
		}
	}
	for _, list := range out { // the cache lists in any order
		slices.SortFunc(list, func(a, b schedule.UnhealthyDevice) int { return strings.Compare(a.Name, b.Name) })
	}
	return out, nil
}

// model is the model of a device, "" when the device is not known.
func (r *Reconciler) model(ctx context.Context, device string) (string, error) {
	d := &v1alpha1.NodeDevice{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: device}, d); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("read node device %s: %w", device, err)
	}
	return d.Status.ModelKey(), nil
}

// firmware is the NodeFirmware of a node, empty when there is none.
func (r *Reconciler) firmware(ctx context.Context, node string) (*v1alpha1.NodeFirmware, error) {
	out := &v1alpha1.NodeFirmware{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: node}, out); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read node firmware %s: %w", node, err)
	}
	return out, nil
}

func isScanned(f *v1alpha1.NodeFirmware) bool { return f != nil && f.Status.LastScanTime != nil }

// priorities are the priorities of the jobs that are not admitted, by uid.
func (r *Reconciler) priorities(ctx context.Context, jobs map[string]*v1alpha1.FirmwareJob) (map[string]int, error) {
	var list v1alpha1.FirmwareTemplateList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list firmware templates: %w", err)
	}
	var settings v1alpha1.ConfigurationTemplateList
	if err := r.client.List(ctx, &settings, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list configuration templates: %w", err)
	}
	templates := map[match.Ref]int{}
	for _, t := range list.Items {
		if t.Spec.Priority != 0 {
			templates[match.Ref{Kind: v1alpha1.OriginTemplate, Name: t.Name}] = int(t.Spec.Priority)
		}
	}
	for _, t := range settings.Items {
		if t.Spec.Priority != 0 {
			templates[match.Ref{Kind: v1alpha1.OriginConfiguration, Name: t.Name}] = int(t.Spec.Priority)
		}
	}
	out := map[string]int{}
	for uid, j := range jobs {
		if j.Admitted() || j.Ended() {
			continue
		}
		p, err := r.priorityOf(ctx, templates, j)
		if err != nil {
			return nil, err
		}
		out[uid] = p
	}
	return out, nil
}

// priorityOf is the priority of a job: its own, or the highest of the templates that its devices get their firmware and settings from now.
func (r *Reconciler) priorityOf(ctx context.Context, templates map[match.Ref]int, j *v1alpha1.FirmwareJob) (int, error) {
	if j.Spec.Priority != nil {
		return int(*j.Spec.Priority), nil
	}
	if len(templates) == 0 || len(j.Spec.Task.Devices) == 0 {
		return 0, nil
	}
	highest := -1000
	for i := range j.Spec.Task.Devices {
		u, d := &j.Spec.Task.Devices[i], &v1alpha1.NodeDevice{}
		err := r.client.Get(ctx, client.ObjectKey{Name: u.Name}, d)
		if client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("read node device %s: %w", u.Name, err)
		}
		if o := v1alpha1.AssignedBy(d.Spec.Origin); !u.SettingsOnly() {
			highest = max(highest, priorityIn(templates, o))
		}
		if o := v1alpha1.ConfiguredBy(d.Spec.Origin); u.Configuration != "" {
			highest = max(highest, priorityIn(templates, o))
		}
	}
	return highest, nil
}

// failures are when the devices fail that the jobs update which are not admitted, by uid; of those jobs whose devices do.
func (r *Reconciler) failures(ctx context.Context, jobs map[string]*v1alpha1.FirmwareJob) (map[string]time.Time, error) {
	var list v1alpha1.FirmwareCatalogList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list firmware catalogs: %w", err)
	}
	limits := lifetime.Of(list.Items)
	if limits == nil {
		return nil, nil
	}
	out := map[string]time.Time{}
	for uid, j := range jobs {
		if j.Admitted() || j.Ended() {
			continue
		}
		firmware, err := r.firmware(ctx, j.Spec.NodeName)
		if err != nil {
			return nil, err
		}
		at, err := limits.First(j, firmware.Status.Machine, func(name string) (*v1alpha1.NodeDevice, error) {
			d := &v1alpha1.NodeDevice{}
			if err := r.client.Get(ctx, client.ObjectKey{Name: name}, d); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("read node device %s: %w", name, err)
			}
			return d, nil
		})
		if err != nil {
			return nil, err
		}
		if !at.IsZero() {
			out[uid] = at
		}
	}
	return out, nil
}

// priorityIn is the priority of the template that an origin names; 0 for a pin and for none.
func priorityIn(templates map[match.Ref]int, o *v1alpha1.Origin) int {
	if o == nil {
		return 0
	}
	return templates[match.Ref{Kind: o.Kind, Name: o.Name}]
}

// publish tells the room how many nodes wait under each policy with a limit, and for which updates no more need to be queued.
func (r *Reconciler) publish(f facts, d schedule.Decision) {
	if r.queues == nil {
		return
	}
	queues := map[string]queue.Counts{}
	for _, o := range d.Policies {
		if limit := f.policies[o.Name].Spec.MaxQueued; limit != nil {
			queues[o.Name] = QueueOf(o, int(*limit))
		}
	}
	var seen map[string]bool
	r.queues.Publish(queues, func(job string) bool {
		if seen == nil { // seldom asked for
			seen = make(map[string]bool, len(f.jobs))
			for _, j := range f.jobs {
				seen[j.Name] = true
			}
		}
		return seen[job]
	})
}

// refused is how many nodes of a policy are not queued because its queue is full.
func (r *Reconciler) refused(policy string) int {
	if r.queues == nil {
		return 0
	}
	return r.queues.Refused(policy)
}

// QueueOf is what the room has to know of the queue of a policy with that limit. One whose spec admits nothing queues nothing more: none of
// its jobs takes room, so that all nodes would be queued.
func QueueOf(o schedule.Outcome, limit int) queue.Counts {
	if o.Stopped {
		limit = 0
	}
	out := queue.Counts{Limit: limit, Stuck: map[schedule.Target]schedule.Reason{}}
	seen := map[string]bool{}
	for _, w := range o.Queue {
		if !seen[w.Node] && w.Reason.GoesOn() {
			out.Queued++
		}
		seen[w.Node] = true
	}
	for _, r := range o.Rollouts {
		if r.Reason != "" && !r.Reason.GoesOn() {
			out.Stuck[r.Target] = r.Reason
		}
	}
	return out
}

// nodesOf counts the nodes that wait.
func nodesOf(waiting []schedule.Waiting) int {
	seen := map[string]bool{}
	for _, w := range waiting {
		seen[w.Node] = true
	}
	return len(seen)
}

// due are the updates that the nodes are to get and that are not queued; nil without a planner that says so.
func (r *Reconciler) due() map[string][]schedule.Edge {
	if r.queues == nil {
		return nil
	}
	return r.queues.Due()
}
