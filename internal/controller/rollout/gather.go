package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// facts is what one pass found. The jobs and nodes belong to the cache and must not be changed.
type facts struct {
	policies map[string]*v1alpha1.RolloutPolicy
	jobs     map[string]*v1alpha1.FirmwareJob // by uid
	nodes    map[string]*corev1.Node
	// reports are the NodeFirmwares by name. Those of the nodes with an entry whose job is gone are from the API server itself.
	reports     map[string]*v1alpha1.NodeFirmware
	sources     []v1alpha1.FirmwareSource
	quarantines []v1alpha1.FirmwareQuarantine
	queued      queued
	edges       map[string][]schedule.JobEdge // by uid of the job
	// taken says by node who else has it, of the nodes with a queued job.
	taken map[string]string
	// unclear is why that is not known of some of them; it keeps no other node waiting.
	unclear error
	// priority is that of each job that is not admitted, by uid.
	priority map[string]int
	// fails is when the first device fails that a job updates which is not admitted, by uid.
	fails    map[string]time.Time
	schedule schedule.Facts
}

// gather reads the ledgers from the API server, nodes and jobs from the cache, and from the API server again what a
// stale cache could make the decision wrong about.
func (r *Reconciler) gather(ctx context.Context) (facts, error) {
	f := facts{policies: map[string]*v1alpha1.RolloutPolicy{}, jobs: map[string]*v1alpha1.FirmwareJob{}, nodes: map[string]*corev1.Node{},
		reports: map[string]*v1alpha1.NodeFirmware{}}
	var policies v1alpha1.RolloutPolicyList
	if err := r.direct.List(ctx, &policies); err != nil {
		return f, fmt.Errorf("list rollout policies: %w", err)
	}
	for i := range policies.Items {
		f.policies[policies.Items[i].Name] = &policies.Items[i]
	}
	if f.policies[v1alpha1.DefaultRolloutPolicy] == nil {
		f.policies[v1alpha1.DefaultRolloutPolicy] = newDefaultPolicy()
	}
	var jobs v1alpha1.FirmwareJobList
	if err := r.client.List(ctx, &jobs, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list firmware jobs: %w", err)
	}
	for i := range jobs.Items {
		f.addJob(&jobs.Items[i])
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		f.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	var reports v1alpha1.NodeFirmwareList
	if err := r.client.List(ctx, &reports, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list node firmwares: %w", err)
	}
	for i := range reports.Items {
		f.reports[reports.Items[i].Name] = &reports.Items[i]
	}
	if err := r.unheard.listen(ctx, r, f.reports); err != nil {
		return f, err
	}
	if err := r.confirm(ctx, f); err != nil {
		return f, err
	}
	r.lost.note(f, r.now())
	r.rememberLabels(f)
	r.noteWorking(f)
	r.dropSeen(f)
	r.calendars.keep(f.policies)
	var sources v1alpha1.FirmwareSourceList
	if err := r.client.List(ctx, &sources, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list firmware sources: %w", err)
	}
	f.sources = sources.Items
	var quarantines v1alpha1.FirmwareQuarantineList
	if err := r.client.List(ctx, &quarantines, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list firmware quarantines: %w", err)
	}
	f.quarantines = quarantines.Items
	var err error
	if f.queued, err = r.gatherQueued(ctx, f); err != nil {
		return f, err
	}
	if f.edges, err = r.edges(ctx, f.jobs); err != nil {
		return f, err
	}
	if f.fails, err = r.failures(ctx, f.jobs); err != nil {
		return f, err
	}
	if f.priority, err = r.priorities(ctx, f.jobs); err != nil {
		return f, err
	}
	f.taken, f.unclear = r.taken(ctx, f)
	f.schedule = r.scheduleFacts(f)
	return f, nil
}

// newDefaultPolicy is the policy that takes every node no other one selects, as it is before the first write of act.
func newDefaultPolicy() *v1alpha1.RolloutPolicy {
	return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultRolloutPolicy}}
}

// rememberLabels keeps the labels of the nodes in the ledgers, in case one of them is deleted before its job has ended. A process that
// never saw such a node does not know them.
func (r *Reconciler) rememberLabels(f facts) {
	labels := map[string]map[string]string{}
	for _, p := range f.policies {
		for _, e := range p.Status.Admitted {
			if n := f.nodes[e.Node]; n != nil {
				labels[e.Node] = maps.Clone(n.Labels)
				if n.Labels == nil {
					labels[e.Node] = map[string]string{}
				}
			} else if last, known := r.labels[e.Node]; known {
				labels[e.Node] = last
			}
		}
	}
	r.labels = labels
}

// addJob adds a job that takes a place. A backup disturbs nobody, so it takes none and waits for none.
func (f facts) addJob(j *v1alpha1.FirmwareJob) {
	if j.Spec.Task.Type != v1alpha1.JobTypeBackup {
		f.jobs[string(j.UID)] = j
	}
}

