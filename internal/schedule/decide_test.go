package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

var epoch = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func policy(name, selector string, maxUnavailable intstr.IntOrString, ledger ...schedule.Entry) schedule.Policy {
	s, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	return schedule.Policy{Name: name, Selector: s, MaxUnavailable: maxUnavailable, Ledger: ledger}
}

func nodes(n int, labels ...map[string]string) []schedule.Node {
	out := make([]schedule.Node, n)
	for i := range out {
		out[i] = schedule.Node{Name: fmt.Sprintf("n%d", i), Ready: true}
		if len(labels) > 0 {
			out[i].Labels = labels[0]
		}
	}
	return out
}

func job(node string, age int, state schedule.JobState) schedule.Job {
	name := fmt.Sprintf("%s-j%d", node, age)
	return schedule.Job{Name: name, UID: "uid-" + name, Node: node, State: state, Created: epoch.Add(time.Duration(age) * time.Second)}
}

func entry(j schedule.Job) schedule.Entry {
	return schedule.Entry{Node: j.Node, Job: j.Name, UID: j.UID}
}

func reasons(d schedule.Decision) map[string]schedule.Reason {
	out := map[string]schedule.Reason{}
	for _, w := range d.Wait {
		out[w.Job] = w.Reason
	}
	return out
}

func admitted(o schedule.Outcome) []string {
	var out []string
	for _, e := range o.Add {
		out = append(out, e.Job)
	}
	return out
}

func outcome(t *testing.T, d schedule.Decision, name string) schedule.Outcome {
	t.Helper()
	for _, o := range d.Policies {
		if o.Name == name {
			return o
		}
	}
	require.Failf(t, "no outcome", "policy %s", name)
	return schedule.Outcome{}
}

func TestBudget(t *testing.T) {
	for name, c := range map[string]struct {
		max   intstr.IntOrString
		nodes int
		want  int
	}{
		"a number is taken as it is":                {intstr.FromInt32(3), 2, 3},
		"zero admits nothing":                       {intstr.FromInt32(0), 10, 0},
		"a negative number admits nothing":          {intstr.FromInt32(-1), 10, 0},
		"a percentage is rounded down":              {intstr.FromString("30%"), 9, 2},
		"a positive percentage is at least one":     {intstr.FromString("1%"), 9, 1},
		"0% admits nothing":                         {intstr.FromString("0%"), 1000, 0},
		"100% is the pool":                          {intstr.FromString("100%"), 7, 7},
		"no percentage admits nothing":              {intstr.FromString("3"), 7, 0},
		"more than 100% admits nothing":             {intstr.FromString("101%"), 7, 0},
		"a positive percentage of an empty pool is": {intstr.FromString("10%"), 0, 1},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, schedule.Budget(c.max, c.nodes)) })
	}
}

func TestOldestJobGoesFirstThenByNameAndTheOwnNodeLast(t *testing.T) {
	f := schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(3))},
		Nodes:    nodes(5), OwnNode: "n1",
		Jobs: []schedule.Job{job("n3", 7, 0), job("n2", 7, 0), job("n1", 1, 0), job("n0", 9, 0), job("n4", 10, 0)},
	}
	d := schedule.Decide(f)
	assert.Equal(t, []string{"n2-j7", "n3-j7", "n0-j9"}, admitted(d.Policies[0]))
	assert.Equal(t, "n4-j10", d.Wait[0].Job)
	assert.Equal(t, "n1-j1", d.Wait[1].Job)
	assert.Equal(t, schedule.BudgetExhausted, d.Wait[0].Reason)
	assert.Equal(t, 3, d.Policies[0].Unavailable)
}

func TestWhatFailsFirstGoesFirst(t *testing.T) {
	fails := func(j schedule.Job, hours, priority int) schedule.Job {
		j.Priority = priority
		if hours > 0 {
			j.Fails = epoch.Add(time.Duration(hours) * time.Hour)
		}
		return j
	}
	order := func(nodes []schedule.Node, jobs ...schedule.Job) (out []string) {
		d := schedule.Decide(schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(9))}, Nodes: nodes, Jobs: jobs})
		return admitted(d.Policies[0])
	}
	assert.Equal(t, []string{"n3-j4", "n2-j3", "n1-j2", "n0-j1"},
		order(nodes(4), fails(job("n0", 1, 0), 0, 0), fails(job("n1", 2, 0), 90, 0), fails(job("n2", 3, 0), 50, 0), fails(job("n3", 4, 0), 0, 1)),
		"by priority, then by when a device fails, then by age")
	older := fails(job("n1", 2, 0), 0, 0)
	older.Steps = true
	scanned := nodes(2)
	scanned[1].Scanned = true
	assert.Equal(t, []string{"n1-j2", "n0-j1"}, order(scanned, fails(job("n0", 1, 0), 90, 0), older, fails(job("n1", 3, 0), 50, 0)),
		"of one node the older job goes first, and as early as the one that waits for it")
}

