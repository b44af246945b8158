package simulation

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// history is how long jobs took, from which the operator learns how long the next ones are expected to take.
type history struct {
	rollout.Durations
	// jobs are the last ones of each set of models by uid, as many as count.
	jobs  map[string]*v1alpha1.FirmwareJob
	order map[string][]string
	// changed says that the queue does not know yet what was learned.
	changed bool
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
	timed := func(p schedule.Policy) bool { return p.Calendar != nil }
	if !slices.ContainsFunc(r.facts.Policies, timed) {
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
	models := n.models()
	order := append(h.order[models], uid)
	if len(order) > kept {
		delete(h.jobs, order[0])
		order = order[1:]
	}
	h.order[models], h.changed = order, true
}

func ptr[T any](v T) *T { return &v }

// expect says of every queued job how long it is expected to take.
func (r *run) expect() {
	if len(r.took.jobs) == 0 {
		return
	}
	if r.took.changed {
		r.took.Learn(r.took.jobs)
		r.took.changed = false
	}
	models := map[string]time.Duration{}
	for i := range r.facts.Jobs {
		j := &r.facts.Jobs[i]
		n := r.byName[j.Node]
		expected, known := models[n.models()]
		if !known {
			spec := r.spec(n)
			expected = r.took.Expect(&spec)
			models[n.models()] = expected
		}
		j.Expected = expected
	}
}

// inside is how much of the time of an admitted job must be in a window of its policy: what was expected of it at the most.
func (r *run) inside(n *node, took time.Duration) time.Duration {
	policy := r.facts.Policies[n.pool.at]
	if policy.Calendar == nil {
		return took
	}
	expected := policy.Expected
	if len(r.took.jobs) > 0 {
		spec := r.spec(n)
		if e := r.took.Expect(&spec); e > 0 {
			expected = e
		}
	}
	return min(took, expected)
}
