package schedule

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// Decision is what follows from the facts.
type Decision struct {
	// Policies are in order of name, one for each policy of the facts.
	Policies []Outcome
	// Admit lists the jobs that have a place in a ledger and no condition Admitted yet. The condition may be written only
	// after the ledger. Those whose entry was in the ledger before are what a crash between the two writes left behind. If
	// such a job must not be admitted any more, it is not listed, and keeps its entry: another operator may be writing its
	// condition at this moment.
	Admit []Admission
	// Wait lists every queued job that is not admitted or must not be, in the order of the queue.
	Wait []Waiting
	// Next is the first time after Facts.Now at which another decision may follow though no other fact changes; zero for never.
	Next time.Time
}

// Outcome is the decision about one policy.
type Outcome struct {
	Name string
	// Ledger is the ledger to write. It differs from the old one by Remove, Replace and Add, in this order.
	Ledger  []Entry
	Remove  []Removal
	Replace []TakeOver
	Add     []Entry
	// Adopted counts the entries in Add whose job was running without one; they do not ask for budget.
	Adopted int
	// Nodes is the size of the pool, Budget what maxUnavailable means for it. Unavailable counts the nodes that use
	// the budget up: admitted, not Ready, or cordoned.
	Nodes, Budget, Unavailable int
	// Held lists the nodes in the ledger that a failed job holds.
	Held []string
	// Queue lists the waiting jobs of the pool's nodes, in order.
	Queue []Waiting
	// Conflict is set when another policy chooses nodes of this one.
	Conflict *Conflict
	// Window is what the windows and freezes say.
	Window window.State
	// TooLong is the shortest expected duration of a waiting job that fits into no window; 0 when there is none.
	TooLong time.Duration
	// Rollouts are the edges that the policy follows, in order; to be written with the ledger, as are Resumed, the request to
	// resume that was acted on, and Judged, the uids of the jobs in the ledger whose verdicts are in Rollouts.
	Rollouts []RolloutState
	Resumed  string
	Judged   []string
}

// Changed reports whether the ledger differs from the old one.
func (o Outcome) Changed() bool { return len(o.Remove)+len(o.Replace)+len(o.Add) > 0 }

// Admission is a place in a policy's ledger.
type Admission struct {
	Policy string
	Entry  Entry
	// New says that the entry was not in the ledger before.
	New bool
}

// Why says why an entry leaves a ledger.
type Why string

// The reasons an entry leaves.
const (
	// JobFinished: the job ended and keeps nothing.
	JobFinished Why = "JobFinished"
	// JobGone: the job was deleted, and its node is not at work on it and not held by it.
	JobGone Why = "JobGone"
	// NodeGone: the Node was deleted, and no job is at work there.
	NodeGone Why = "NodeGone"
	// Duplicate: the node stands in another ledger too, and there with more right.
	Duplicate Why = "Duplicate"
)

// Removal is an entry that leaves.
type Removal struct {
	Entry Entry
	Why   Why
}

// TakeOver is an entry that passes from a failed job that holds the node to a newer one.
type TakeOver struct {
	Old, New Entry
}

// Reason says why a job waits. The values are the reasons of the job's Admitted condition.
type Reason string

// The reasons to wait.
const (
	BudgetExhausted  Reason = "BudgetExhausted"
	WaitingForWindow Reason = "WaitingForWindow"
	Frozen           Reason = "Frozen"
	PolicyPaused     Reason = "PolicyPaused"
	PolicyConflict   Reason = "PolicyConflict"
	InvalidSpec      Reason = "InvalidSpec"
	NodeBusy         Reason = "NodeBusy"
	NodeNotReady     Reason = "NodeNotReady"
	NodeMissing      Reason = "NodeGone"
	JobCancelled     Reason = "Cancelled"
	Quarantined      Reason = "Quarantined"
	DeviceUnhealthy  Reason = "DeviceUnhealthy"
	PolicyAborted    Reason = "PolicyAborted"
	// WaveNotOpen: the open wave of an edge does not include the node. WaveSoaking: its nodes are judged, and the next one opens
	// when it has soaked. WaveEmpty: it chooses none of the nodes that wait, and no node has succeeded yet.
	WaveNotOpen Reason = "WaveNotOpen"
	WaveSoaking Reason = "WaveSoaking"
	WaveEmpty   Reason = "WaveEmpty"
	// RolloutHalted: too many nodes failed with the image. DeadlineExceeded: the update took longer than the policy allows.
	RolloutHalted    Reason = "RolloutHalted"
	DeadlineExceeded Reason = "DeadlineExceeded"
)