// It is not known which pool it belongs to. Left out of either, that pool could disturb one node more than its budget.
func TestANodeOfTwoPoolsThatIsNotReadyUsesTheBudgetOfBoth(t *testing.T) {
	ns := nodes(3)
	ns[0].Labels, ns[1].Labels, ns[2].Labels = map[string]string{"a": "", "b": ""}, map[string]string{"a": ""}, map[string]string{"b": ""}
	ns[0].Ready = false
	f := schedule.Facts{
		Policies: []schedule.Policy{policy("pa", "a", intstr.FromInt32(1)), policy("pb", "b", intstr.FromInt32(1))},
		Nodes:    ns,
		Jobs:     []schedule.Job{job("n1", 1, 0), job("n2", 2, 0)},
	}
	want := map[string]schedule.Reason{"n1-j1": schedule.BudgetExhausted, "n2-j2": schedule.BudgetExhausted}
	assert.Equal(t, want, reasons(schedule.Decide(f)))
	f.Nodes[0].Ready = true
	assert.Empty(t, reasons(schedule.Decide(f)))
}

func TestNodesThatAreNotReadyOrCordonedUseTheBudget(t *testing.T) {
	ns := nodes(4)
	ns[0].Ready, ns[1].Cordoned = false, true
	f := schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(2))},
		Nodes:    ns,
		Jobs:     []schedule.Job{job("n0", 1, 0), job("n2", 2, 0)},
	}
	d := schedule.Decide(f)
	assert.Equal(t, map[string]schedule.Reason{"n0-j1": schedule.NodeNotReady, "n2-j2": schedule.BudgetExhausted}, reasons(d))

	f.Jobs = append(f.Jobs, job("n1", 3, 0))
	d = schedule.Decide(f)
	assert.Equal(t, []string{"n1-j3"}, admitted(d.Policies[0]), "a node that is cordoned already costs no more")
	assert.Equal(t, 2, d.Policies[0].Unavailable)
}

// A node that somebody else has is left to them, whatever the budget; one that a failed job of the product holds is the product's.
func TestTakenNodeWaits(t *testing.T) {
	ns := nodes(3)
	ns[0].Taken, ns[0].Cordoned = "Somebody else has node n0: kured.", true
	f := schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(3))}, Nodes: ns, Jobs: []schedule.Job{job("n0", 1, 0), job("n1", 2, 0)}}
	d := schedule.Decide(f)
	assert.Equal(t, []string{"n1-j2"}, admitted(d.Policies[0]))
	require.Len(t, d.Wait, 1)
	assert.Equal(t, schedule.NodeNotReady, d.Wait[0].Reason)
	assert.Equal(t, ns[0].Taken, d.Wait[0].Message)
	assert.Equal(t, 2, d.Policies[0].Unavailable, "it uses the budget, as every cordoned node does")

	held := job("n0", 0, schedule.Held)
	f.Policies[0].Ledger, f.Jobs = []schedule.Entry{entry(held)}, append(f.Jobs, held)
	assert.Len(t, schedule.Decide(f).Policies[0].Replace, 1, "a retry takes it over")
}

func TestAdmittedCordonCountsOnce(t *testing.T) {
	ns := nodes(2)
	ns[0].Cordoned, ns[0].Ready = true, false
	running := job("n0", 1, schedule.Admitted)
	d := schedule.Decide(schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(2), entry(running))},
		Nodes:    ns, Jobs: []schedule.Job{running, job("n1", 2, 0)},
	})
	assert.Equal(t, []string{"n1-j2"}, admitted(d.Policies[0]))
}

func TestTwoPoliciesThatChooseANodeAreInConflictAndTheNodeWaits(t *testing.T) {
	gpu := map[string]string{"pool": "gpu", "zone": "a"}
	d := schedule.Decide(schedule.Facts{
		Policies: []schedule.Policy{
			policy("default", "", intstr.FromInt32(1)),
			policy("gpu", "pool=gpu", intstr.FromInt32(1)), policy("a", "zone=a", intstr.FromInt32(1)),
		},
		Nodes: append(nodes(1, gpu), schedule.Node{Name: "other", Ready: true}),
		Jobs:  []schedule.Job{job("n0", 1, 0), job("other", 2, 0)},
	})
	assert.Equal(t, map[string]schedule.Reason{"n0-j1": schedule.InConflict}, reasons(d))
	assert.Equal(t, &schedule.Conflict{With: []string{"gpu"}, Nodes: 1, Node: "n0"}, outcome(t, d, "a").Conflict)
	assert.Equal(t, &schedule.Conflict{With: []string{"a"}, Nodes: 1, Node: "n0"}, outcome(t, d, "gpu").Conflict)
	assert.Equal(t, []string{"other-j2"}, admitted(outcome(t, d, "default")), "the rest goes on")
	assert.Nil(t, outcome(t, d, "default").Conflict)
}

