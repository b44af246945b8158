package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// admitQueued walks the queue, oldest first, and admits what may go.
func (p *pass) admitQueued() {
	queue := p.inOrder((*Job).waiting)
	p.waiting = make([]Waiting, 0, len(queue))
	for _, j := range queue {
		n := p.node(j.Node)
		if n.hasEntry(j) {
			n.first = j
			if r := p.refusals[j.UID]; r.reason != "" {
				p.wait(j, n, r.reason, r.message)
			}
			continue
		}
		reason, message := p.tryAdmit(j, n)
		if reason == "" {
			n.first = j
			continue
		}
		if n.first == nil && reason != JobCancelled && !p.refused(j) && !ofItsUpdates[reason] {
			n.first = j
		}
		p.wait(j, n, reason, message)
	}
}

// ofItsUpdates are the reasons to wait that another job of the node may not have: they may last for days, and what a person wants to
// run on the node meanwhile does not wait for them.
var ofItsUpdates = map[Reason]bool{WaitingForWave: true, WaveEmpty: true, RolloutHalted: true}

func (p *pass) wait(j *Job, n *node, reason Reason, message string) {
	for _, o := range n.pools {
		o.queue = append(o.queue, len(p.waiting))
	}
	p.waiting = append(p.waiting, Waiting{
		Entry: j.entry(), Policy: n.policy(), Reason: reason, Message: message,
		ForBudget: reason == BudgetExhausted && len(n.pools) == 1 && n.pools[0].plain && message == n.pools[0].usedUp,
		ForWave:   len(n.pools) == 1 && n.pools[0].toldOfWave(j, message),
	})
}

// toldOfWave reports whether the message says how far the open wave of an update of the job is.
func (o *pool) toldOfWave(j *Job, message string) bool {
	return slices.ContainsFunc(j.Edges, func(e JobEdge) bool {
		r := o.rollouts[e.Target]
		return r != nil && r.closed.message == message
	})
}

// candidate is a queued job on its way to a place.
type candidate struct {
	job  *Job
	node *node
	// held is the entry of a failed job that the job may take over; nil where the node is free.
	held *holder
	// pool is the policy of the node. The gates from open on may use it.
	pool *pool
}

// gate says why a candidate must wait; an empty reason lets it pass. It changes nothing but the candidate.
type gate func(p *pass, c *candidate) (Reason, string)

// gates are asked in this order, and the first that keeps the candidate says why. One that takes a held node over disturbs no
// other node, so budgetGates do not concern it, but for the quorum.
var (
	gates = []gate{
		(*pass).cancelled, (*pass).missing, (*pass).refuses, (*pass).behind, (*pass).busy, (*pass).open, (*pass).stopped, (*pass).doubtful,
		(*pass).denied, (*pass).inWave,
	}
	budgetGates = []gate{(*pass).outside, (*pass).notReady, (*pass).taken, (*pass).quorum, (*pass).ledgerFull, (*pass).crowded, (*pass).exhausted}
)

// tryAdmit gives the job a place, or says why it waits.
func (p *pass) tryAdmit(j *Job, n *node) (Reason, string) {
	c := &candidate{job: j, node: n}
	if reason, message := p.ask(c, gates); reason != "" {
		return reason, message
	}
	if c.held != nil {
		if reason, message := p.quorum(c); reason != "" {
			return reason, message
		}
		p.takeOver(*c.held, c)
		p.begin(c)
		return "", ""
	}
	if reason, message := p.ask(c, budgetGates); reason != "" {
		c.pool.keep(c.job, reason, message)
		return reason, message
	}
	p.use(c.pool, j.Node)
	p.enter(c.pool, j)
	p.begin(c)
	return "", ""
}

// keep remembers what the first node of the open waves waits for that could go but for that.
func (o *pool) keep(j *Job, reason Reason, message string) {
	if reason == BudgetExhausted {
		return
	}
	for _, e := range j.Edges {
		if r := o.rollouts[e.Target]; r != nil && r.keeps == "" && !pins(j.Edges, e.Target) {
			r.keeps, r.closed = message, refusal{}
		}
	}
}

func (p *pass) ask(c *candidate, gates []gate) (reason Reason, message string) {
	for _, g := range gates {
		if reason, message = g(p, c); reason != "" {
			return reason, message
		}
	}
	return "", ""
}

func (p *pass) cancelled(c *candidate) (Reason, string) {
	if c.job.State != Cancelled {
		return "", ""
	}
	return JobCancelled, "The job was cancelled before it was admitted."
}

func (p *pass) missing(c *candidate) (Reason, string) {
	if c.node.exists() {
		return "", ""
	}
	return NodeMissing, fmt.Sprintf("There is no Node %s.", c.job.Node)
}