// Waiting is a job that waits, with the reason and a message for people. Policy is empty where the node has none.
type Waiting struct {
	Job     Job
	Policy  string
	Reason  Reason
	Message string
}

// Conflict names the policies that choose nodes of one policy.
type Conflict struct {
	// With lists the other policies in order of name.
	With []string
	// Nodes counts the nodes concerned; Node is the first of them.
	Nodes int
	Node  string
}

// Decide derives the next ledgers. It never removes the entry of a job that runs, even when its Node or its own object was
// deleted, and not that of one that is queued or holds its node while both exist, however small the budget has become. The outcome does not depend on the order of nodes and jobs in the facts.
func Decide(f Facts) Decision {
	p := newPass(f)
	p.refuse()
	p.clean()
	p.dropDuplicates()
	p.measure()
	p.adopt()
	p.count()
	p.followRollouts()
	p.admitQueued()
	return p.decision()
}

// pass is a decision in the making.
type pass struct {
	facts Facts
	nodes map[string]Node
	jobs  map[string]Job
	pools []*pool
	// policies are those of the facts in order of name, as pools are.
	policies []Policy
	chosen   map[string][]*pool // by node
	holders  map[string][]holder
	refusals map[string]refusal // by uid
	waiting  []Waiting
	next     time.Time
	held     map[string][]Job // failed jobs by the node that they hold
}

type pool struct {
	Policy
	out  Outcome
	used map[string]bool
	// bytes is what the ledger takes in the API.
	bytes int
	// domains are those of the topology budgets, in their order.
	domains []*domains
	// state is what the calendar says; nil before it was asked. fitting is the longest duration known to fit into a window.
	state   *window.State
	fitting time.Duration
	// rollouts are those that the policy follows, nil where it follows none; halts are those of them that are halted. Written
	// are the waves, and judged the uids of the jobs in the ledger whose verdicts are counted.
	rollouts map[Edge]*rollout
	halts    []*rollout
	written  []Wave
	judged   map[string]bool
}

type holder struct {
	pool  *pool
	entry Entry
}

func newPass(f Facts) *pass {
	p := &pass{
		facts: f, nodes: make(map[string]Node, len(f.Nodes)), jobs: make(map[string]Job, len(f.Jobs)),
		chosen: make(map[string][]*pool, len(f.Nodes)), holders: map[string][]holder{}, waiting: make([]Waiting, 0, len(f.Jobs)),
		refusals: map[string]refusal{},
	}
	for _, policy := range f.Policies {
		o := &pool{Policy: policy, out: Outcome{Name: policy.Name}, used: map[string]bool{}, domains: newDomains(policy.Topology)}
		p.pools = append(p.pools, o)
	}
	slices.SortFunc(p.pools, func(a, b *pool) int { return cmp.Compare(a.Name, b.Name) })
	for _, o := range p.pools {
		p.policies = append(p.policies, o.Policy)
	}
	c := newChooser(p.policies)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		p.nodes[n.Name] = *n
		p.chosen[n.Name] = p.choose(&c, n)
	}
	for _, j := range f.Jobs {
		p.jobs[j.UID] = j
	}
	p.recall()
	return p
}

// recall adds the jobs of the ledgers that are gone though their node still reports them.
func (p *pass) recall() {
	for _, policy := range p.policies {
		for _, e := range policy.Ledger {
			n := p.nodes[e.Node]
			if _, known := p.jobs[e.UID]; known || n.Runs != e.Job && !n.Held {
				continue
			}
			j := Job{Name: e.Job, UID: e.UID, Node: e.Node, State: Admitted}
			if n.Runs == "" {
				j.State = Held
			}
			p.jobs[e.UID] = j
		}
	}
}