func TestAnInvalidSelectorStopsTheDefaultPolicyOnlyWhereItMayChoose(t *testing.T) {
	bad := policy("prod", "pool=prod", intstr.FromInt32(1))
	bad.Invalid = "spec.nodeSelector: operator Within is unknown"
	named := func(name, pool string) schedule.Node {
		return schedule.Node{Name: name, Ready: true, Labels: map[string]string{"pool": pool}}
	}
	d := schedule.Decide(schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1)), bad, policy("gpu", "pool=gpu", intstr.FromInt32(1))},
		Nodes:    []schedule.Node{named("n0", "prod"), named("g", "gpu"), named("d", "dev")},
		Jobs:     []schedule.Job{job("n0", 1, 0), job("g", 2, 0), job("d", 3, 0)},
	})
	assert.Equal(t, map[string]schedule.Reason{"n0-j1": schedule.InvalidSpec}, reasons(d))
	assert.Contains(t, d.Wait[0].Message, "prod")
	assert.Equal(t, []string{"g-j2"}, admitted(outcome(t, d, "gpu")))
	assert.Equal(t, []string{"d-j3"}, admitted(outcome(t, d, "default")), "the policy cannot be meant for this node")
	assert.Zero(t, outcome(t, d, "prod").Nodes)
}

func TestPauseAndZeroAdmitNothingAndKeepWhatRuns(t *testing.T) {
	for name, change := range map[string]func(*schedule.Policy){
		"paused": func(p *schedule.Policy) { p.Paused = true },
		"0":      func(p *schedule.Policy) { p.MaxUnavailable = intstr.FromInt32(0) },
		"0%":     func(p *schedule.Policy) { p.MaxUnavailable = intstr.FromString("0%") },
	} {
		t.Run(name, func(t *testing.T) {
			running, held := job("n0", 1, schedule.Admitted), job("n1", 2, schedule.Held)
			p := policy("default", "", intstr.FromInt32(5), entry(running), entry(held))
			change(&p)
			d := schedule.Decide(schedule.Facts{
				Policies: []schedule.Policy{p}, Nodes: nodes(3),
				Jobs: []schedule.Job{running, held, job("n1", 3, 0), job("n2", 4, 0)},
			})
			assert.False(t, d.Policies[0].Changed())
			assert.Len(t, d.Policies[0].Ledger, 2)
			assert.Len(t, d.Wait, 2)
			assert.Empty(t, d.Admit)
		})
	}
}

func TestANewerJobTakesTheEntryOfAFailedOneThatHoldsTheNode(t *testing.T) {
	held, retry := job("n0", 5, schedule.Held), job("n0", 6, 0)
	retry.Planned, retry.Follows = true, held.Name
	ns := nodes(2)
	ns[0].Ready = false // such as a node that an update broke
	f := schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1), entry(held))},
		Nodes:    ns, Jobs: []schedule.Job{held, retry, job("n1", 1, 0)},
	}
	d := schedule.Decide(f)
	assert.Equal(t, []schedule.TakeOver{{Old: entry(held), New: entry(retry)}}, d.Policies[0].Replace)
	assert.Equal(t, []schedule.Entry{entry(retry)}, d.Policies[0].Ledger)
	assert.Equal(t, []schedule.Admission{{Policy: "default", Entry: entry(retry), New: true}}, d.Admit)
	assert.Equal(t, map[string]schedule.Reason{"n1-j1": schedule.BudgetExhausted}, reasons(d), "a held node keeps its place")

	f.Policies[0].Ledger = d.Policies[0].Ledger
	d = schedule.Decide(f)
	assert.False(t, d.Policies[0].Changed(), "the failed job is not adopted again once another one follows it")

	f.Jobs[1].State, f.Nodes[0].Ready = schedule.Finished, true
	d = schedule.Decide(f)
	assert.Equal(t, []schedule.Entry{entry(f.Jobs[2])}, d.Policies[0].Ledger, "nor when that one is done")

	f.Jobs[1] = job("n0", 4, 0)
	f.Jobs[1].Planned = true
	f.Policies[0].Ledger = []schedule.Entry{entry(held)}
	assert.Equal(t, schedule.NodeBusy, reasons(schedule.Decide(f))["n0-j4"], "a job that was not made for it does not take over")
}

