package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// maxMessage bounds the messages of a record, as the API does.
const maxMessage = 1024

// planOf is how updates spread over the pool of a policy, and why that cannot be worked with; empty where it can.
func planOf(p *v1alpha1.RolloutPolicy) (out schedule.Plan, invalid string) {
	out = schedule.Plan{Resume: p.Spec.Resume, Resumed: p.Status.Resumed, Deadline: durationOf(p.Spec.Deadline)}
	before := 0
	for i, w := range p.Spec.Waves {
		wave := schedule.Wave{Name: w.Name, Size: w.Size, Soak: durationOf(w.Soak)}
		if w.NodeSelector != nil {
			s, err := metav1.LabelSelectorAsSelector(w.NodeSelector)
			if err != nil {
				s, invalid = labels.Nothing(), cmp.Or(invalid, fmt.Sprintf("spec.waves[%d].nodeSelector: %s", i, err))
			}
			wave.Selector = s
		}
		if now := percent(w.Size); now > 0 {
			if now < before {
				invalid = cmp.Or(invalid, fmt.Sprintf("spec.waves[%d].size: it counts the nodes of the waves before, so %d%% must not follow %d%%", i, now, before))
			}
			before = now
		}
		out.Waves = append(out.Waves, wave)
	}
	if x := p.Spec.Exponential; x != nil {
		out.Exponential = &schedule.Exponential{Start: 1, Soak: durationOf(x.Soak)}
		if x.Start != nil {
			out.Exponential.Start = int(*x.Start)
		}
	}
	if h := p.Spec.Halt; h != nil {
		out.Halt = &schedule.Halt{}
		if h.MaxFailures != nil {
			out.Halt.MaxFailures = int(*h.MaxFailures)
		}
		if h.MaxFailedPercent != nil {
			out.Halt.MaxFailedPercent = int(*h.MaxFailedPercent)
		}
	}
	for i := range p.Status.Rollouts {
		out.Rollouts = append(out.Rollouts, rolloutOf(&p.Status.Rollouts[i]))
	}
	for _, e := range p.Status.Admitted {
		if e.Verdict != "" {
			out.Judged = append(out.Judged, e.JobUID)
		}
	}
	return out, invalid
}

// percent is the size of a wave as a percentage, 0 where it is none.
func percent(size *intstr.IntOrString) int {
	if size == nil || size.Type == intstr.Int {
		return 0
	}
	return schedule.Budget(*size, 100)
}

func durationOf(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

func rolloutOf(r *v1alpha1.RolloutStatus) schedule.Rollout {
	out := schedule.Rollout{
		Edge: schedule.Edge{Model: r.Model, From: r.FromVersion, Version: r.Version, Digest: string(r.Digest)},
		Wave: r.Wave, Done: int(r.Done), Succeeded: int(r.Succeeded), Failed: int(r.Failed),
	}
	if t := r.StartTime; t != nil {
		out.Started = t.Time
	}
	if t := r.LastVerdictTime; t != nil {
		out.LastVerdict = t.Time
	}
	if h := r.Halted; h != nil {
		out.Halted = &schedule.Halted{Reason: schedule.HaltReason(h.Reason), Node: h.Node, Job: h.Job, Message: h.Message, Time: h.Time.Time}
	}
	return out
}

// rolloutStatus is the record of an edge as the API has it.
func rolloutStatus(s schedule.RolloutState) v1alpha1.RolloutStatus {
	out := v1alpha1.RolloutStatus{
		Model: s.Model, FromVersion: s.From, Version: s.Version, Digest: v1alpha1.Digest(s.Digest), Wave: s.Wave,
		StartTime: timeOf(s.Started), LastVerdictTime: timeOf(s.LastVerdict),
		Done: int32(s.Done), Succeeded: int32(s.Succeeded), Failed: int32(s.Failed), Running: int32(s.Running), Waiting: int32(s.Waiting),
		Reason: string(s.Reason), Message: text.Clip(s.Message, maxMessage),
	}
	if h := s.Halted; h != nil {
		out.Halted = &v1alpha1.HaltedRollout{
			Reason: string(h.Reason), Node: h.Node, Job: h.Job, Message: text.Clip(h.Message, maxHalted), Time: metav1.NewTime(h.Time.Truncate(time.Second)),
		}
	}
	return out
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}

// writeRollouts puts the records of a decision into a status whose ledger is that of the decision.
func writeRollouts(s *v1alpha1.RolloutPolicyStatus, o schedule.Outcome) {
	s.Resumed, s.Rollouts = o.Resumed, nil
	for _, state := range o.Rollouts {
		s.Rollouts = append(s.Rollouts, rolloutStatus(state))
	}
	for i := range s.Admitted {
		s.Admitted[i].Verdict = ""
		if slices.Contains(o.Judged, s.Admitted[i].JobUID) {
			s.Admitted[i].Verdict = v1alpha1.VerdictFailed
		}
	}
}
