package simulation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
)

var start = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// options are those of a rollout in which nothing fails and every job takes 20 minutes.
func options(fleet []simulation.Node, policies ...v1alpha1.RolloutPolicy) simulation.Options {
	return simulation.Options{
		Seed: 1, Start: start, Horizon: 365 * 24 * time.Hour, Policies: policies, Fleet: fleet,
		Work: simulation.Work{Version: "2.0", Duration: simulation.ByModel[time.Duration]{Default: 20 * time.Minute}},
	}
}

func policy(name, maxUnavailable string) v1alpha1.RolloutPolicy {
	m := intstr.Parse(maxUnavailable)
	return v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutActive, MaxUnavailable: &m},
	}
}

func run(t *testing.T, o simulation.Options) *simulation.Result {
	t.Helper()
	r, err := simulation.Run(t.Context(), o)
	require.NoError(t, err)
	return r
}

func selector(pool string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
}

// windowed is a policy of the pool of its name with one window.
func windowed(pool, maxUnavailable, schedule string, length v1alpha1.Duration, zone string) v1alpha1.RolloutPolicy {
	p := policy(pool, maxUnavailable)
	p.Spec.NodeSelector = selector(pool)
	p.Spec.Windows = []v1alpha1.RolloutWindow{{Name: "window", Schedule: schedule, Duration: length, TimeZone: zone}}
	return p
}

// threePools are nodes of the pools cpu, gpu and storage.
func threePools(nodes int) []simulation.Node {
	return simulation.Made{Nodes: nodes, Seed: 1, Models: []simulation.Weighted{{Value: "A", Weight: 1}}, Labels: map[string][]simulation.Weighted{
		"pool": {{Value: "cpu", Weight: 4}, {Value: "gpu", Weight: 3}, {Value: "storage", Weight: 3}},
	}}.Fleet()
}

var intstrOne = intstr.FromInt32(1)

func ptrTo[T any](v T) *T { return &v }

func duration(d time.Duration) v1alpha1.Duration { return v1alpha1.Duration(d.String()) }
