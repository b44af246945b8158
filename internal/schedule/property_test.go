package schedule_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// fleet is a cluster as the API server holds it, with an operator that may lose any of its writes.
type fleet struct {
	policies map[string]schedule.Policy
	nodes    map[string]schedule.Node
	jobs     map[string]schedule.Job
	created  int
}

func newFleet() *fleet {
	f := &fleet{policies: map[string]schedule.Policy{}, nodes: map[string]schedule.Node{}, jobs: map[string]schedule.Job{}}
	for _, p := range []schedule.Policy{
		policy("default", "", intstr.FromInt32(1)), policy("a", "pool in (a,both)", intstr.FromInt32(2)), policy("b", "pool in (b,both)", intstr.FromString("40%")),
	} {
		f.policies[p.Name] = p
	}
	for i := range 8 {
		name := fmt.Sprintf("n%d", i)
		f.nodes[name] = schedule.Node{Name: name, Ready: true, Labels: map[string]string{"pool": []string{"a", "b", ""}[i%3]}}
	}
	return f
}

func (f *fleet) facts() schedule.Facts {
	return schedule.Facts{
		Policies: slices.Collect(maps.Values(f.policies)), Nodes: slices.Collect(maps.Values(f.nodes)),
		Jobs: slices.Collect(maps.Values(f.jobs)), OwnNode: "n0",
	}
}

func pick[V any](t *rapid.T, m map[string]V, label string) string {
	if len(m) == 0 {
		t.Skip("none")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m))).Draw(t, label)
}

// pass runs the operator once: ledgers first, then the conditions. Either write may be lost, as in a crash.
func (f *fleet) pass(t *rapid.T, lose bool) {
	facts := f.facts()
	d := schedule.Decide(facts)
	f.check(t, facts, d)
	written := map[string]bool{}
	for _, o := range d.Policies {
		if !lose || rapid.Bool().Draw(t, "ledger write of "+o.Name+" arrives") {
			p := f.policies[o.Name]
			p.Ledger = slices.Clone(o.Ledger)
			f.policies[o.Name] = p
			written[o.Name] = true
		}
	}
	for _, a := range d.Admit {
		if (!a.New || written[a.Policy]) && (!lose || rapid.Bool().Draw(t, "condition of "+a.Entry.Job+" arrives")) {
			j := f.jobs[a.Entry.UID]
			j.State = schedule.Admitted
			f.jobs[a.Entry.UID] = j
		}
	}
	f.checkLedgers(t)
}

// check proves what must hold of each decision.
func (f *fleet) check(t *rapid.T, facts schedule.Facts, d schedule.Decision) {
	for _, o := range d.Policies {
		p := f.policies[o.Name]
		open := !p.Paused && o.Budget > 0
		if admitted := len(o.Add) - o.Adopted; admitted > 0 {
			require.True(t, open, "policy %s admits though it is paused or has no budget", o.Name)
			require.LessOrEqual(t, o.Unavailable, o.Budget, "policy %s exceeds its budget", o.Name)
		}
		require.Equal(t, f.disturbed(o), o.Unavailable, "policy %s counts the disturbed nodes", o.Name)
		for _, r := range o.Remove {
			j, found := f.jobs[r.Entry.UID]
			_, node := f.nodes[r.Entry.Node]
			require.False(t, f.reports(r.Entry), "%v loses its place while its node is at work", r)
			require.True(t, !found || !node && j.State != schedule.Admitted || j.State == schedule.Finished || r.Why == schedule.Duplicate,
				"%v loses its place", r)
		}
	}
	f.checkFairness(t, d)
	f.checkRefusals(t, d)
	// However the facts are ordered, and once the decision has happened, nothing more follows.
	slices.SortFunc(facts.Jobs, func(a, b schedule.Job) int { return -a.Created.Compare(b.Created) })
	slices.SortFunc(facts.Nodes, func(a, b schedule.Node) int { return len(b.Labels["pool"]) - len(a.Labels["pool"]) })
	slices.SortFunc(facts.Policies, func(a, b schedule.Policy) int { return len(a.Name) - len(b.Name) })
	require.Equal(t, d, schedule.Decide(facts))
	for i, p := range facts.Policies {
		at := slices.IndexFunc(d.Policies, func(o schedule.Outcome) bool { return o.Name == p.Name })
		facts.Policies[i].Ledger = d.Policies[at].Ledger
	}
	for _, o := range schedule.Decide(facts).Policies {
		require.False(t, o.Changed(), "policy %s is not quiet after its decision", o.Name)
	}
}