func (p *pass) choose(c *chooser, n *Node) []*pool {
	var out []*pool
	for _, at := range c.of(n.Labels) {
		out = append(out, p.pools[at])
	}
	return out
}

// clean drops the entries whose work is over.
func (p *pass) clean() {
	for _, o := range p.pools {
		for _, e := range o.Policy.Ledger {
			if why := p.over(e); why != "" {
				o.out.Remove = append(o.out.Remove, Removal{e, why})
				continue
			}
			o.out.Ledger = append(o.out.Ledger, e)
			p.holders[e.Node] = append(p.holders[e.Node], holder{o, e})
		}
	}
}

// over says why an entry is over, or "".
func (p *pass) over(e Entry) Why {
	job, found := p.jobs[e.UID]
	switch {
	case p.nodes[e.Node].Name == "" && job.State != Admitted:
		return NodeGone
	case !found || job.Node != e.Node:
		return JobGone
	case job.State == Finished:
		return JobFinished
	}
	return ""
}

// dropDuplicates leaves one ledger per node. Two can name it only when two operators worked at once while the node moved
// between pools. An admitted job keeps its entry whatever happens; of the others the first stays.
func (p *pass) dropDuplicates() {
	for _, node := range slices.Sorted(maps.Keys(p.holders)) {
		hs := p.holders[node]
		if len(hs) < 2 {
			continue
		}
		slices.SortStableFunc(hs, func(a, b holder) int {
			return cmp.Or(-cmp.Compare(p.weight(a), p.weight(b)), cmp.Compare(a.pool.Name, b.pool.Name))
		})
		kept := hs[:1]
		for _, h := range hs[1:] {
			sameJob := h.entry.UID == kept[0].entry.UID
			if !sameJob && !p.jobs[h.entry.UID].waiting() {
				kept = append(kept, h)
				continue
			}
			h.pool.out.Remove = append(h.pool.out.Remove, Removal{h.entry, Duplicate})
			h.pool.drop(node)
		}
		p.holders[node] = kept
	}
}

// weight ranks entries for the same node: what runs before what waits, the node's own policy before others.
func (p *pass) weight(h holder) int {
	w := 0
	if !p.jobs[h.entry.UID].waiting() {
		w += 2
	}
	if slices.Contains(p.chosen[h.entry.Node], h.pool) {
		w++
	}
	return w
}

func (o *pool) drop(node string) {
	o.out.Ledger = slices.DeleteFunc(o.out.Ledger, func(e Entry) bool { return e.Node == node })
}

// adopt gives an entry to each admitted job that has none, because its policy was deleted with its ledger.
// Its node is disturbed whether the budget allows that or not.
func (p *pass) adopt() {
	for _, admitted := range p.inOrder(func(j Job) bool { return j.State == Admitted || j.State == Held }) {
		j := *admitted
		pools := p.chosen[j.Node]
		if len(pools) == 0 || len(p.holders[j.Node]) > 0 || p.followed(j) || !pools[0].hasRoom(j.entry()) {
			continue
		}
		o, e := pools[0], j.entry()
		o.out.Add = append(o.out.Add, e)
		o.out.Adopted++
		p.enter(o, e)
	}
}

// followed reports whether a newer job has already taken over the node that the held job holds.
func (p *pass) followed(held Job) bool {
	return held.State == Held && slices.ContainsFunc(p.facts.Jobs, func(j Job) bool {
		return j.Node == held.Node && !j.waiting() && follows(j, held)
	})
}

func (p *pass) enter(o *pool, e Entry) {
	o.bytes += e.bytes()
	o.out.Ledger = append(o.out.Ledger, e)
	p.holders[e.Node] = append(p.holders[e.Node], holder{o, e})
}

