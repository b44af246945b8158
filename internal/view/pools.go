package view

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// Pool is the rollout of a RolloutPolicy.
type Pool struct {
	Name   string                `json:"name"`
	State  v1alpha1.RolloutState `json:"state"`
	Reason string                `json:"reason"`
	Says   string                `json:"says"`
	Next   []Command             `json:"next"`
	// Nodes are the counts of the operator, and Counts the nodes by state.
	Nodes   v1alpha1.RolloutNodes   `json:"nodes"`
	Counts  map[State]int           `json:"counts"`
	Budget  string                  `json:"budget"`
	Domains []Domain                `json:"domains,omitempty"`
	Waiting []v1alpha1.WaitingNodes `json:"waiting,omitempty"`
	// Admitted are the nodes in the ledger.
	Admitted []string  `json:"admitted,omitempty"`
	Windows  []Window  `json:"windows,omitempty"`
	Open     []Span    `json:"open,omitempty"`
	Waves    []Wave    `json:"waves,omitempty"`
	Rollouts []Rollout `json:"rollouts,omitempty"`
	// Opens is when the windows next let nodes be admitted, and Ends when the rollout is expected to end.
	Opens *metav1.Time `json:"opens,omitempty"`
	Ends  *metav1.Time `json:"ends,omitempty"`
}

// Domain is the budget for nodes with the same value of a label.
type Domain struct {
	Key    string `json:"key"`
	Budget string `json:"budget"`
}

// Window is a window as it is declared.
type Window struct {
	Name   string                `json:"name"`
	Effect v1alpha1.WindowEffect `json:"effect"`
	When   string                `json:"when"`
}

// Span is a time in which nodes may be admitted.
type Span struct {
	From metav1.Time `json:"from"`
	To   metav1.Time `json:"to"`
}

// Wave is a wave as it is declared.
type Wave struct {
	Name string `json:"name"`
	Size string `json:"size,omitempty"`
	For  string `json:"for,omitempty"`
	Soak string `json:"soak,omitempty"`
}

// Rollout is how far an update is in the pool.
type Rollout struct {
	Model     string       `json:"model"`
	Version   string       `json:"version"`
	Wave      string       `json:"wave"`
	Done      int32        `json:"done"`
	Succeeded int32        `json:"succeeded"`
	Failed    int32        `json:"failed"`
	Halted    *metav1.Time `json:"halted,omitempty"`
	Says      string       `json:"says,omitempty"`
	Next      []Command    `json:"next,omitempty"`
}

// ahead is how far the windows are shown.
const ahead = 7 * 24 * time.Hour

func drawPools(policies []*v1alpha1.RolloutPolicy, rows map[string]*Row, now time.Time) []Pool {
	counts := map[string]map[State]int{}
	for _, r := range rows {
		if counts[r.Pool] == nil {
			counts[r.Pool] = map[State]int{}
		}
		counts[r.Pool][r.State]++
	}
	out := []Pool{}
	for _, p := range policies {
		out = append(out, drawPool(p, counts[p.Name], now))
	}
	return out
}

func drawPool(p *v1alpha1.RolloutPolicy, counts map[State]int, now time.Time) Pool {
	c := explain.Deciding(p.Status.Conditions)
	out := Pool{Name: p.Name, State: p.Spec.State, Reason: c.Reason, Counts: counts, Budget: "1", Waiting: p.Status.Waiting, Opens: p.Status.NextWindowTime, Ends: p.Status.EstimatedCompletionTime}
	out.Says, out.Next = said(c.Message)
	if m := p.Spec.MaxUnavailable; m != nil {
		out.Budget = m.String()
	}
	if p.Status.Nodes != nil {
		out.Nodes = *p.Status.Nodes
	}
	for _, b := range p.Spec.TopologyBudgets {
		d := Domain{Key: b.TopologyKey}
		if b.MaxUnavailable != nil {
			d.Budget = b.MaxUnavailable.String()
		}
		out.Domains = append(out.Domains, d)
	}
	for _, a := range p.Status.Admitted {
		out.Admitted = append(out.Admitted, a.Node)
	}
	for i := range p.Spec.Windows {
		out.Windows = append(out.Windows, windowOf(&p.Spec.Windows[i]))
	}
	out.Open = openOf(&p.Spec, now)
	for _, w := range p.Spec.Waves {
		wave := Wave{Name: w.Name, Soak: string(w.Soak)}
		if w.Size != nil {
			wave.Size = w.Size.String()
		}
		if w.NodeSelector != nil {
			wave.For = metav1.FormatLabelSelector(w.NodeSelector)
		}
		out.Waves = append(out.Waves, wave)
	}
	for _, r := range p.Status.Rollouts {
		one := Rollout{Model: r.Model, Version: r.Version, Wave: r.Wave, Done: r.Done, Succeeded: r.Succeeded, Failed: r.Failed, Halted: r.HaltedTime}
		one.Says, one.Next = said(r.Message)
		out.Rollouts = append(out.Rollouts, one)
	}
	return out
}

func windowOf(w *v1alpha1.RolloutWindow) Window {
	out := Window{Name: w.Name, Effect: cmp.Or(w.Effect, v1alpha1.WindowAllow)}
	if w.StartTime != nil && w.EndTime != nil {
		out.When = fmt.Sprintf("once, %s to %s", w.StartTime.UTC().Format(time.RFC3339), w.EndTime.UTC().Format(time.RFC3339))
		return out
	}
	out.When = fmt.Sprintf("%s for %s, %s", w.Schedule, w.Duration, cmp.Or(w.TimeZone, "UTC"))
	return out
}

// openOf is when the windows of a policy let nodes be admitted. Nothing where it has none, or where they are wrong, which its conditions say.
func openOf(spec *v1alpha1.RolloutPolicySpec, now time.Time) (out []Span) {
	calendar, err := schedule.CalendarOf(spec)
	if err != nil || calendar == nil {
		return nil
	}
	from := now.Truncate(time.Hour) // or each picture would be another one
	for at := from; at.Before(from.Add(ahead)) && len(out) < 200; {
		s := calendar.At(at)
		if !s.Open {
			if s.Opens.IsZero() {
				break
			}
			at = s.Opens
			continue
		}
		if n := len(out); n > 0 && !at.After(out[n-1].To.Time) {
			out[n-1].To = metav1.NewTime(s.Closes)
		} else {
			out = append(out, Span{metav1.NewTime(at), metav1.NewTime(s.Closes)})
		}
		at = s.Closes
	}
	return out
}
