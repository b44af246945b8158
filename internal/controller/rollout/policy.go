package rollout

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// PolicyOf is what the schedule takes of a policy: its spec with windows, why that is invalid, and its ledger. Expected is how long a
// job takes about which too little is known. The simulation takes policies by it as the reconciler does, which keeps the calendar of
// a spec from pass to pass.
func PolicyOf(p *v1alpha1.RolloutPolicy, expected time.Duration) schedule.Policy {
	return policyWith(p, newCalendar(p), expected)
}

// policyWith is what the schedule takes of a policy whose calendar was made before.
func policyWith(p *v1alpha1.RolloutPolicy, c calendar, expected time.Duration) schedule.Policy {
	out := basicPolicy(p)
	out.Calendar, out.Stopped, out.Expected = c.Calendar, c.stopped, expected
	var invalid string
	if out.Plan, invalid = planOf(p); out.Stopped == "" {
		out.Stopped = invalid
	}
	for _, t := range p.Spec.TopologyBudgets {
		if t.MaxUnavailable != nil {
			out.Topology = append(out.Topology, schedule.TopologyBudget{Key: t.TopologyKey, MaxUnavailable: *t.MaxUnavailable})
		}
	}
	return out
}

// DefaultExpected is how long a job is expected to take while too little is known, unless the operator is told otherwise.
const DefaultExpected = 30 * time.Minute

// basicPolicy is which nodes a policy chooses, how many of them it lets go, and its ledger: what a node needs that asks which policy
// it belongs to.
func basicPolicy(p *v1alpha1.RolloutPolicy) schedule.Policy {
	out := schedule.Policy{
		Name: p.Name, Paused: p.Spec.State == v1alpha1.RolloutPaused, Aborted: p.Spec.State == v1alpha1.RolloutAborted,
		Selector: labels.Everything(), MaxUnavailable: intstr.FromInt32(1),
	}
	if m := p.Spec.MaxUnavailable; m != nil {
		out.MaxUnavailable = *m
	}
	if p.Name != v1alpha1.DefaultRolloutPolicy && p.Spec.NodeSelector != nil {
		s, err := metav1.LabelSelectorAsSelector(p.Spec.NodeSelector)
		if err != nil {
			out.Invalid, s = fmt.Sprintf("spec.nodeSelector: %s", err), validPart(p.Spec.NodeSelector)
		}
		out.Selector = s
	}
	for _, e := range p.Status.Admitted {
		out.Ledger = append(out.Ledger, entryOf(e))
	}
	return out
}

// validPart is the selector without its invalid requirements. What a person meant by the whole chooses no other nodes,
// because all requirements must hold.
func validPart(selector *metav1.LabelSelector) labels.Selector {
	out := labels.NewSelector()
	add := func(part metav1.LabelSelector) {
		if s, err := metav1.LabelSelectorAsSelector(&part); err == nil {
			requirements, _ := s.Requirements()
			out = out.Add(requirements...)
		}
	}
	for key, value := range selector.MatchLabels {
		add(metav1.LabelSelector{MatchLabels: map[string]string{key: value}})
	}
	for _, e := range selector.MatchExpressions {
		add(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}})
	}
	return out
}

func entryOf(e v1alpha1.AdmittedNode) schedule.Entry {
	return schedule.Entry{Node: e.Node, Job: e.Job, UID: e.JobUID}
}