// count computes the budget of each pool and which nodes use it.
func (p *pass) count() {
	for _, o := range p.pools {
		for _, e := range o.out.Ledger {
			p.use(o, e.Node)
			if p.jobs[e.UID].State == Held {
				o.out.Held = append(o.out.Held, e.Node)
			}
		}
	}
	for _, n := range p.facts.Nodes {
		pools := p.chosen[n.Name]
		for _, o := range pools {
			o.out.Nodes++
			for _, d := range o.domains {
				d.size[n.Labels[d.Key]]++
			}
			if !n.Ready || n.Cordoned || len(p.holders[n.Name]) > 0 {
				p.use(o, n.Name)
			}
			if len(pools) > 1 {
				o.conflict(n.Name, pools)
			}
		}
	}
	for _, o := range p.pools {
		if o.Invalid == "" {
			o.out.Budget = Budget(o.MaxUnavailable, o.out.Nodes)
		}
	}
}

func (o *pool) conflict(node string, pools []*pool) {
	c := o.out.Conflict
	if c == nil {
		c = &Conflict{Node: node}
		o.out.Conflict = c
	}
	c.Nodes++
	c.Node = min(c.Node, node)
	for _, other := range pools {
		if other == o {
			continue
		}
		if i, found := slices.BinarySearch(c.With, other.Name); !found {
			c.With = slices.Insert(c.With, i, other.Name)
		}
	}
}

// wake asks for another decision at that time. A time that is not after Facts.Now asks for nothing.
func (p *pass) wake(at time.Time) {
	if at.After(p.facts.Now) && (p.next.IsZero() || at.Before(p.next)) {
		p.next = at
	}
}

func (p *pass) hasEntry(j Job) bool {
	return slices.ContainsFunc(p.holders[j.Node], func(h holder) bool { return h.entry.UID == j.UID })
}

func (p *pass) policyName(node string) string {
	if pools := p.chosen[node]; len(pools) == 1 {
		return pools[0].Name
	}
	return ""
}

// inOrder lists the jobs for which wanted returns true in the order of the queue: by priority, then by age, and the operator's
// own node last.
func (p *pass) inOrder(wanted func(Job) bool) []*Job {
	var out []*Job
	for i := range p.facts.Jobs {
		if j := &p.facts.Jobs[i]; wanted(*j) {
			out = append(out, j)
		}
	}
	own := func(j *Job) int {
		if p.facts.OwnNode != "" && j.Node == p.facts.OwnNode {
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b *Job) int {
		if o := cmp.Compare(own(a), own(b)); o != 0 {
			return o
		}
		if o := cmp.Compare(b.Priority, a.Priority); o != 0 {
			return o
		}
		return byAge(a, b)
	})
	return out
}

func (p *pass) decision() Decision {
	d := Decision{Wait: p.waiting}
	for _, o := range p.pools {
		o.out.Unavailable, o.out.Window = len(o.used), p.calendar(o)
		slices.Sort(o.out.Held)
		o.out.Rollouts = p.states(o)
		for _, e := range o.out.Ledger {
			if o.judged[e.UID] {
				o.out.Judged = append(o.out.Judged, e.UID)
			}
		}
		d.Policies = append(d.Policies, o.out)
		had := make(map[Entry]bool, len(o.Policy.Ledger))
		for _, e := range o.Policy.Ledger {
			had[e] = true
		}
		for _, e := range o.out.Ledger {
			if j := p.jobs[e.UID]; j.waiting() && !p.refused(j) && len(p.holders[e.Node]) == 1 {
				d.Admit = append(d.Admit, Admission{Policy: o.Name, Entry: e, New: !had[e]})
			}
		}
	}
	d.Next = p.next
	return d
}

func (j Job) entry() Entry { return Entry{Node: j.Node, Job: j.Name, UID: j.UID} }

// follows reports whether j was created after held, or in the same second, which is as exact as the API is.
func follows(j, held Job) bool { return j.UID != held.UID && !j.Created.Before(held.Created) }

func byAge(a, b *Job) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

func names(pools []*pool) string {
	out := make([]string, len(pools))
	for i, o := range pools {
		out[i] = o.Name
	}
	return strings.Join(out, ", ")
}
