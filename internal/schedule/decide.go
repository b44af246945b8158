package schedule

import (
	"cmp"
	"slices"
	"time"
)

// Decide derives the next ledgers. It never removes the entry of a job that runs, even when its Node or its own object was
// deleted, and not that of one that is queued or holds its node while both exist, however small the budget has become. The
// outcome does not depend on the order of nodes and jobs in the facts. It takes time in proportion to nodes, jobs and policies, but
// for the order of the queue.
func Decide(f Facts) Decision {
	p := newPass(f)
	p.refuse()
	p.clean()
	p.dropDuplicates()
	p.measure()
	p.adopt()
	p.count()
	p.loadDoubts()
	p.followRollouts()
	p.admitQueued()
	return p.decision()
}

// pass is a decision in the making.
type pass struct {
	facts Facts
	// pools are those of the policies, in order of name; invalid are those of them that are invalid.
	pools, invalid []*pool
	// fleet are the nodes of the facts. The map has them by name, and those that only jobs and entries name.
	fleet []node
	nodes map[string]*node
	// jobs are those that the ledgers name, by uid.
	jobs     map[string]*Job
	refusals map[string]refusal // by uid
	// domains are by label those of the topology budgets, and disturbed the nodes that count in them.
	domains   map[string]*domains
	disturbed map[string]bool
	// awayControlPlane are the nodes of the control plane, or that may be of it, that are away or have a job.
	awayControlPlane []*node
	waiting          []Waiting
	next             time.Time
}

func newPass(f Facts) *pass {
	p := &pass{
		facts: f, fleet: make([]node, len(f.Nodes)), nodes: make(map[string]*node, len(f.Nodes)), jobs: map[string]*Job{},
		refusals: map[string]refusal{}, domains: map[string]*domains{}, disturbed: map[string]bool{},
	}
	p.loadPolicies()
	p.loadJobs()
	p.recall()
	return p
}

// loadPolicies notes the policies, and which of them choose which nodes.
func (p *pass) loadPolicies() {
	policies := slices.SortedFunc(slices.Values(p.facts.Policies), func(a, b Policy) int { return cmp.Compare(a.Name, b.Name) })
	for _, policy := range policies {
		o := newPool(policy)
		p.pools = append(p.pools, o)
		if o.Invalid != "" {
			p.invalid = append(p.invalid, o)
		}
	}
	c := newChooser(policies)
	for i := range p.fleet {
		n := &p.fleet[i]
		n.Node = p.facts.Nodes[i]
		for _, at := range c.of(n.Labels) {
			n.pools = append(n.pools, p.pools[at])
		}
		p.nodes[n.Name] = n
	}
	for name, last := range p.facts.Gone {
		if n := p.node(name); !n.exists() {
			n.Labels = last
		}
	}
}

// loadJobs notes the jobs that the ledgers name, the failed ones that hold their nodes, and what was admitted on these.
func (p *pass) loadJobs() {
	entered := map[string]bool{}
	for _, o := range p.pools {
		for _, e := range o.Policy.Ledger {
			entered[e.UID] = true
		}
	}
	for i := range p.facts.Jobs {
		j := &p.facts.Jobs[i]
		if entered[j.UID] {
			p.jobs[j.UID] = j
		}
		if j.State == Held {
			n := p.node(j.Node)
			n.held = append(n.held, j)
		}
	}
	for i := range p.facts.Jobs {
		j := &p.facts.Jobs[i]
		if j.waiting() {
			continue
		}
		if n := p.nodes[j.Node]; n != nil && len(n.held) > 0 {
			n.admitted = append(n.admitted, j)
		}
	}
}

// recall adds the jobs of the ledgers that are gone though their node still reports them, or one that is gone as well.
func (p *pass) recall() {
	for _, o := range p.pools {
		for _, e := range o.Policy.Ledger {
			n := p.node(e.Node)
			if p.jobs[e.UID] != nil || n.Runs != e.Job && (n.HeldBy == "" || n.isHeldByKnown()) {
				continue
			}
			j := &Job{Name: e.Job, UID: e.UID, Node: e.Node, State: Admitted, gone: true}
			if n.Runs == "" {
				j.State = Held
			}
			p.jobs[e.UID] = j
		}
	}
}

// wake asks for another decision at that time. A time that is not after Facts.Now asks for nothing.
func (p *pass) wake(at time.Time) {
	if at.After(p.facts.Now) && (p.next.IsZero() || at.Before(p.next)) {
		p.next = at
	}
}

func (p *pass) decision() Decision {
	d := Decision{Wait: p.waiting}
	for _, o := range p.pools {
		o.out.Unavailable, o.out.Window = len(o.used), p.calendar(o)
		slices.Sort(o.out.Held)
		o.out.Queue = slices.Grow(o.out.Queue, len(o.queue))
		for _, at := range o.queue {
			o.out.Queue = append(o.out.Queue, p.waiting[at])
		}
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
			if j := p.jobs[e.UID]; j.waiting() && !p.refused(j) && len(p.node(e.Node).holders) == 1 {
				d.Admit = append(d.Admit, Admission{Policy: o.Name, Entry: e, New: !had[e], PassesWaves: len(o.Plan.Waves) > 0 && j.isPinned()})
			}
		}
	}
	d.Next = p.next
	return d
}
