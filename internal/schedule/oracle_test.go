package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// span is a time relative to now, in minutes.
type span struct{ from, to int }

func (s span) covers(minute int) bool { return s.from <= minute && minute < s.to }

// situation is a fleet at one instant, and what the oracle knows of its calendars.
type situation struct {
	schedule.Facts
	windows, freezes map[string][]span
}

func drawAmount(t *rapid.T, label string) intstr.IntOrString {
	return rapid.SampledFrom([]intstr.IntOrString{
		intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(4),
		intstr.FromString("0%"), intstr.FromString("10%"), intstr.FromString("50%"), intstr.FromString("100%"),
	}).Draw(t, label)
}

func drawSpans(t *rapid.T, label string, atMost int) (spans []span, rules []window.Rule) {
	for range rapid.IntRange(0, atMost).Draw(t, label) {
		s := span{from: rapid.IntRange(-60, 60).Draw(t, "from")}
		s.to = s.from + rapid.IntRange(1, 90).Draw(t, "long")
		rule, err := window.Once(label, epoch.Add(time.Duration(s.from)*time.Minute), epoch.Add(time.Duration(s.to)*time.Minute))
		if err != nil {
			panic(err)
		}
		spans, rules = append(spans, s), append(rules, rule)
	}
	return spans, rules
}

func drawSituation(t *rapid.T) situation {
	s := situation{Facts: schedule.Facts{Now: epoch}, windows: map[string][]span{}, freezes: map[string][]span{}}
	for _, name := range []string{"default", "a", "b"} {
		p := policy(name, map[string]string{"default": "", "a": "pool in (a,both)", "b": "pool in (b,both)"}[name], drawAmount(t, "maxUnavailable"))
		p.Paused = rapid.IntRange(0, 9).Draw(t, "paused") == 0
		p.Expected = time.Duration(rapid.IntRange(1, 40).Draw(t, "expected")) * time.Minute
		if rapid.Bool().Draw(t, "racks") {
			p.Topology = []schedule.TopologyBudget{{Key: "rack", MaxUnavailable: drawAmount(t, "in a rack")}}
		}
		var windows, freezes []window.Rule
		s.windows[name], windows = drawSpans(t, "windows", 3)
		s.freezes[name], freezes = drawSpans(t, "freezes", 1)
		p.Calendar = window.New(windows, freezes)
		s.Policies = append(s.Policies, p)
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		n := schedule.Node{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"pool": rapid.SampledFrom([]string{"a", "a", "a", "b", "both", ""}).Draw(t, "pool")}}
		if rack := rapid.SampledFrom([]string{"r1", "r2", ""}).Draw(t, "rack"); rack != "" {
			n.Labels["rack"] = rack
		}
		n.Ready, n.Cordoned = rapid.IntRange(0, 5).Draw(t, "not ready") > 0, rapid.IntRange(0, 5).Draw(t, "cordoned") == 0
		if rapid.IntRange(0, 7).Draw(t, "taken") == 0 {
			n.Taken = "Somebody else has it."
		}
		switch rapid.IntRange(0, 11).Draw(t, "of a job that the API lost") {
		case 0:
			n.Runs = "lost"
		case 1:
			n.HeldBy = "lost"
		case 2:
			n.Unheard = true
		}
		s.Nodes = append(s.Nodes, n)
		for range rapid.IntRange(0, 2).Draw(t, "jobs") {
			j := job(n.Name, len(s.Jobs), rapid.SampledFrom([]schedule.JobState{schedule.Queued, schedule.Queued, schedule.Queued,
				schedule.Cancelled, schedule.Finished}).Draw(t, "state"))
			j.Expected = time.Duration(rapid.IntRange(0, 80).Draw(t, "expected")) * time.Minute
			s.Jobs = append(s.Jobs, j)
		}
		if state := rapid.IntRange(0, 5).Draw(t, "busy"); state < 2 {
			j := job(n.Name, -1-i, []schedule.JobState{schedule.Admitted, schedule.Held}[state])
			s.Jobs = append(s.Jobs, j)
			at := rapid.IntRange(0, len(s.Policies)-1).Draw(t, "ledger")
			s.Policies[at].Ledger = append(s.Policies[at].Ledger, entry(j))
		}
	}
	return s
}