// disturbed counts the nodes that use up a policy's budget, from first principles.
func (f *fleet) disturbed(o schedule.Outcome) int {
	ledgers := map[string]bool{}
	for name, p := range f.policies {
		ledger := p.Ledger
		if name == o.Name {
			ledger = o.Ledger
		}
		for _, e := range ledger {
			j, found := f.jobs[e.UID]
			if found && j.State != schedule.Finished || f.reports(e) {
				ledgers[e.Node] = true
			}
		}
	}
	used := map[string]bool{}
	for _, e := range o.Ledger {
		used[e.Node] = true
	}
	for _, n := range f.nodes {
		if f.chooses(o.Name, n) && (!n.Ready || n.Cordoned || n.Runs != "" || n.HeldBy != "" || n.Unheard || ledgers[n.Name]) {
			used[n.Name] = true
		}
	}
	return len(used)
}

// reports says whether the node of an entry reports a job whose object is gone.
func (f *fleet) reports(e schedule.Entry) bool {
	_, found := f.jobs[e.UID]
	n := f.nodes[e.Node]
	return !found && (n.Runs == e.Job || n.HeldBy != "")
}

func (f *fleet) chooses(policy string, n schedule.Node) bool {
	others := 0
	for name, p := range f.policies {
		if name != "default" && p.Selector.Matches(labels.Set(n.Labels)) {
			if name == policy {
				return true
			}
			others++
		}
	}
	return policy == "default" && others == 0
}

// checkFairness proves that no job of a ready, free node is passed over for a younger one in the same pool, unless the
// younger one costs nothing.
func (f *fleet) checkFairness(t *rapid.T, d schedule.Decision) {
	for _, w := range d.Wait {
		if w.Reason != schedule.BudgetExhausted || w.Node == "n0" {
			continue
		}
		for _, o := range d.Policies {
			for _, e := range o.Add {
				j := f.jobs[e.UID]
				n := f.nodes[e.Node]
				free := n.Cordoned || n.Runs != "" || n.HeldBy != "" || n.Unheard || j.State != schedule.Queued
				if o.Name == w.Policy && !free {
					require.False(t, j.Created.After(f.jobs[w.UID].Created), "%s is admitted before %s", j.Name, w.Job)
				}
			}
		}
	}
}

// checkRefusals proves that a job that must not be admitted gets no place and is not admitted, and that the reason is known.
func (f *fleet) checkRefusals(t *rapid.T, d schedule.Decision) {
	reasons := map[string]schedule.Reason{}
	for _, w := range d.Wait {
		reasons[w.UID] = w.Reason
	}
	for uid, j := range f.inState(schedule.Queued) {
		why := f.refusal(j)
		if why == "" {
			continue
		}
		for _, o := range d.Policies {
			gets := slices.ContainsFunc(o.Add, func(e schedule.Entry) bool { return e.UID == uid }) ||
				slices.ContainsFunc(o.Replace, func(r schedule.TakeOver) bool { return r.New.UID == uid })
			require.False(t, gets, "refused job %s gets a place", j.Name)
		}
		require.False(t, slices.ContainsFunc(d.Admit, func(a schedule.Admission) bool { return a.Entry.UID == uid }), "refused job %s is admitted", j.Name)
		if f.nodes[j.Node].Name != "" {
			require.Equal(t, why, reasons[uid], "it is known why job %s waits", j.Name)
		}
	}
}

