package rollout

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// Settings are what the RolloutPolicy of a node says about how its jobs run.
type Settings struct {
	// Require is a set in order.
	Require    v1alpha1.Requirements
	HealthyFor v1alpha1.Duration
	// Policy is the one policy that chooses the node, "" when there is none or more, and MaxQueued its limit, nil for none.
	Policy    string
	MaxQueued *int32
	// InWave says that the nodeSelector of one of its waves selects the node, so that the limit does not refuse it.
	InWave bool
	// Aborted says that no job is queued for the node.
	Aborted bool
}

// SettingsOf are the settings of the policies that admit jobs of a node with these labels. While several policies choose
// the node, nothing is admitted there, and what any of them requires and the longest duration count.
func SettingsOf(policies []v1alpha1.RolloutPolicy, node map[string]string) Settings {
	all := make([]schedule.Policy, len(policies))
	for i := range policies {
		all[i] = basicPolicy(&policies[i])
	}
	chosen := schedule.Chosen(all, node)
	var out Settings
	for i := range policies {
		spec := &policies[i].Spec
		if !slices.Contains(chosen, policies[i].Name) {
			continue
		}
		out.Require = append(out.Require, spec.Require...)
		if len(chosen) == 1 {
			out.Policy, out.MaxQueued = policies[i].Name, spec.MaxQueued
			out.InWave = spec.MaxQueued != nil && inWave(spec.Waves, node)
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