// pool names the policies that choose a node.
func (s situation) pool(n schedule.Node) (names []string) {
	for _, p := range s.Policies {
		if p.Name != "default" && p.Selector.Matches(labels.Set(n.Labels)) {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		names = []string{"default"}
	}
	return names
}

func (s situation) node(name string) schedule.Node {
	return s.Nodes[slices.IndexFunc(s.Nodes, func(n schedule.Node) bool { return n.Name == name })]
}

func (s situation) policy(name string) schedule.Policy {
	return s.Policies[slices.IndexFunc(s.Policies, func(p schedule.Policy) bool { return p.Name == name })]
}

// disturbed are the nodes that use the budget of a policy once the ledgers are written, or those of all of them with the name "".
func (s situation) disturbed(d schedule.Decision, name string) map[string]bool {
	out, entered := map[string]bool{}, map[string]bool{}
	for _, o := range d.Policies {
		for _, e := range o.Ledger {
			entered[e.Node] = true
			if o.Name == name || name == "" {
				out[e.Node] = true
			}
		}
	}
	for _, n := range s.Nodes {
		if (name == "" || slices.Contains(s.pool(n), name)) && (!n.Ready || n.Cordoned || n.Runs != "" || n.HeldBy != "" || n.Unheard || entered[n.Name]) {
			out[n.Name] = true
		}
	}
	return out
}

// amount is a number or percentage of so many nodes.
func amount(a intstr.IntOrString, of int) int {
	if a.Type == intstr.Int {
		return int(a.IntVal)
	}
	percent := 0
	_, _ = fmt.Sscanf(a.StrVal, "%d%%", &percent)
	if percent == 0 {
		return 0
	}
	return max(1, of*percent/100)
}

// exceeded says which budget would be exceeded if one more node were disturbed, of those that went before a job. A rack has the nodes of
// every policy; those without one are apart in each.
func (s situation) exceeded(d schedule.Decision, policy string, more string, before int) string {
	p, size, used := s.policy(policy), map[string]int{}, map[string]int{}
	disturbed, anywhere := s.disturbed(d, policy), s.disturbed(d, "")
	for _, o := range d.Policies {
		for _, e := range o.Add {
			at := slices.IndexFunc(s.Jobs, func(j schedule.Job) bool { return j.UID == e.UID })
			if n := s.node(e.Node); at > before && s.Jobs[at].State == schedule.Queued && n.Ready && !n.Cordoned && n.Runs == "" && n.HeldBy == "" && !n.Unheard {
				delete(disturbed, e.Node)
				delete(anywhere, e.Node)
			}
		}
	}
	nodes, total := 0, 0
	for _, n := range s.Nodes {
		rack, mine := n.Labels["rack"], slices.Contains(s.pool(n), policy)
		if mine {
			nodes++
		}
		if mine || rack != "" {
			size[rack]++
		}
		if disturbed[n.Name] || n.Name == more {
			total++
		}
		if rack == "" && disturbed[n.Name] || rack != "" && anywhere[n.Name] || n.Name == more {
			used[rack]++
		}
	}
	if total > amount(p.MaxUnavailable, nodes) {
		return "pool"
	}
	rack := s.node(more).Labels["rack"]
	for _, b := range p.Topology {
		if used[rack] > amount(b.MaxUnavailable, size[rack]) {
			return "rack " + rack
		}
	}
	return ""
}

// closed says why the calendar of a policy keeps a job that takes so many minutes.
func (s situation) closed(policy string, minutes int) (frozen, outside bool) {
	in := func(spans []span, minute int) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return s.covers(minute) })
	}
	for m := range minutes {
		if in(s.freezes[policy], m) || len(s.windows[policy]) > 0 && !in(s.windows[policy], m) {
			outside = true
		}
	}
	return in(s.freezes[policy], 0), outside
}