func (p *pass) refuses(c *candidate) (Reason, string) {
	r := p.refusals[c.job.UID]
	return r.reason, r.message
}

func (p *pass) behind(c *candidate) (Reason, string) {
	if c.node.first == nil {
		return "", ""
	}
	return NodeBusy, fmt.Sprintf("The job %s of node %s goes first.", c.node.first.Name, c.job.Node)
}

// busy keeps the job while another one has its node, and finds the failed job that it may take over.
func (p *pass) busy(c *candidate) (reason Reason, message string) {
	c.held, reason, message = p.heldBy(c)
	return reason, message
}

// open finds the policy of the node, or says why it admits nothing at all.
func (p *pass) open(c *candidate) (reason Reason, message string) {
	c.pool, reason, message = p.poolFor(c.node)
	return reason, message
}

func (p *pass) notReady(c *candidate) (Reason, string) {
	if c.node.Ready {
		return "", ""
	}
	return NodeNotReady, fmt.Sprintf("Node %s is not Ready; nothing new is started on it until it is.", c.job.Node)
}

// taken keeps a node that somebody else has. It is as if it were not Ready: when that ends, only they know.
func (p *pass) taken(c *candidate) (Reason, string) {
	if c.node.Taken == "" {
		return "", ""
	}
	return NodeNotReady, c.node.Taken
}

func (p *pass) exhausted(c *candidate) (Reason, string) {
	if c.pool.fits(c.job.Node) {
		return "", ""
	}
	return BudgetExhausted, c.pool.usedUp
}

// heldBy is the entry that the job may take over, nil when the node is free, or why it is busy.
func (p *pass) heldBy(c *candidate) (*holder, Reason, string) {
	hs := c.node.holders
	if len(hs) == 0 {
		return nil, "", ""
	}
	owner := p.jobs[hs[0].entry.UID]
	if len(hs) == 1 && owner.State == Held && c.job.mayFollow(owner) {
		return &hs[0], "", ""
	}
	return nil, NodeBusy, fmt.Sprintf("Job %s holds node %s; this job follows when that one is done.", owner.Name, c.job.Node)
}

// poolFor is the policy a node belongs to, or why it admits nothing at all.
func (p *pass) poolFor(n *node) (*pool, Reason, string) {
	if len(n.pools) == 0 {
		return nil, InConflict, "No rollout policy selects the node and there is none named default."
	}
	o, unclear := n.pools[0], p.meantFor(n)
	switch {
	case len(n.pools) > 1:
		return nil, InConflict, fmt.Sprintf("The rollout policies %s all select node %s. Change a nodeSelector so that only one policy selects it: %s",
			names(n.pools), n.Name, wayout.Edit("rp", n.pools[0].Name))
	case o.Invalid != "":
		return nil, InvalidSpec, o.invalid(o.Invalid)
	case o.isDefault() && unclear != nil:
		return nil, InvalidSpec, fmt.Sprintf("Rollout policy %s may be the one for node %s, but its spec is invalid. To correct it: %s",
			unclear.Name, n.Name, wayout.Edit("rp", unclear.Name))
	case o.Aborted:
		return nil, Aborted, o.aborted()
	case o.Paused:
		return nil, Paused, fmt.Sprintf("Rollout policy %s is paused. To continue: %s", o.Name, wayout.State("rp", o.Name, "Active"))
	case o.out.Budget == 0:
		return nil, BudgetExhausted, fmt.Sprintf("Policy %s admits no node because its maxUnavailable is %s.",
			o.Name, o.MaxUnavailable.String())
	}
	return o, "", ""
}

// invalid is what is told to the jobs of a policy whose spec is.
func (o *pool) invalid(why string) string {
	return fmt.Sprintf("Rollout policy %s: %s. To correct it: %s", o.Name, why, wayout.Edit("rp", o.Name))
}

// meantFor is the first policy with an invalid selector that may be meant for the node; nil for none. The default policy must not
// take such a node for its own.
func (p *pass) meantFor(n *node) *pool {
	for _, o := range p.invalid {
		if o.Selector.Matches(labels.Set(n.Labels)) {
			return o
		}
	}
	return nil
}

// fits reports whether the node may be disturbed too. A node that uses budget already costs no more.
func (o *pool) fits(node string) bool {
	after := len(o.used)
	if !o.used[node] {
		after++
	}
	return after <= o.out.Budget
}

// takeOver passes the entry of a failed job to the candidate.
func (p *pass) takeOver(h holder, c *candidate) {
	e := c.job.entry()
	p.jobs[e.UID] = c.job
	h.pool.out.Ledger[slices.Index(h.pool.out.Ledger, h.entry)] = e
	c.node.holders = []holder{{h.pool, e}}
	h.pool.out.Held = slices.DeleteFunc(h.pool.out.Held, func(n string) bool { return n == e.Node })
	if i := slices.Index(h.pool.out.Add, h.entry); i >= 0 { // adopted in this pass
		h.pool.out.Add[i] = e
		return
	}
	h.pool.out.Replace = append(h.pool.out.Replace, TakeOver{Old: h.entry, New: e})
}

