package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// maxMessage bounds the messages of a record, as the API does.
const maxMessage = 1024

// planOf is how updates spread over the pool of a policy, and why that cannot be worked with; empty where it can.
func planOf(p *v1alpha1.RolloutPolicy) (out schedule.Plan, invalid string) {
	out = schedule.Plan{Resume: resumeOf(p.Spec.Requests), Resumed: resumeOf(p.Status.Requests), Halt: haltOf(p.Spec.Halt)}
	out.Edited = p.Status.WavesHash != wavesHash(p.Spec.Waves)
	before := 0
	for i, w := range p.Spec.Waves {
		wave := schedule.Wave{Name: w.Name, Size: w.Size, Soak: w.Soak.Duration(0)}
		if w.NodeSelector != nil {
			s, err := metav1.LabelSelectorAsSelector(w.NodeSelector)
			if err != nil {
				s, invalid = labels.Nothing(), cmp.Or(invalid, fmt.Sprintf("spec.waves[%d].nodeSelector: %s", i, err))
			}
			wave.Selector = s
		}
		if now := percent(w.Size); now > 0 {
			if now < before {
				invalid = cmp.Or(invalid, fmt.Sprintf("spec.waves[%d].size: sizes are cumulative, so %d%% must not follow %d%%", i, now, before))
			}
			before = now
		}
		out.Waves = append(out.Waves, wave)
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

// wavesHash tells waves from others; empty for none.
func wavesHash(waves []v1alpha1.RolloutWave) string {
	if len(waves) == 0 {
		return ""
	}
	content, _ := json.Marshal(waves) // it holds nothing that cannot be written
	return v1alpha1.ContentHash(string(content))
}

// percent is the size of a wave as a percentage, 0 where it is none.
func percent(size *intstr.IntOrString) int {
	if size == nil || size.Type == intstr.Int {
		return 0
	}
	return schedule.Budget(*size, 100)
}

func resumeOf(r *v1alpha1.RolloutRequests) string {
	if r == nil {
		return ""
	}
	return r.Resume
}

func haltOf(h *v1alpha1.RolloutHalt) *schedule.Halt {
	if h == nil {
		return nil
	}
	out := &schedule.Halt{MaxHeld: int(h.MaxHeld), MaxConsecutive: int(ptr.Deref(h.MaxConsecutiveFailures, 0))}
	out.MaxFailures = ptr.Deref(h.MaxFailures, intstr.IntOrString{})
	if p := h.LenientAfter; p != "" {
		out.LenientAfter = schedule.Budget(intstr.FromString(p), 100)
	}
	return out
}

func rolloutOf(r *v1alpha1.RolloutStatus) schedule.Rollout {
	out := schedule.Rollout{
		Target: schedule.Target{Model: r.Model, Version: r.Version, Digest: string(r.Digest)},
		Wave:   r.Wave, From: r.FromVersions, Done: int(r.Done), Succeeded: int(r.Succeeded), Failed: int(r.Failed), Consecutive: int(r.ConsecutiveFailures),
	}
	if t := r.LastVerdictTime; t != nil {
		out.LastVerdict = t.Time
	}
	if t := r.HaltedTime; t != nil {
		out.Halted = &schedule.Halted{Time: t.Time, Message: r.Message}
	}
	return out
}

// rolloutStatus is the record of an update as the API has it. The message of one that is halted says why, and is kept from pass to
// pass.
func rolloutStatus(s schedule.RolloutState) v1alpha1.RolloutStatus {
	out := v1alpha1.RolloutStatus{
		Model: s.Model, Version: s.Version, Digest: v1alpha1.Digest(s.Digest), Wave: s.Wave, FromVersions: s.From, LastVerdictTime: timeOf(s.LastVerdict),
		Done: int32(s.Done), Succeeded: int32(s.Succeeded), Failed: int32(s.Failed), ConsecutiveFailures: int32(s.Consecutive),
		Message: text.Clip(s.Message, maxMessage),
	}
	if h := s.Halted; h != nil {
		out.HaltedTime, out.Message = timeOf(h.Time), text.Clip(h.Message, maxHalted)
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
	s.Requests, s.Rollouts = nil, nil
	if o.Resumed != "" {
		s.Requests = &v1alpha1.RolloutRequests{Resume: o.Resumed}
	}
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