// blocked is what keeps a queued job of a node, that is the first of its node, from going as well.
func (s situation) blocked(d schedule.Decision, j schedule.Job) string {
	n, pools := s.node(j.Node), s.pool(s.node(j.Node))
	if len(pools) > 1 {
		return "conflict"
	}
	p, expected := s.policy(pools[0]), j.Expected
	if expected == 0 {
		expected = p.Expected
	}
	frozen, outside := s.closed(p.Name, int(expected/time.Minute))
	switch {
	case p.Paused:
		return "paused"
	case amount(p.MaxUnavailable, 1000) == 0:
		return "no budget"
	case frozen:
		return "frozen"
	}
	for _, o := range d.Policies {
		for _, e := range o.Ledger {
			if e.Node != j.Node {
				continue
			}
			at := slices.IndexFunc(s.Jobs, func(o schedule.Job) bool { return o.UID == e.UID })
			if s.Jobs[at].State == schedule.Held {
				return "" // taken over
			}
			return "busy"
		}
	}
	switch {
	case outside:
		return "outside"
	case !n.Ready || n.Taken != "":
		return "not ready"
	}
	return s.exceeded(d, p.Name, j.Node, len(s.Jobs))
}

// I3: a decision never exceeds the budget of a pool or of a rack, admits nothing that a window, a freeze or anything else keeps, and
// leaves nothing waiting that could go. The oracle looks at the outcome only, minute by minute and node by node.
func TestDecisionMatchesOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSituation(t)
		d := schedule.Decide(s.Facts)
		waits, uids := map[string]schedule.Reason{}, map[string]schedule.Job{}
		for _, w := range d.Wait {
			waits[w.UID] = w.Reason
			require.NotEmpty(t, w.Message)
		}
		for _, j := range s.Jobs {
			uids[j.UID] = j
		}
		entered, busy := map[string]bool{}, map[string]bool{}
		for _, o := range d.Policies {
			for _, e := range o.Ledger {
				entered[e.UID], busy[e.Node] = true, true
			}
			for _, e := range o.Add {
				j := uids[e.UID]
				if j.State != schedule.Queued {
					continue // adopted
				}
				n := s.node(e.Node)
				expected := j.Expected
				if expected == 0 {
					expected = s.policy(o.Name).Expected
				}
				frozen, outside := s.closed(o.Name, int(expected/time.Minute))
				require.Equal(t, []string{o.Name}, s.pool(n))
				require.True(t, n.Ready && n.Taken == "" && !s.policy(o.Name).Paused && !frozen && !outside, "%s is admitted", e.Job)
				at := slices.IndexFunc(s.Jobs, func(j schedule.Job) bool { return j.UID == e.UID })
				require.Empty(t, s.exceeded(d, o.Name, e.Node, at), "%s is admitted", e.Job)
			}
			for _, r := range o.Replace {
				frozen, _ := s.closed(o.Name, 0)
				require.True(t, !frozen || !slices.Contains(s.pool(s.node(r.New.Node)), o.Name), "%s takes over in a freeze", r.New.Job)
			}
		}
		first := map[string]schedule.Job{}
		for _, j := range s.Jobs { // in order of age
			if j.State != schedule.Queued {
				continue
			}
			require.True(t, entered[j.UID] || waits[j.UID] != "", "nobody knows why %s waits", j.Name)
			if _, is := first[j.Node]; !is {
				first[j.Node] = j
			}
		}
		for _, j := range first {
			if entered[j.UID] {
				continue
			}
			why := s.blocked(d, j)
			require.NotEmpty(t, why, "%s waits (%s) though it could go", j.Name, waits[j.UID])
			switch waits[j.UID] {
			case schedule.OutsideWindow:
				require.Contains(t, []string{"frozen", "outside"}, why)
			case schedule.NodeNotReady:
				require.Equal(t, "not ready", why)
			}
		}
		slices.Reverse(s.Jobs)
		slices.Reverse(s.Nodes)
		slices.Reverse(s.Policies)
		require.Equal(t, d, schedule.Decide(s.Facts), "the order of the facts does not matter")
	})
}