// refusal is why a job must not be admitted, from first principles.
func (f *fleet) refusal(j schedule.Job) schedule.Reason {
	held := slices.ContainsFunc(slices.Collect(maps.Values(f.jobs)), func(o schedule.Job) bool { return o.Node == j.Node && o.State == schedule.Held })
	switch n := f.nodes[j.Node]; {
	case j.Steps && !held && !n.Scanned:
		return schedule.NodeNotReady
	case j.Steps:
	case j.Quarantined != nil:
		return schedule.Quarantined
	case len(n.Unhealthy) > 0 && (held || slices.Equal(j.Devices, []string{n.Unhealthy[0].Name})):
		return schedule.DeviceUnhealthy
	}
	return ""
}

// checkLedgers proves what must hold of the objects at all times.
func (f *fleet) checkLedgers(t *rapid.T) {
	owner := map[string]string{}
	for _, p := range f.policies {
		seen := map[string]bool{}
		for _, e := range p.Ledger {
			require.False(t, seen[e.Node], "node %s stands twice in one ledger", e.Node)
			seen[e.Node] = true
			j, found := f.jobs[e.UID]
			if (!found || j.State == schedule.Finished) && !f.reports(e) {
				continue
			}
			require.Empty(t, owner[e.Node], "node %s has two jobs", e.Node)
			owner[e.Node] = e.UID
		}
	}
	for _, j := range f.jobs {
		if j.State == schedule.Admitted {
			require.Equal(t, owner[j.Node], j.UID, "job %s runs without a place", j.Name)
		}
	}
}

func (f *fleet) set(uid string, s schedule.JobState) {
	j := f.jobs[uid]
	j.State = s
	f.jobs[uid] = j
}

func (f *fleet) inState(s schedule.JobState) map[string]schedule.Job {
	out := map[string]schedule.Job{}
	for uid, j := range f.jobs {
		if j.State == s {
			out[uid] = j
		}
	}
	return out
}