// adopt gives an entry to each admitted job that has none, because its policy was deleted with its ledger, or because the job that was to
// take its node over ended before it did: then it gets its place back where that was. Its node is disturbed whether the budget allows that
// or not.
func (p *pass) adopt() {
	for _, j := range p.inOrder(func(j *Job) bool { return j.State == Admitted || j.State == Held }) {
		n := p.node(j.Node)
		if len(n.holders) > 0 || n.followed(j) {
			continue
		}
		var o *pool
		switch {
		case j.State == Held && n.left != nil:
			o, n.returned = n.left, j
		case len(n.pools) > 0 && n.pools[0].hasRoom(j.entry()):
			o = n.pools[0]
		default:
			continue
		}
		p.enter(o, j)
		o.out.Adopted++
	}
}

// enter adds the job to the ledger.
func (p *pass) enter(o *pool, j *Job) {
	e := j.entry()
	o.bytes += e.bytes()
	o.out.Ledger, o.out.Add = append(o.out.Ledger, e), append(o.out.Add, e)
	p.jobs[j.UID] = j
	n := p.node(j.Node)
	n.holders = append(n.holders, holder{o, e})
	if !slices.Contains(p.awayControlPlane, n) {
		p.live(n)
	}
}

const (
	// MaxLedger bounds the entries of one ledger, as the API does.
	MaxLedger = 1024
	// MaxLedgerBytes bounds what they take in the API, so that the whole policy stays under 256 KiB however long the names are.
	MaxLedgerBytes = 128 << 10
	// entryFrame is what an entry takes there beside its names: the names of its fields, its time and its verdict.
	entryFrame = 82
)

func (e Entry) bytes() int { return entryFrame + len(e.Node) + len(e.Job) + len(e.UID) }

// hasRoom reports whether the ledger can list another entry. One that is larger than it may become keeps what it has.
func (o *pool) hasRoom(e Entry) bool {
	return len(o.out.Ledger) < MaxLedger && o.bytes+e.bytes() <= MaxLedgerBytes
}

// measure counts the bytes of the ledgers.
func (p *pass) measure() {
	for _, o := range p.pools {
		for _, e := range o.out.Ledger {
			o.bytes += e.bytes()
		}
	}
}

func (p *pass) ledgerFull(c *candidate) (Reason, string) {
	if c.pool.hasRoom(c.job.entry()) {
		return "", ""
	}
	return BudgetExhausted, fmt.Sprintf("Policy %s has %d admitted nodes, the most that one policy can list; the job starts as soon as "+
		"one of them is done. To disturb more nodes at once, divide them among several policies.", c.pool.Name, len(c.pool.out.Ledger))
}

// inOrder lists the jobs for which wanted returns true in the order of the queue: by priority, then by when their devices fail, then by age,
// and the operator's own node last.
func (p *pass) inOrder(wanted func(*Job) bool) []*Job {
	var out []*Job
	for i := range p.facts.Jobs {
		if j := &p.facts.Jobs[i]; wanted(j) {
			out = append(out, j)
		}
	}
	own := func(j *Job) int {
		if p.facts.OwnNode != "" && j.Node == p.facts.OwnNode {
			return 1
		}
		return 0
	}
	urgent := urgency(out)
	slices.SortFunc(out, func(a, b *Job) int {
		if o := cmp.Compare(own(a), own(b)); o != 0 {
			return o
		}
		if o := cmp.Compare(b.Priority, a.Priority); o != 0 {
			return o
		}
		if o := byFailure(urgent[a], urgent[b]); o != 0 {
			return o
		}
		return byAge(a, b)
	})
	return out
}

// urgency is when the first device fails of each job and of those that follow it on its node with the same priority: none of them overtakes it.
func urgency(jobs []*Job) map[*Job]time.Time {
	if !slices.ContainsFunc(jobs, func(j *Job) bool { return !j.Fails.IsZero() }) {
		return nil
	}
	type place struct {
		node     string
		priority int
	}
	out, later := map[*Job]time.Time{}, map[place]time.Time{}
	for _, j := range slices.SortedFunc(slices.Values(jobs), func(a, b *Job) int { return byAge(b, a) }) {
		at := place{j.Node, j.Priority}
		if byFailure(j.Fails, later[at]) < 0 {
			later[at] = j.Fails
		}
		out[j] = later[at]
	}
	return out
}

func byFailure(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}

func byAge(a, b *Job) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return cmp.Compare(a.UID, b.UID)
}