func TestAFullLedgerIsNotMistakenForASmallBudget(t *testing.T) {
	ns := nodes(schedule.MaxLedger + 1)
	f := schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromString("100%"))}, Nodes: ns}
	for i, n := range ns[1:] {
		j := job(n.Name, i+1, schedule.Admitted)
		f.Jobs, f.Policies[0].Ledger = append(f.Jobs, j), append(f.Policies[0].Ledger, entry(j))
	}
	f.Jobs = append(f.Jobs, job("n0", schedule.MaxLedger+1, 0))
	d := schedule.Decide(f)
	require.Len(t, d.Wait, 1)
	assert.Equal(t, schedule.BudgetExhausted, d.Wait[0].Reason)
	assert.NotContains(t, d.Wait[0].Message, "maxUnavailable", "raising it would not help")
	assert.Contains(t, d.Wait[0].Message, "1024")

	f.Jobs[0].State = schedule.Finished
	assert.Equal(t, []string{"n0-j1025"}, admitted(schedule.Decide(f).Policies[0]))
}

// The names of nodes have up to 253 bytes, and the object that lists them must stay small. A ledger that is larger, written by an
// earlier version, keeps its entries and admits nothing.
func TestLongNamesFillLedgerEarlier(t *testing.T) {
	f := schedule.Facts{Policies: []schedule.Policy{policy("default", "", intstr.FromString("100%"))}}
	for i := range 300 {
		n := schedule.Node{Name: fmt.Sprintf("n%03d", i) + strings.Repeat("x", 249), Ready: true}
		f.Nodes, f.Jobs = append(f.Nodes, n), append(f.Jobs, schedule.Job{
			Name: n.Name, UID: fmt.Sprintf("%036d", i), Node: n.Name, Created: time.Unix(int64(i), 0), State: schedule.Queued,
		})
	}
	d := schedule.Decide(f)
	bytes := 0
	for _, e := range d.Policies[0].Ledger {
		bytes += len(e.Node) + len(e.Job) + len(e.UID)
	}
	assert.LessOrEqual(t, bytes, schedule.MaxLedgerBytes)
	assert.Greater(t, len(d.Policies[0].Ledger), 200)
	require.NotEmpty(t, d.Wait)
	assert.Contains(t, d.Wait[0].Message, fmt.Sprintf("%d admitted nodes", len(d.Policies[0].Ledger)))

	for i := range 299 {
		f.Jobs[i].State = schedule.Admitted
		f.Policies[0].Ledger = append(f.Policies[0].Ledger, entry(f.Jobs[i]))
	}
	d = schedule.Decide(f)
	assert.Len(t, d.Policies[0].Ledger, 299)
	assert.Len(t, d.Wait, 1)
}

func TestOneJobANodeAcrossPolicies(t *testing.T) {
	running := job("n0", 1, schedule.Admitted)
	d := schedule.Decide(schedule.Facts{ // n0 moved from gpu to default while its job runs
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(2)), policy("gpu", "pool=gpu", intstr.FromInt32(1), entry(running))},
		Nodes:    append(nodes(2), schedule.Node{Name: "g", Ready: true, Labels: map[string]string{"pool": "gpu"}}),
		Jobs:     []schedule.Job{running, job("n0", 2, 0), job("n1", 3, 0), job("g", 4, 0)},
	})
	assert.Equal(t, map[string]schedule.Reason{"n0-j2": schedule.NodeBusy, "g-j4": schedule.BudgetExhausted}, reasons(d))
	assert.Equal(t, []string{"n1-j3"}, admitted(outcome(t, d, "default")))
	assert.Equal(t, 2, outcome(t, d, "default").Unavailable, "the node that moved in is disturbed and counts")
	assert.Equal(t, 1, outcome(t, d, "gpu").Unavailable, "and its place in the old ledger counts until it is done")
}

func TestTwoQueuedJobsOfANodeGoOneAfterTheOther(t *testing.T) {
	d := schedule.Decide(schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(5))}, Nodes: nodes(1),
		Jobs: []schedule.Job{job("n0", 2, 0), job("n0", 1, 0)},
	})
	assert.Equal(t, []string{"n0-j1"}, admitted(d.Policies[0]))
	assert.Equal(t, map[string]schedule.Reason{"n0-j2": schedule.NodeBusy}, reasons(d))
}

func TestEntriesLeaveAfterWork(t *testing.T) {
	done, gone, lost, held := job("n0", 1, schedule.Finished), job("n1", 2, schedule.Admitted), job("away", 3, schedule.Held), job("n2", 4, schedule.Held)
	d := schedule.Decide(schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(5), entry(done), entry(gone), entry(lost), entry(held))},
		Nodes:    nodes(3), Jobs: []schedule.Job{done, lost, held},
	})
	assert.Equal(t, []schedule.Removal{
		{Entry: entry(done), Why: schedule.JobFinished}, {Entry: entry(gone), Why: schedule.JobGone}, {Entry: entry(lost), Why: schedule.NodeGone},
	}, d.Policies[0].Remove)
	assert.Equal(t, []schedule.Entry{entry(held)}, d.Policies[0].Ledger)
	assert.Equal(t, []string{"n2"}, d.Policies[0].Held)
}

