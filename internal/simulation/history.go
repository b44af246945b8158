package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// history is how long jobs took, from which the operator learns how long the next ones are expected to take.
type history struct {
	schedule.Durations
	// jobs are the last ones of each set of models by uid, as many as count.
	jobs  map[string]*v1alpha1.FirmwareJob
	order map[string][]string
	// expected is by models what follows from them, and changed says that there are newer ones.
	expected map[string]time.Duration
	changed  bool
}

// kept is how many finished jobs of each set of models the history keeps at least.
const kept = 100

// spec is the job of a node as the operator makes it.
func (r *run) spec(n *node) v1alpha1.FirmwareJobSpec {
	out := v1alpha1.FirmwareJobSpec{NodeName: n.Name, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate}}
	for _, i := range n.updates {
		d := &n.devices[i]
		out.Task.Devices = append(out.Task.Devices, v1alpha1.TaskDevice{Name: d.Name, Version: d.To, Model: d.Model})
	}
	return out
}

// learn remembers the job of a node that succeeded now. Where no policy has windows nothing is expected of jobs.
func (r *run) learn(n *node, began time.Time) {
	if !slices.ContainsFunc(r.pools, func(p *pool) bool { return p.policy().Calendar != nil }) {
		return
	}
	h := &r.took
	if h.jobs == nil {
		h.jobs, h.order = map[string]*v1alpha1.FirmwareJob{}, map[string][]string{}
	}
	uid := fmt.Sprintf("%s-%d", n.Name, n.attempts)
	created := metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(began)}
	h.jobs[uid] = &v1alpha1.FirmwareJob{ObjectMeta: created, Spec: r.spec(n), Status: v1alpha1.FirmwareJobStatus{
		StartTime: ptr(metav1.NewTime(began)), CompletionTime: ptr(metav1.NewTime(r.now)),
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}},
	}}
	order := append(h.order[n.models], uid)
	if len(order) > kept {
		delete(h.jobs, order[0])
		order = order[1:]
	}
	h.order[n.models], h.changed = order, true
}

func ptr[T any](v T) *T { return &v }

// expected is how long the last job of a node is expected to take, 0 where too little is known.
func (r *run) expected(n *node) time.Duration {
	h := &r.took
	if len(h.jobs) == 0 {
		return 0
	}
	if h.changed {
		h.Learn(h.jobs)
		h.changed, h.expected = false, map[string]time.Duration{}
	}
	out, known := h.expected[n.models]
	if !known {
		spec := r.spec(n)
		out = h.Expect(&spec)
		h.expected[n.models] = out
	}
	return out
}

// inside is how much of the time of an admitted job must be in a window of its policy: what was expected of it at the most.
func (r *run) inside(n *node, took time.Duration) time.Duration {
	policy := n.pool.policy()
	if policy.Calendar == nil {
		return took
	}
	return min(took, cmp.Or(n.jobs[0].Expected, policy.Expected))
}
