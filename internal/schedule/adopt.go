package schedule

import "slices"

// adopt gives an entry to each admitted job that has none, because its policy was deleted with its ledger.
// Its node is disturbed whether the budget allows that or not.
func (p *pass) adopt() {
	for _, j := range p.inOrder(func(j *Job) bool { return j.State == Admitted || j.State == Held }) {
		n := p.node(j.Node)
		if len(n.pools) == 0 || len(n.holders) > 0 || n.followed(j) || !n.pools[0].hasRoom(j.entry()) {
			continue
		}
		p.enter(n.pools[0], j)
		n.pools[0].out.Adopted++
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