// A person may delete a Node, or a job with force, while the machine is at work. It is disturbed all the same.
func TestKeepsPlaceOfWorkingMachine(t *testing.T) {
	away, forced, failed := job("away", 1, schedule.Admitted), job("n0", 2, schedule.Admitted), job("n1", 3, schedule.Held)
	ns := nodes(4)
	ns[0].Runs, ns[1].HeldBy = forced.Name, failed.Name
	f := schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(3), entry(away), entry(forced), entry(failed))},
		Nodes:    ns, Jobs: []schedule.Job{away, job("n2", 4, 0), job("n1", 5, 0)},
	}
	d := schedule.Decide(f)
	o := outcome(t, d, "default")
	assert.Empty(t, o.Remove)
	assert.Equal(t, map[string]schedule.Reason{"n2-j4": schedule.BudgetExhausted}, reasons(d))
	assert.Equal(t, []schedule.TakeOver{{Old: entry(failed), New: entry(job("n1", 5, 0))}}, o.Replace, "a held node can be repaired")

	f.Nodes[0].Runs, f.Nodes[1].HeldBy, f.Jobs[0].State = "", "", schedule.Finished
	o = outcome(t, schedule.Decide(f), "default")
	assert.Equal(t, []schedule.Removal{
		{Entry: entry(away), Why: schedule.NodeGone}, {Entry: entry(forced), Why: schedule.JobGone}, {Entry: entry(failed), Why: schedule.JobGone},
	}, o.Remove)
}

// An API server that was restored from a backup knows neither the jobs that were begun since nor their places. What the nodes report
// counts, and so does that a node has not reported yet.
func TestANodeAtWorkCountsThoughTheAPILostItsJob(t *testing.T) {
	for name, n := range map[string]schedule.Node{
		"it reports the job":                    {Name: "n0", Ready: true, Runs: "lost"},
		"it reports that a failed job holds it": {Name: "n0", Ready: true, HeldBy: "lost"},
		"it has not reported yet":               {Name: "n0", Ready: true, Unheard: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := schedule.Facts{
				Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1))}, UnheardUntil: epoch,
				Nodes: append(nodes(2)[1:], n), Jobs: []schedule.Job{job("n1", 1, 0)},
			}
			d := schedule.Decide(f)
			assert.Equal(t, map[string]schedule.Reason{"n1-j1": schedule.BudgetExhausted}, reasons(d))
			assert.Equal(t, n.Unheard, strings.Contains(d.Wait[0].Message, "restored from a backup"), d.Wait[0].Message)
			assert.Equal(t, 1, outcome(t, d, "default").Unavailable)

			f.Policies[0].Ledger = []schedule.Entry{entry(job("n0", 2, schedule.Admitted))}
			f.Jobs = append(f.Jobs, job("n0", 2, schedule.Admitted))
			assert.Equal(t, 1, outcome(t, schedule.Decide(f), "default").Unavailable, "it counts once")

			f.Policies[0].Ledger, f.Jobs = nil, []schedule.Job{job("n0", 3, 0)}
			assert.Equal(t, []string{"n0-j3"}, admitted(outcome(t, schedule.Decide(f), "default")), "its own next job disturbs nothing more")
		})
	}
}

// One node without a daemon is no reason to write a new message to each job that waits, with each start of the operator.
func TestANodeThatIsNotHeardOfIsNamedOnlyWhereNobodyElseIsWaitedFor(t *testing.T) {
	f := schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(2), entry(job("n1", 1, schedule.Admitted)))}, UnheardUntil: epoch,
		Nodes: append(nodes(3)[1:], schedule.Node{Name: "n0", Ready: true, Unheard: true}), Jobs: []schedule.Job{job("n1", 1, schedule.Admitted), job("n2", 2, 0)},
	}
	d := schedule.Decide(f)
	assert.Equal(t, map[string]schedule.Reason{"n2-j2": schedule.BudgetExhausted}, reasons(d))
	assert.NotContains(t, d.Wait[0].Message, "backup")
}