// R000-54, I3: whatever happens, in whatever order, and whatever writes are lost, no budget is exceeded and no node has
// two jobs.
func TestBudgetsHoldUnderAnyEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet()
		t.Repeat(map[string]func(*rapid.T){
			"pass":           func(t *rapid.T) { f.pass(t, false) },
			"pass that dies": func(t *rapid.T) { f.pass(t, true) },
			"queue": func(t *rapid.T) {
				f.created++
				j := job(pick(t, f.nodes, "node"), f.created, schedule.Queued)
				j.Steps = rapid.IntRange(0, 9).Draw(t, "steps") == 0
				j.Devices = []string{rapid.SampledFrom([]string{"nic", "disk"}).Draw(t, "device")}
				f.jobs[j.UID] = j
			},
			"finish":  func(t *rapid.T) { f.set(pick(t, f.inState(schedule.Admitted), "job"), schedule.Finished) },
			"fail":    func(t *rapid.T) { f.set(pick(t, f.inState(schedule.Admitted), "job"), schedule.Held) },
			"release": func(t *rapid.T) { f.set(pick(t, f.inState(schedule.Held), "job"), schedule.Finished) },
			"cancel":  func(t *rapid.T) { f.set(pick(t, f.inState(schedule.Queued), "job"), schedule.Cancelled) },
			"quarantine or lift": func(t *rapid.T) {
				j := f.jobs[pick(t, f.inState(schedule.Queued), "job")]
				j.Quarantined = rapid.SampledFrom([]*schedule.QuarantinedUpdate{nil, {Device: "nic"}}).Draw(t, "quarantined")
				f.jobs[j.UID] = j
			},
			"device fails or is cleared": func(t *rapid.T) {
				n := f.nodes[pick(t, f.nodes, "node")]
				n.Unhealthy = rapid.SampledFrom([][]schedule.UnhealthyDevice{nil, {{Name: "nic", Job: "j"}}}).Draw(t, "unhealthy")
				f.nodes[n.Name] = n
			},
			"scan": func(t *rapid.T) {
				n := f.nodes[pick(t, f.nodes, "node")]
				n.Scanned = true
				f.nodes[n.Name] = n
			},
			"delete queued job": func(t *rapid.T) {
				delete(f.jobs, pick(t, f.inState(schedule.Queued), "job"))
			},
			// The finalizer of a begun job was taken away by hand: the node goes on, and reports it.
			"delete begun job": func(t *rapid.T) {
				j := f.jobs[pick(t, f.inState(schedule.Admitted), "job")]
				if n, exists := f.nodes[j.Node]; exists {
					n.Runs = j.Name
					f.nodes[j.Node] = n
					delete(f.jobs, j.UID)
				}
			},
			// The API server was restored from a backup that has neither the job nor its entry. The node reports the job once its
			// daemon sees that; until then it is unheard of.
			"begun job and its entry are lost": func(t *rapid.T) {
				j := f.jobs[pick(t, f.inState(schedule.Admitted), "job")]
				n, exists := f.nodes[j.Node]
				if !exists {
					return
				}
				n.Runs, n.Unheard = j.Name, rapid.Bool().Draw(t, "unheard")
				if n.Unheard {
					n.Runs = ""
				}
				f.nodes[j.Node] = n
				delete(f.jobs, j.UID)
				for name, p := range f.policies {
					p.Ledger = slices.DeleteFunc(slices.Clone(p.Ledger), func(e schedule.Entry) bool { return e.UID == j.UID })
					f.policies[name] = p
				}
			},
			"begun job without object fails": func(t *rapid.T) {
				n := f.nodes[pick(t, f.nodes, "node")]
				n.HeldBy, n.Runs, n.Unheard = n.HeldBy+n.Runs, "", false
				f.nodes[n.Name] = n
			},
			"begun job without object ends": func(t *rapid.T) {
				n := f.nodes[pick(t, f.nodes, "node")]
				n.HeldBy, n.Runs, n.Unheard = "", "", false
				f.nodes[n.Name] = n
			},
			"node changes": func(t *rapid.T) {
				n := f.nodes[pick(t, f.nodes, "node")]
				n.Ready, n.Cordoned = rapid.Bool().Draw(t, "ready"), rapid.Bool().Draw(t, "cordoned")
				n.Taken = rapid.SampledFrom([]string{"", "Somebody else has it."}).Draw(t, "taken")
				f.nodes[n.Name] = n
			},
			"node moves": func(t *rapid.T) {
				n := f.nodes[pick(t, f.nodes, "node")]
				n.Labels = map[string]string{"pool": rapid.SampledFrom([]string{"a", "b", "both", ""}).Draw(t, "pool")}
				f.nodes[n.Name] = n
			},
			"policy changes": func(t *rapid.T) {
				p := f.policies[pick(t, f.policies, "policy")]
				p.Paused = rapid.Bool().Draw(t, "paused")
				p.MaxUnavailable = rapid.SampledFrom([]intstr.IntOrString{
					intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(3), intstr.FromString("0%"), intstr.FromString("50%"),
				}).Draw(t, "maxUnavailable")
				f.policies[p.Name] = p
			},
			"node goes": func(t *rapid.T) {
				if len(f.nodes) > 4 {
					delete(f.nodes, pick(t, f.nodes, "node"))
				}
			},
		})
	})
}

// Every queued job is admitted in the end when nodes are well, the policies are open and jobs end.
func TestTheQueueDrains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet()
		for i := range rapid.IntRange(1, 30).Draw(t, "jobs") {
			j := job(pick(t, f.nodes, "node"), i, schedule.Queued)
			f.jobs[j.UID] = j
		}
		for deadline := 0; len(f.inState(schedule.Finished)) < len(f.jobs); deadline++ {
			require.Less(t, deadline, 200, "the queue does not drain")
			f.pass(t, deadline%3 == 0)
			for uid := range f.inState(schedule.Admitted) {
				f.set(uid, schedule.Finished)
			}
		}
	})
}

// Deleting a policy loses its ledger. The jobs it had admitted get a place in the policy that is left.
func TestRebuildsLedgerFromJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet()
		for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
			j := job(pick(t, f.nodes, "node"), i, schedule.Queued)
			j.Created = epoch.Add(time.Duration(i) * time.Minute)
			f.jobs[j.UID] = j
		}
		f.pass(t, false)
		delete(f.policies, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "deleted"))
		f.pass(t, false)
		require.Empty(t, schedule.Decide(f.facts()).Admit)
	})
}
