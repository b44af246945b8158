package lab

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// RolloutReport is one update of the demo's first act: a model, the versions that ran, and the one it runs now.
type RolloutReport struct {
	Model   string   `json:"model"`
	From    []string `json:"from"`
	Version string   `json:"version"`
	// Waves that were seen open, in order, and the nodes that succeeded in all of them.
	Waves []string `json:"waves"`
	Nodes int      `json:"nodes"`
}

// inWaves is the policy of the demo: one node first, then two, and then as many as the budget allows.
func inWaves(maxUnavailable int) *v1alpha1.RolloutPolicy {
	p := policy(maxUnavailable)
	p.Spec.Waves = []v1alpha1.RolloutWave{
		{Name: "one", Size: ptr.To(intstr.FromInt32(1)), Soak: "1s"}, {Name: "three", Size: ptr.To(intstr.FromInt32(3)), Soak: "1s"},
	}
	return p
}

// lookAtWaves reads how far the updates are, and notes each wave that is seen open for the first time.
func (l *Lab) lookAtWaves(ctx context.Context) ([]v1alpha1.RolloutStatus, error) {
	p := &v1alpha1.RolloutPolicy{}
	if err := l.admin.Get(ctx, client.ObjectKey{Name: v1alpha1.DefaultRolloutPolicy}, p); err != nil {
		return nil, fmt.Errorf("read rollout policy: %w", err)
	}
	for _, r := range p.Status.Rollouts {
		is := func(o RolloutReport) bool {
			return o.Model == r.Model && o.Version == r.Version
		}
		at := slices.IndexFunc(l.rollouts, is)
		if at < 0 {
			at = len(l.rollouts)
			l.rollouts = append(l.rollouts, RolloutReport{Model: r.Model, Version: r.Version})
		}
		seen := &l.rollouts[at]
		if !slices.Contains(seen.Waves, r.Wave) {
			seen.Waves = append(seen.Waves, r.Wave)
		}
		seen.From, seen.Nodes = r.FromVersions, int(r.Done+r.Succeeded)
	}
	return p.Status.Rollouts, nil
}

// waveLine says for people how far an update is.
func waveLine(r v1alpha1.RolloutStatus) string {
	if r.HaltedTime == nil {
		return r.Message
	}
	return v1alpha1.ReasonRolloutHalted + ": " + r.Message
}

// resume waits until the update of a trial is halted, lifts that as a person would, and returns why it was halted.
func (l *Lab) resume(ctx context.Context, t trial, v *view, list []target) (string, error) {
	halted := ""
	until := func(done func([]v1alpha1.RolloutStatus) bool, missing string) error {
		return follow(ctx, v, func(ctx context.Context) (sight, error) {
			p, err := l.picture(ctx, list, v.began)
			if err != nil {
				return sight{}, err
			}
			if done(p.waves) {
				return sight{picture: p}, nil
			}
			return sight{p, []string{missing}}, nil
		})
	}
	isHalted := func(r v1alpha1.RolloutStatus) bool { return r.Version == t.bad.image.Version && r.HaltedTime != nil }
	err := until(func(rollouts []v1alpha1.RolloutStatus) bool {
		at := slices.IndexFunc(rollouts, isHalted)
		if at >= 0 {
			halted = rollouts[at].Message
		}
		return at >= 0
	}, "the rollout to be halted")
	if err != nil {
		return "", err
	}
	l.say("Halted: %s Resuming, as a person would after finding the cause.", halted)
	resumed := inWaves(1)
	resumed.Spec.Requests = &v1alpha1.RolloutRequests{Resume: "the firmware was at fault, " + time.Now().UTC().Format(time.RFC3339)}
	if err := l.declare(ctx, resumed); err != nil {
		return halted, fmt.Errorf("resume rollout: %w", err)
	}
	return halted, until(func(rollouts []v1alpha1.RolloutStatus) bool { return !slices.ContainsFunc(rollouts, isHalted) }, "the halt to be lifted")
}