// What is said to each job that waits names the nodes that a person has to look at, and not so many that it changes all the time.
func TestTheMessageNamesNodesThatNobodyReportsFor(t *testing.T) {
	silent := func(lost, unheard int) schedule.Facts {
		f := schedule.Facts{
			Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1))}, UnheardUntil: epoch, Jobs: []schedule.Job{job("n0", 1, 0)},
			Nodes: nodes(1),
		}
		for i := lost; i > 0; i-- {
			f.Nodes = append(f.Nodes, schedule.Node{Name: fmt.Sprint("lost", i), Ready: true, HeldBy: []string{"j", ""}[i%2], Runs: []string{"", "j"}[i%2], Lost: true})
		}
		for i := unheard; i > 0; i-- {
			f.Nodes = append(f.Nodes, schedule.Node{Name: fmt.Sprint("gone", i), Ready: true, Unheard: true})
		}
		return f
	}
	for name, c := range map[string]struct {
		lost, unheard int
		says          []string
		not           string
	}{
		"one that reports a lost job": {lost: 1, says: []string{"Of them lost1 (at work on j) reports a job", "kubectl delete nfw lost1"}},
		"two that do":                 {lost: 2, says: []string{"Of them lost1 (at work on j) and lost2 (held by a failed job) report a job"}},
		"many that do":                {lost: 5, says: []string{"lost1 (at work on j), lost2 (held by a failed job), lost3 (at work on j) and others report"}, not: "lost4"},
		"one that has not reported":   {unheard: 1, says: []string{"The daemon of gone1 has not reported", "kubectl delete nfw gone1"}},
		"three that have not":         {unheard: 3, says: []string{"The daemons of gone1, gone2 and gone3 have not reported"}},
		"many that have not":          {unheard: 4, says: []string{"Nodes whose daemons have not reported", "restored from a backup"}, not: "gone1"},
		"one of each":                 {lost: 1, unheard: 1, says: []string{"lost1 (at work on j)", "The daemon of gone1"}},
		"none, where one is cordoned": {not: "delete"},
	} {
		t.Run(name, func(t *testing.T) {
			f := silent(c.lost, c.unheard)
			if c.lost+c.unheard == 0 {
				f.Nodes = append(f.Nodes, schedule.Node{Name: "c", Ready: true, Cordoned: true})
			}
			d := schedule.Decide(f)
			require.Equal(t, map[string]schedule.Reason{"n0-j1": schedule.BudgetExhausted}, reasons(d))
			for _, part := range c.says {
				assert.Contains(t, d.Wait[0].Message, part)
			}
			if c.not != "" {
				assert.NotContains(t, d.Wait[0].Message, c.not)
			}
			slices.Reverse(f.Nodes)
			assert.Equal(t, d.Wait[0].Message, schedule.Decide(f).Wait[0].Message, "whatever the order of the facts")
		})
	}
}

// A node that is not Ready is disturbed whatever it reports: to delete the report would free nothing.
func TestANodeThatIsNotReadyIsNotNamedForItsReport(t *testing.T) {
	f := schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1))}, Jobs: []schedule.Job{job("n0", 1, 0)},
		Nodes: append(nodes(1), schedule.Node{Name: "down", Runs: "j", Lost: true}),
	}
	d := schedule.Decide(f)
	require.Len(t, d.Wait, 1)
	assert.NotContains(t, d.Wait[0].Message, "down")
}

// A topology budget names the nodes of its own domain.
func TestATopologyBudgetNamesTheNodesOfItsDomain(t *testing.T) {
	p := policy("default", "", intstr.FromInt32(9))
	p.Topology = []schedule.TopologyBudget{{Key: "rack", MaxUnavailable: intstr.FromInt32(1)}}
	rack := func(r string) map[string]string { return map[string]string{"rack": r} }
	d := schedule.Decide(schedule.Facts{
		Policies: []schedule.Policy{p}, Jobs: []schedule.Job{job("n0", 1, 0)},
		Nodes: []schedule.Node{
			{Name: "n0", Ready: true, Labels: rack("a")}, {Name: "here", Ready: true, Labels: rack("a"), Runs: "j", Lost: true},
			{Name: "there", Ready: true, Labels: rack("b"), Runs: "j", Lost: true},
		},
	})
	require.Equal(t, map[string]schedule.Reason{"n0-j1": schedule.BudgetExhausted}, reasons(d))
	assert.Contains(t, d.Wait[0].Message, "Of them here (at work on j) reports a job")
	assert.NotContains(t, d.Wait[0].Message, "there (")
}

func TestAJobWithAnEntryIsAdmittedEvenWhenPaused(t *testing.T) {
	queued, cancelled := job("n0", 1, schedule.Queued), job("n1", 2, schedule.Cancelled)
	p := policy("default", "", intstr.FromInt32(5), entry(queued), entry(cancelled))
	p.Paused = true
	d := schedule.Decide(schedule.Facts{Policies: []schedule.Policy{p}, Nodes: nodes(2), Jobs: []schedule.Job{queued, cancelled}})
	assert.Equal(t, []schedule.Admission{{Policy: "default", Entry: entry(queued)}, {Policy: "default", Entry: entry(cancelled)}}, d.Admit)
	assert.False(t, d.Policies[0].Changed())
	assert.Empty(t, d.Wait)
}