// Time goes from one change to the next, as the decision itself announces it. Jobs take as long as expected: at no instant are
// more nodes disturbed than may be, nothing runs outside a window, and everybody goes in the end.
func TestAllJobsRunWithinWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy("default", "", intstr.FromInt(rapid.IntRange(1, 4).Draw(t, "maxUnavailable")))
		inRack := rapid.IntRange(1, 3).Draw(t, "in a rack")
		p.Topology = []schedule.TopologyBudget{{Key: "rack", MaxUnavailable: intstr.FromInt(inRack)}}
		hour, long := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(61, 300).Draw(t, "long")
		night, err := window.Recurring("night", fmt.Sprintf("%d %d * * *", rapid.IntRange(0, 59).Draw(t, "minute"), hour), time.Duration(long)*time.Minute,
			rapid.SampledFrom([]string{"UTC", "Europe/Paris", "Asia/Kathmandu"}).Draw(t, "zone"))
		require.NoError(t, err)
		sunday, err := window.Recurring("sunday", "0 0 * * 0", 24*time.Hour, "UTC")
		require.NoError(t, err)
		p.Calendar = window.New([]window.Rule{night}, []window.Rule{sunday})
		f := schedule.Facts{Now: epoch.Add(time.Duration(rapid.IntRange(0, 7*24*60).Draw(t, "now")) * time.Minute), Policies: []schedule.Policy{p}}
		for i := range rapid.IntRange(1, 10).Draw(t, "nodes") {
			n := schedule.Node{Name: fmt.Sprintf("n%d", i), Ready: true, Labels: map[string]string{"rack": fmt.Sprint(i % 3)}}
			j := job(n.Name, i, schedule.Queued)
			j.Expected = time.Duration(rapid.IntRange(1, 60).Draw(t, "takes")) * time.Minute
			f.Nodes, f.Jobs = append(f.Nodes, n), append(f.Jobs, j)
		}
		ends := map[string]time.Time{}
		for finished := 0; finished < len(f.Jobs); {
			d := schedule.Decide(f)
			f.Policies[0].Ledger = d.Policies[0].Ledger
			racks := map[string]int{}
			for i := range f.Jobs {
				j := &f.Jobs[i]
				if slices.ContainsFunc(d.Admit, func(a schedule.Admission) bool { return a.Entry.UID == j.UID }) {
					j.State, ends[j.UID] = schedule.Admitted, f.Now.Add(j.Expected)
				}
				if j.State == schedule.Admitted {
					racks[f.Nodes[i].Labels["rack"]]++
					open := window.New([]window.Rule{night}, []window.Rule{sunday})
					require.True(t, open.At(f.Now).Open, "%s runs outside a window", j.Name)
					require.True(t, open.At(ends[j.UID].Add(-time.Second)).Open, "%s will not end in the window", j.Name)
				}
			}
			running := 0
			for _, n := range racks {
				running += n
				require.LessOrEqual(t, n, inRack)
			}
			require.LessOrEqual(t, running, int(p.MaxUnavailable.IntVal))
			next := d.Next
			for _, end := range ends {
				if next.IsZero() || end.Before(next) {
					next = end
				}
			}
			require.True(t, next.After(f.Now), "nothing more happens")
			require.Less(t, next.Sub(epoch), 60*24*time.Hour, "somebody starves")
			f.Now = next
			for i := range f.Jobs {
				if end, runs := ends[f.Jobs[i].UID]; runs && !end.After(f.Now) {
					f.Jobs[i].State = schedule.Finished
					delete(ends, f.Jobs[i].UID)
					finished++
				}
			}
		}
	})
}