// confirm asks the API server about what the cache may not know yet and an entry depends on: jobs and nodes of entries
// that the cache lacks, the jobs of nodes in two ledgers, and jobs that seem to run, or to hold their nodes, without an entry.
func (r *Reconciler) confirm(ctx context.Context, f facts) error {
	ledgers, entered := map[string]int{}, map[string]bool{}
	for _, p := range f.policies {
		for _, e := range p.Status.Admitted {
			ledgers[e.Node]++
			entered[e.JobUID] = true
		}
	}
	for _, p := range f.policies {
		for _, e := range p.Status.Admitted {
			if f.nodes[e.Node] == nil {
				if err := r.confirmNode(ctx, f, e.Node); err != nil {
					return err
				}
			}
			if f.jobs[e.JobUID] == nil || ledgers[e.Node] > 1 {
				if err := r.confirmJob(ctx, f, e.Job, e.JobUID); err != nil {
					return err
				}
			}
			if f.jobs[e.JobUID] == nil {
				if err := r.readReport(ctx, f, e.Node); err != nil {
					return err
				}
			}
		}
	}
	for uid, j := range f.jobs {
		if s := r.state(j); (s == schedule.Admitted || s == schedule.Held) && !entered[uid] {
			if err := r.confirmJob(ctx, f, j.Name, uid); err != nil {
				return err
			}
			if s == schedule.Held { // the report says whether another job has taken the node over
				if err := r.readReport(ctx, f, j.Spec.NodeName); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *Reconciler) confirmNode(ctx context.Context, f facts, name string) error {
	n := &corev1.Node{}
	if err := r.direct.Get(ctx, types.NamespacedName{Name: name}, n); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read node %s: %w", name, err)
	}
	f.nodes[name] = n
	return nil
}

func (r *Reconciler) confirmJob(ctx context.Context, f facts, name, uid string) error {
	j := &v1alpha1.FirmwareJob{}
	err := r.direct.Get(ctx, types.NamespacedName{Name: name}, j)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(j.UID) != uid:
		delete(f.jobs, uid)
		return nil
	case err != nil:
		return fmt.Errorf("read firmware job %s: %w", name, err)
	}
	f.addJob(j)
	return nil
}

// readReport reads what the daemon of a node reports: whether it is at work on a job that is gone.
func (r *Reconciler) readReport(ctx context.Context, f facts, node string) error {
	n := &v1alpha1.NodeFirmware{}
	if err := r.direct.Get(ctx, types.NamespacedName{Name: node}, n); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read node firmware %s: %w", node, err)
	}
	f.reports[node] = n
	return nil
}

func (r *Reconciler) scheduleFacts(f facts) schedule.Facts {
	out := schedule.Facts{
		Now: r.now(), OwnNode: r.ownNode, UnheardUntil: r.unheard.until, Due: r.due(), Policies: make([]schedule.Policy, 0, len(f.policies)),
		Nodes: make([]schedule.Node, 0, len(f.nodes)), Jobs: make([]schedule.Job, 0, len(f.jobs)), Gone: r.labels,
	}
	learned := false
	for _, p := range f.policies {
		policy := r.policyOf(p)
		if !learned && policy.Calendar != nil {
			r.durations.Learn(f.jobs)
			learned = true
		}
		out.Policies = append(out.Policies, policy)
	}
	for _, n := range f.nodes {
		out.Nodes = append(out.Nodes, schedule.Node{
			Name: n.Name, Labels: n.Labels, Ready: isReady(n), Cordoned: n.Spec.Unschedulable, Taken: f.taken[n.Name],
			Scanned: f.queued.scanned[n.Name], Unhealthy: f.queued.unhealthy[n.Name],
			Runs: runs(f.reports[n.Name]), HeldBy: heldBy(f.reports[n.Name]),
			Lost: r.lost.is(n.Name, out.Now), Unheard: r.unheard.is(n.Name),
		})
	}
	for uid, j := range f.jobs {
		job := schedule.Job{
			Name: j.Name, UID: uid, Node: j.Spec.NodeName, Created: j.CreationTimestamp.Time, State: r.state(j),
			Steps: j.Spec.Task.Type != v1alpha1.JobTypeUpdate, Quarantined: f.queued.quarantined[uid], Unlisted: f.queued.unlisted[uid], Edges: f.edges[uid], Slow: schedule.SlowBoot(j),
			Priority: f.priority[uid], Fails: f.fails[uid], Planned: j.Labels[v1alpha1.ManagedByLabel] == v1alpha1.FieldOwnerOperator, Follows: j.Spec.Task.Follows,
		}
		for _, u := range j.Spec.Task.Devices {
			job.Devices = append(job.Devices, u.Name)
		}
		if learned && job.State == schedule.Queued {
			job.Expected = r.durations.Expect(&j.Spec)
		}
		out.Jobs = append(out.Jobs, job)
	}
	return out
}

// policy is what the schedule took of the policy of that name.
func (f facts) policy(name string) *schedule.Policy {
	at := slices.IndexFunc(f.schedule.Policies, func(p schedule.Policy) bool { return p.Name == name })
	return &f.schedule.Policies[at]
}

// runs is the name of the job that a node reports to be at work on; empty for none.
func runs(f *v1alpha1.NodeFirmware) string {
	if f == nil || f.Status.CurrentStep == nil {
		return ""
	}
	return f.Status.CurrentStep.Job
}

// heldBy is the name of the failed job that a node reports to be held by; empty for none.
func heldBy(f *v1alpha1.NodeFirmware) string {
	if f == nil {
		return ""
	}
	return f.Status.HeldBy
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// policyOf is what the schedule takes of a policy, with the calendar that is kept from pass to pass.
func (r *Reconciler) policyOf(p *v1alpha1.RolloutPolicy) schedule.Policy {
	c := r.calendars.of(p)
	return schedule.PolicyWith(p, c.Calendar, c.stopped, r.expected)
}