func TestACancelledJobIsNotAdmittedAndDoesNotStopTheNext(t *testing.T) {
	d := schedule.Decide(schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1))}, Nodes: nodes(1),
		Jobs: []schedule.Job{job("n0", 1, schedule.Cancelled), job("n0", 2, 0)},
	})
	assert.Equal(t, []string{"n0-j2"}, admitted(d.Policies[0]))
	assert.Equal(t, map[string]schedule.Reason{"n0-j1": schedule.JobCancelled}, reasons(d))
}

func quarantined(j schedule.Job) schedule.Job {
	j.Quarantined = &schedule.QuarantinedUpdate{
		Device: "nic", Version: "2", Why: "in job j0 it left a device of model 15b3:101d or node n9 unhealthy", Lift: "kubectl patch fwq",
	}
	return j
}

func TestARefusedJobIsPassedOverAndStopsNobody(t *testing.T) {
	p := policy("default", "", intstr.FromInt32(1))
	p.Paused = true
	f := schedule.Facts{
		Policies: []schedule.Policy{p}, Nodes: nodes(2),
		Jobs: []schedule.Job{quarantined(job("n0", 1, 0)), job("n0", 2, 0), job("n1", 3, 0)},
	}
	d := schedule.Decide(f)
	assert.Equal(t, schedule.Quarantined, reasons(d)["n0-j1"], "the reason that stays is the one that is reported")
	assert.Equal(t, "Version 2 for device nic is quarantined: in job j0 it left a device of model 15b3:101d or node n9 unhealthy. "+
		"Select another version, or lift the quarantine: kubectl patch fwq", d.Wait[0].Message)
	f.Policies[0].Paused = false
	d = schedule.Decide(f)
	assert.Equal(t, []string{"n0-j2"}, admitted(d.Policies[0]), "a younger job of the node goes")
	assert.Equal(t, map[string]schedule.Reason{"n0-j1": schedule.Quarantined, "n1-j3": schedule.BudgetExhausted}, reasons(d))
}

// I3, I5: between the write of the ledger and that of the condition the image turned out bad.
func TestARefusedJobWithAnEntryIsNotAdmittedAndKeepsIt(t *testing.T) {
	j := quarantined(job("n0", 1, 0))
	f := schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1), entry(j))}, Nodes: nodes(2),
		Jobs: []schedule.Job{j, job("n1", 2, 0)},
	}
	d := schedule.Decide(f)
	assert.Empty(t, d.Admit)
	assert.False(t, d.Policies[0].Changed())
	assert.Equal(t, map[string]schedule.Reason{"n0-j1": schedule.Quarantined, "n1-j2": schedule.BudgetExhausted}, reasons(d))

	f.Jobs[0].State = schedule.Cancelled
	assert.Len(t, schedule.Decide(f).Admit, 1, "a cancelled one is admitted, so that it ends")
	f.Jobs[0].State = schedule.Admitted
	assert.NotContains(t, reasons(schedule.Decide(f)), "n0-j1", "one that runs goes on: only its own steps end it")
}

func TestRefusedJobTakesNoHeldNode(t *testing.T) {
	held, retry, steps := job("n0", 1, schedule.Held), quarantined(job("n0", 2, 0)), job("n0", 3, 0)
	d := schedule.Decide(schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1), entry(held))}, Nodes: nodes(1),
		Jobs: []schedule.Job{held, retry, steps},
	})
	assert.Equal(t, []schedule.TakeOver{{Old: entry(held), New: entry(steps)}}, d.Policies[0].Replace)
	assert.Equal(t, map[string]schedule.Reason{"n0-j2": schedule.Quarantined}, reasons(d))
}

