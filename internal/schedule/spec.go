package schedule

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// PolicyOf is what the schedule takes of a policy: its spec with windows, why that is invalid, and its ledger. Expected is how long a
// job takes about which too little is known. The simulation takes policies by it as the reconciler does, which keeps the calendar of
// a spec from pass to pass.
func PolicyOf(p *v1alpha1.RolloutPolicy, expected time.Duration) Policy {
	calendar, err := CalendarOf(&p.Spec)
	stopped := ""
	if err != nil {
		stopped = err.Error()
	}
	return PolicyWith(p, calendar, stopped, expected)
}

// PolicyWith is PolicyOf for a policy whose calendar was made before; stopped says why that is invalid, and is empty where it is valid.
func PolicyWith(p *v1alpha1.RolloutPolicy, c *window.Calendar, stopped string, expected time.Duration) Policy {
	out := PoolOf(p)
	out.Calendar, out.Stopped, out.Expected = c, stopped, expected
	var invalid string
	if out.Plan, invalid = planOf(p); out.Stopped == "" {
		out.Stopped = invalid
	}
	for _, t := range p.Spec.TopologyBudgets {
		if t.MaxUnavailable != nil {
			out.Topology = append(out.Topology, TopologyBudget{Key: t.TopologyKey, MaxUnavailable: *t.MaxUnavailable})
		}
	}
	return out
}

// DefaultExpected is how long a job is expected to take while too little is known, unless the operator is told otherwise.
const DefaultExpected = 30 * time.Minute

// CalendarOf reads the windows of a policy; nil for none. The error starts with the path of the field that is wrong.
func CalendarOf(spec *v1alpha1.RolloutPolicySpec) (*window.Calendar, error) {
	var allow, deny []window.Rule
	for i := range spec.Windows {
		w := &spec.Windows[i]
		rule, err := ruleOf(w)
		var field *window.FieldError
		switch {
		case errors.As(err, &field):
			return nil, fmt.Errorf("spec.windows[%d].%w", i, err)
		case err != nil:
			return nil, fmt.Errorf("spec.windows[%d]: %w", i, err)
		case w.Effect == v1alpha1.WindowDeny:
			deny = append(deny, rule)
		default:
			allow = append(allow, rule)
		}
	}
	if len(allow)+len(deny) == 0 {
		return nil, nil
	}
	return window.New(allow, deny), nil
}

func ruleOf(w *v1alpha1.RolloutWindow) (window.Rule, error) {
	if w.StartTime != nil && w.EndTime != nil {
		return window.Once(w.Name, w.StartTime.Time, w.EndTime.Time)
	}
	return window.Recurring(w.Name, w.Schedule, w.Duration.Duration(0), w.TimeZone)
}

// planOf is how updates spread over the pool of a policy, and why that is invalid; empty where it is valid.
func planOf(p *v1alpha1.RolloutPolicy) (out Plan, invalid string) {
	out = Plan{Resume: ResumeOf(p.Spec.Requests), Resumed: ResumeOf(p.Status.Requests), Halt: haltOf(p.Spec.Halt)}
	out.Edited = p.Status.WavesHash != WavesHash(p.Spec.Waves)
	before := 0
	for i, w := range p.Spec.Waves {
		wave := Wave{Name: w.Name, Size: w.Size, Soak: w.Soak.Duration(0)}
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
		out.Rollouts = append(out.Rollouts, RolloutOf(&p.Status.Rollouts[i]))
	}
	for _, e := range p.Status.Admitted {
		if e.Verdict != "" {
			out.Judged = append(out.Judged, e.JobUID)
		}
	}
	return out, invalid
}

// WavesHash tells waves from others; empty for none.
func WavesHash(waves []v1alpha1.RolloutWave) string {
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
	return Budget(*size, 100)
}

// ResumeOf is the request to resume; empty for none.
func ResumeOf(r *v1alpha1.RolloutRequests) string {
	if r == nil {
		return ""
	}
	return r.Resume
}

func haltOf(h *v1alpha1.RolloutHalt) *Halt {
	if h == nil {
		return nil
	}
	out := &Halt{MaxHeld: int(h.MaxHeld), MaxConsecutive: int(ptr.Deref(h.MaxConsecutiveFailures, 0))}
	out.MaxFailures = ptr.Deref(h.MaxFailures, intstr.IntOrString{})
	if p := h.LenientAfter; p != "" {
		out.LenientAfter = Budget(intstr.FromString(p), 100)
	}
	return out
}

// RolloutOf is what a policy remembers about an update.
func RolloutOf(r *v1alpha1.RolloutStatus) Rollout {
	out := Rollout{
		Target: Target{Model: r.Model, Version: r.Version, Digest: string(r.Digest)},
		Wave:   r.Wave, From: r.FromVersions, Done: int(r.Done), Succeeded: int(r.Succeeded), Failed: int(r.Failed), Consecutive: int(r.ConsecutiveFailures),
		Slow: int(r.SlowBoots),
	}
	if t := r.LastVerdictTime; t != nil {
		out.LastVerdict = t.Time
	}
	if t := r.HaltedTime; t != nil {
		out.Halted = &Halted{Time: t.Time, Message: r.Message}
	}
	return out
}
