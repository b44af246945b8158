package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// pool is a policy with what the pass knows and decides about it.
type pool struct {
	Policy
	out Outcome
	// queue are the places of the pool's jobs among all that wait.
	queue []int
	// used are the nodes that use the budget up, and usedUp is what is said to the thousands of jobs that wait for one of them.
	used   map[string]bool
	usedUp string
	// plain says that usedUp names no node that a person may have to look at.
	plain bool
	// unheard are the Ready nodes that are among the used ones because their daemons have not reported, and lost those that report a
	// job which the API does not have.
	unheard, lost []string
	// bytes is what the ledger takes in the API.
	bytes int
	// apart are the domains of the nodes without the labels of the topology budgets.
	apart map[string]*domain
	// state is what the calendar says, and opening the same for people; nil before it was asked. Fitting is the longest duration known
	// to fit into a window.
	state   *window.State
	opening string
	fitting time.Duration
	// rollouts are those that the policy follows, nil where it follows none; halts are those of them that are halted, and judged the
	// uids of the jobs in the ledger whose verdicts are counted. Unplanned says that it is not known what some node is to get.
	rollouts  map[Target]*rollout
	halts     []*rollout
	judged    map[string]bool
	unplanned bool
	// doubts are about updates that no further node begins for now.
	doubts []doubt
}

func newPool(policy Policy) *pool {
	return &pool{Policy: policy, out: Outcome{Name: policy.Name, Stopped: policy.Invalid != "" || policy.Stopped != ""}, used: map[string]bool{}, apart: map[string]*domain{}}
}

// count computes the budget of each pool and which nodes use it.
func (p *pass) count() {
	p.loadDomains()
	for _, o := range p.pools {
		for _, e := range o.out.Ledger {
			p.use(o, e.Node)
			if n := p.node(e.Node); !n.exists() {
				p.live(n)
			}
			if p.jobs[e.UID].State == Held {
				o.out.Held = append(o.out.Held, e.Node)
			}
		}
	}
	for i := range p.fleet {
		n := &p.fleet[i]
		p.live(n)
		disturbed := false
		if !n.Ready || n.Cordoned || len(n.holders) > 0 || n.atWork() || n.Unheard {
			disturbed = true
			p.disturb(n.Name)
		}
		for _, o := range n.pools {
			o.out.Nodes++
			if disturbed {
				p.use(o, n.Name)
			}
			if n.Unheard && n.Ready {
				o.unheard = append(o.unheard, n.Name)
			}
			if n.Lost && n.Ready {
				o.lost = append(o.lost, n.Name)
			}
			if len(n.pools) > 1 {
				o.conflict(n)
			}
		}
	}
	for _, o := range p.pools {
		if o.Invalid == "" {
			o.out.Budget = Budget(o.MaxUnavailable, o.out.Nodes)
		}
		o.usedUp = fmt.Sprintf("Policy %s disturbs as many nodes as its maxUnavailable %s allows; the job starts as soon as one is back.%s",
			o.Name, o.MaxUnavailable.String(), p.aboutLost(o.lost))
		// Where they leave room, the jobs wait for other nodes. That is said to thousands of jobs, and again when it ends.
		o.plain = len(o.lost) == 0
		if len(o.unheard) > 0 && len(o.unheard) >= o.out.Budget {
			o.plain = false
			o.usedUp += aboutUnheard(o.unheard, p.facts.UnheardUntil)
		}
	}
}

// conflict notes that other policies choose the node too.
func (o *pool) conflict(n *node) {
	c := o.out.Conflict
	if c == nil {
		c = &Conflict{Node: n.Name}
		o.out.Conflict = c
	}
	c.Nodes++
	c.Node = min(c.Node, n.Name)
	for _, other := range n.pools {
		if other == o {
			continue
		}
		if i, found := slices.BinarySearch(c.With, other.Name); !found {
			c.With = slices.Insert(c.With, i, other.Name)
		}
	}
}

func names(pools []*pool) string {
	out := make([]string, len(pools))
	for i, o := range pools {
		out[i] = o.Name
	}
	return strings.Join(out, ", ")
}

// Budget is maxUnavailable in nodes, for a pool of the given size. A percentage is rounded down, but a positive one to no
// less than 1. A value that is neither a number of at least 0 nor a percentage from 0% to 100% admits nothing.
func Budget(maxUnavailable intstr.IntOrString, nodes int) int {
	if maxUnavailable.Type == intstr.Int {
		return max(0, int(maxUnavailable.IntVal))
	}
	digits, ok := strings.CutSuffix(maxUnavailable.StrVal, "%")
	percent, err := strconv.Atoi(digits)
	if !ok || err != nil || percent <= 0 || percent > 100 {
		return 0
	}
	return max(1, nodes*percent/100)
}

// chooser finds the policies of many nodes. It asks only those policies whose selector names a value of a label that the node
// has, and the few that name none, so that fifty policies cost a node little more than one.
type chooser struct {
	policies []Policy
	// byLabel are the places of the policies that need one of certain values of a label, by label and value.
	byLabel map[string]map[string][]int
	// others are the places of those that need none, and fallback is that of the default policy; -1 for none.
	others   []int
	fallback int
}

func newChooser(policies []Policy) chooser {
	c := chooser{policies: policies, byLabel: map[string]map[string][]int{}, fallback: -1}
	for i := range policies {
		p := &policies[i]
		switch {
		case p.isDefault():
			c.fallback = i
		case p.Invalid == "":
			c.add(i, p.Selector)
		}
	}
	return c
}

func (c *chooser) add(at int, s labels.Selector) {
	requirements, selectable := s.Requirements()
	if !selectable {
		return // it chooses nothing
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			if c.byLabel[r.Key()] == nil {
				c.byLabel[r.Key()] = map[string][]int{}
			}
			for value := range r.Values() {
				c.byLabel[r.Key()][value] = append(c.byLabel[r.Key()][value], at)
			}
			return
		default: // it needs no value
		}
	}
	c.others = append(c.others, at)
}

// of lists the places of the policies that choose a node with these labels, as Chosen does.
func (c *chooser) of(node map[string]string) []int {
	var out []int
	set := labels.Labels(labels.Set(node))
	matching := func(places []int) {
		for _, at := range places {
			if c.policies[at].Selector.Matches(set) {
				out = append(out, at)
			}
		}
	}
	for key, values := range c.byLabel {
		if value, has := node[key]; has {
			matching(values[value])
		}
	}
	matching(c.others)
	slices.Sort(out)
	if len(out) == 0 && c.fallback >= 0 {
		out = append(out, c.fallback)
	}
	return out
}