func TestWhatAJobIsRefusedFor(t *testing.T) {
	update, steps := job("n0", 2, 0), job("n0", 2, 0)
	update.Devices, steps.Steps = []string{"n0-nic"}, true
	unhealthy := func(device string) schedule.Node {
		return schedule.Node{Name: "n0", Ready: true, Unhealthy: []schedule.UnhealthyDevice{{Name: device, Job: "j0"}}}
	}
	for name, c := range map[string]struct {
		node  schedule.Node
		job   schedule.Job
		state schedule.JobState // of the older job of the node
		want  schedule.Reason
	}{
		"an update of a healthy device is not":                {schedule.Node{Name: "n0", Ready: true}, update, schedule.Finished, ""},
		"an update with a quarantined image is":               {schedule.Node{Name: "n0", Ready: true}, quarantined(update), schedule.Finished, schedule.Quarantined},
		"an update of an unhealthy device is":                 {unhealthy("n0-nic"), update, schedule.Finished, schedule.DeviceUnhealthy},
		"an update of another device of the node is not":      {unhealthy("n0-disk"), update, schedule.Finished, ""},
		"an update that would return a held node is":          {unhealthy("n0-disk"), update, schedule.Held, schedule.DeviceUnhealthy},
		"an update that takes over a held healthy node isn't": {schedule.Node{Name: "n0", Ready: true}, update, schedule.Held, ""},
		"steps on a machine that was not scanned are":         {schedule.Node{Name: "n0", Ready: true}, steps, schedule.Finished, schedule.NodeNotReady},
		"steps on a machine that was scanned are not":         {schedule.Node{Name: "n0", Ready: true, Scanned: true}, steps, schedule.Finished, ""},
		"steps that repair a held node are not":               {unhealthy("n0-nic"), steps, schedule.Held, ""},
	} {
		t.Run(name, func(t *testing.T) {
			older := job("n0", 1, c.state)
			d := schedule.Decide(schedule.Facts{
				Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1), entry(older))}, Nodes: []schedule.Node{c.node},
				Jobs: []schedule.Job{older, c.job},
			})
			assert.Equal(t, c.want, reasons(d)["n0-j2"])
			assert.Equal(t, c.want == "", len(d.Admit) == 1)
		})
	}
}

func TestChosenNamesNodesPolicies(t *testing.T) {
	bad := policy("bad", "", intstr.FromInt32(1))
	bad.Invalid = "no selector"
	all := []schedule.Policy{policy("default", "", intstr.FromInt32(1)), policy("a", "pool=a", intstr.FromInt32(1)), policy("b", "pool in (a,b)", intstr.FromInt32(1)), bad}
	assert.Equal(t, []string{"a", "b"}, schedule.Chosen(all, map[string]string{"pool": "a"}))
	assert.Equal(t, []string{"default"}, schedule.Chosen(all, nil))
	assert.Empty(t, schedule.Chosen(all[1:], nil))
}

func TestARunningJobWhosePolicyWasDeletedIsAdoptedOverTheBudget(t *testing.T) {
	a, b := job("n0", 1, schedule.Admitted), job("n1", 2, schedule.Admitted)
	d := schedule.Decide(schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1))}, Nodes: nodes(3),
		Jobs: []schedule.Job{a, b, job("n2", 3, 0)},
	})
	assert.Equal(t, []schedule.Entry{entry(a), entry(b)}, d.Policies[0].Ledger)
	assert.Equal(t, 2, d.Policies[0].Adopted)
	assert.Empty(t, d.Admit)
	assert.Equal(t, map[string]schedule.Reason{"n2-j3": schedule.BudgetExhausted}, reasons(d))
}

func TestANodeInTwoLedgersKeepsTheEntryOfTheJobThatRuns(t *testing.T) {
	running, queued := job("n0", 2, schedule.Admitted), job("n0", 1, schedule.Queued)
	d := schedule.Decide(schedule.Facts{
		Policies: []schedule.Policy{policy("default", "", intstr.FromInt32(1), entry(queued)), policy("gpu", "pool=gpu", intstr.FromInt32(1), entry(running))},
		Nodes:    nodes(1), Jobs: []schedule.Job{running, queued},
	})
	assert.Equal(t, []schedule.Removal{{Entry: entry(queued), Why: schedule.Duplicate}}, outcome(t, d, "default").Remove)
	assert.Equal(t, []schedule.Entry{entry(running)}, outcome(t, d, "gpu").Ledger)
	assert.Equal(t, map[string]schedule.Reason{"n0-j1": schedule.NodeBusy}, reasons(d))
	assert.Empty(t, d.Admit)
}

func TestMissingDefaultAdmitsNone(t *testing.T) {
	d := schedule.Decide(schedule.Facts{Nodes: nodes(1), Jobs: []schedule.Job{job("n0", 1, 0), job("n7", 2, 0)}})
	assert.Equal(t, map[string]schedule.Reason{"n0-j1": schedule.InConflict, "n7-j2": schedule.NodeMissing}, reasons(d))
}

func BenchmarkDecide5000(b *testing.B) {
	f := schedule.Facts{Policies: []schedule.Policy{
		policy("default", "", intstr.FromInt32(1)), policy("gpu", "pool=gpu", intstr.FromString("10%")), policy("db", "pool in (db,cache)", intstr.FromInt32(2)),
	}}
	pools := []string{"gpu", "db", "web"}
	for i := range 5000 {
		name := fmt.Sprintf("n%d", i)
		f.Nodes = append(f.Nodes, schedule.Node{Name: name, Ready: true, Labels: map[string]string{"pool": pools[i%3]}})
		f.Jobs = append(f.Jobs, job(name, i, 0))
	}
	for b.Loop() {
		schedule.Decide(f)
	}
}
