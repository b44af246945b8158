package simulation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// Result is what came of a simulation: the report, and what the picture is drawn from.
type Result struct {
	Report Report
	// Options are those of the simulation.
	Options Options
	pools   []*pool
}

func (r *run) result(why Ending) *Result {
	out := &Result{Options: r.Options, Report: Report{
		Seed: r.Seed, Nodes: len(r.nodes), Ending: why, Start: r.Start, End: r.now, Passes: r.passes, NotDue: r.NotDue,
	}}
	for _, p := range r.pools {
		if len(p.nodes) == 0 {
			continue
		}
		report := r.policyReport(p)
		out.pools = append(out.pools, p)
		out.Report.Policies = append(out.Report.Policies, report)
		if report.LowerBound > out.Report.LowerBound {
			out.Report.LowerBound = report.LowerBound
		}
		out.Report.Makespan = max(out.Report.Makespan, report.Makespan)
	}
	if why != Complete {
		out.Report.Makespan = 0
	}
	out.Report.Ratio = ratio(out.Report.Makespan, out.Report.LowerBound)
	return out
}

func (r *run) policyReport(p *pool) PolicyReport {
	o := p.outcome()
	out := PolicyReport{
		Name: p.name, Nodes: o.Nodes, Budget: o.Budget, PeakUnavailable: p.peak, Jobs: p.count, Waiting: p.waiting(), Ready: r.ready(p),
	}
	for _, n := range p.nodes {
		if n.done {
			out.Done++
		}
	}
	out.Bounds = r.bounds(p)
	for _, b := range out.Bounds {
		out.LowerBound = max(out.LowerBound, b)
	}
	out.Waves = p.waves()
	if out.nothingDue() {
		return out
	}
	if out.Done == len(p.nodes) {
		out.Makespan = p.last.Sub(r.Start).Seconds()
		finished := p.last
		out.Finished = &finished
	}
	out.Ratio = ratio(out.Makespan, out.LowerBound)
	return out
}

// nothingDue reports whether no node of the policy had anything to update.
func (p PolicyReport) nothingDue() bool { return p.Done == p.Nodes && p.Jobs.Admitted == 0 }

// ready is what the policy says at the end, by the same mapping as in a cluster.
func (r *run) ready(p *pool) string {
	policy := p.policy()
	conditions := status.Policy(status.PolicyFacts{
		Outcome: p.outcome(), Invalid: policy.Invalid, Stopped: policy.Stopped, Paused: policy.Paused, Aborted: policy.Aborted, MaxUnavailable: policy.MaxUnavailable.String(),
		Refused: p.part.queues.Refused(p.name), Selects: !policy.Selector.Empty(),
	}, nil, 1, r.now)
	for _, c := range conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c.Message
		}
	}
	return string(metav1.ConditionUnknown)
}

// ratio is how much longer the rollout took than the bound, to four digits; 0 when either is not known.
func ratio(makespan, bound float64) float64 {
	if makespan == 0 || bound == 0 {
		return 0
	}
	const digits = 1e4
	return float64(int(makespan/bound*digits+0.5)) / digits
}

func seconds(d time.Duration) float64 { return d.Round(time.Second).Seconds() }
