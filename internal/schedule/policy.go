package schedule

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Settings are what the RolloutPolicy of a node says about how its jobs run.
type Settings struct {
	// Require is a set in order.
	Require    v1alpha1.Requirements
	HealthyFor v1alpha1.Duration
	// Pool is the policy that the node belongs to: of several that choose it the first by name.
	Pool string
	// Policy is the one policy whose queue the node waits in, "" when there is none or more, and MaxQueued its limit, nil for none: the
	// one that chooses the node, or an invalid one that may be meant for it.
	Policy    string
	MaxQueued *int32
	// Waves says that the policy has waves.
	Waves bool
	// InWave says that the nodeSelector of one of its waves selects the node, so that the limit does not refuse it.
	InWave bool
	// Halted are the targets that no node of the policy is updated to, until a person resumes.
	Halted []Target
	// Aborted says that no job is queued for the node.
	Aborted bool
}

// SettingsOf are the settings of the policies that admit jobs of a node with these labels. While several policies choose
// the node, nothing is admitted there, and what any of them requires and the longest duration count.
func SettingsOf(policies []v1alpha1.RolloutPolicy, node map[string]string) Settings {
	all := make([]Policy, len(policies))
	for i := range policies {
		all[i] = PoolOf(&policies[i])
	}
	chosen := Chosen(all, node)
	out := Settings{Pool: v1alpha1.DefaultRolloutPolicy}
	if len(chosen) > 0 {
		out.Pool = slices.Min(chosen)
	} else { // the policy default, which is not there yet, will require it
		out.Require = v1alpha1.Requirements{v1alpha1.RequireUnlock}
	}
	for i := range policies {
		spec := &policies[i].Spec
		if !slices.Contains(chosen, policies[i].Name) {
			continue
		}
		out.Require = append(out.Require, spec.Require...)
		if len(chosen) == 1 {
			out.Policy, out.MaxQueued = policies[i].Name, spec.MaxQueued
			out.Waves, out.Halted = len(spec.Waves) > 0, HaltsOf(&policies[i])
			out.InWave = spec.MaxQueued != nil && inWave(spec.Waves, node)
			if meant := meantFor(all, node); meant >= 0 && all[i].isDefault() {
				out.Policy, out.MaxQueued = policies[meant].Name, policies[meant].Spec.MaxQueued
			}
		}
		out.Aborted = out.Aborted || spec.State == v1alpha1.RolloutAborted
		if out.HealthyFor == "" || spec.HealthyFor.Duration(0) > out.HealthyFor.Duration(0) {
			out.HealthyFor = spec.HealthyFor
		}
	}
	slices.Sort(out.Require)
	out.Require = slices.Compact(out.Require)
	return out
}

// HaltsOf are the targets that the policy has halted.
func HaltsOf(p *v1alpha1.RolloutPolicy) []Target {
	var out []Target
	for i := range p.Status.Rollouts {
		if r := &p.Status.Rollouts[i]; r.HaltedTime != nil {
			out = append(out, Target{Model: r.Model, Version: r.Version, Digest: string(r.Digest)})
		}
	}
	return out
}

// meantFor is the place of the first invalid policy by name that may be meant for a node with these labels; -1 for none.
func meantFor(policies []Policy, node map[string]string) int {
	out := -1
	for i := range policies {
		p := &policies[i]
		if p.Invalid != "" && p.Selector.Matches(labels.Set(node)) && (out < 0 || p.Name < policies[out].Name) {
			out = i
		}
	}
	return out
}

// inWave reports whether the nodeSelector of a wave selects a node with these labels. An invalid one selects none.
func inWave(waves []v1alpha1.RolloutWave, node map[string]string) bool {
	return slices.ContainsFunc(waves, func(w v1alpha1.RolloutWave) bool {
		if w.NodeSelector == nil {
			return false
		}
		s, err := metav1.LabelSelectorAsSelector(w.NodeSelector)
		return err == nil && s.Matches(labels.Set(node))
	})
}

// PoolOf is which nodes a policy chooses, how many of them it lets go, and its ledger: what a node needs that asks which policy
// it belongs to.
func PoolOf(p *v1alpha1.RolloutPolicy) Policy {
	out := Policy{
		Name: p.Name, Paused: p.Spec.State == v1alpha1.RolloutPaused, Aborted: p.Spec.State == v1alpha1.RolloutAborted,
		Selector: labels.Everything(), MaxUnavailable: intstr.FromInt32(1),
	}
	if m := p.Spec.MaxUnavailable; m != nil {
		out.MaxUnavailable = *m
	}
	if !out.isDefault() && p.Spec.NodeSelector != nil {
		s, err := metav1.LabelSelectorAsSelector(p.Spec.NodeSelector)
		if err != nil {
			out.Invalid, s = fmt.Sprintf("spec.nodeSelector: %s", err), validPart(p.Spec.NodeSelector)
		}
		out.Selector = s
	}
	for _, e := range p.Status.Admitted {
		out.Ledger = append(out.Ledger, EntryOf(e))
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

// EntryOf is an entry of a ledger.
func EntryOf(e v1alpha1.AdmittedNode) Entry {
	return Entry{Node: e.Node, Job: e.Job, UID: e.JobUID}
}
