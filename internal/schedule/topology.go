package schedule

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// TopologyBudget bounds how many nodes with the same value of a label are disturbed at once, whatever pools they are in.
type TopologyBudget struct {
	// Key is the label. The nodes of the pool without it are one domain together.
	Key string
	// MaxUnavailable is a number of nodes, or a percentage of the nodes of the domain.
	MaxUnavailable intstr.IntOrString
}

// domains counts nodes by the value of one label.
type domains struct{ size, used map[string]int }

func newDomains() *domains { return &domains{size: map[string]int{}, used: map[string]int{}} }

// controlPlane are the labels of the nodes that run the control plane, or etcd for it.
var controlPlane = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/etcd", "node-role.kubernetes.io/master"}

func (n *node) isOfControlPlane() bool {
	return slices.ContainsFunc(controlPlane, func(key string) bool { _, is := n.Labels[key]; return is })
}

// domainsOf are the domains of a label in the whole cluster.
func (p *pass) domainsOf(key string) *domains {
	d := p.domains[key]
	if d == nil {
		d = newDomains()
		p.domains[key] = d
	}
	return d
}

// loadDomains counts the nodes of each domain that a policy has a budget for. Nodes without the label are counted in their pools.
func (p *pass) loadDomains() {
	for _, o := range p.pools {
		for _, b := range o.Topology {
			p.domainsOf(b.Key)
			o.apart[b.Key] = &domain{}
		}
	}
	for i := range p.fleet {
		n := &p.fleet[i]
		for key, d := range p.domains {
			if value := n.Labels[key]; value != "" {
				d.size[value]++
				continue
			}
			for _, o := range n.pools {
				if a := o.apart[key]; a != nil {
					a.size++
				}
			}
		}
	}
}

// domain is that of the nodes of a pool without the label.
type domain struct{ size, used int }

// use notes that a node uses up budget: that of a pool, and that of each domain it is in.
func (p *pass) use(o *pool, name string) {
	if o.used[name] {
		return
	}
	o.used[name] = true
	n := p.node(name)
	for key, a := range o.apart {
		if n.Labels[key] == "" {
			a.used++
		}
	}
	p.disturb(name)
}

// disturb notes that a node uses up the budget of its domains, whether or not it is in a pool.
func (p *pass) disturb(name string) {
	if p.disturbed[name] {
		return
	}
	p.disturbed[name] = true
	n := p.node(name)
	for key, d := range p.domains {
		if value := n.Labels[key]; value != "" {
			d.used[value]++
		}
	}
}

// live notes whether a node of the control plane is away, or is about to be: is not Ready, or has a job. So may one be that was deleted
// with its job under way: the machine is still a member of etcd.
func (p *pass) live(n *node) {
	away := !n.Ready || len(n.holders) > 0 || n.atWork() || n.Unheard
	unknown := n.Labels == nil && !n.exists()
	if away && (unknown || n.isOfControlPlane()) { // few nodes are away, and the labels are asked for last
		p.awayControlPlane = append(p.awayControlPlane, n)
	}
}

// quorum keeps the job of a node of the control plane while another one of the cluster is away: etcd has a majority of three as long as
// two are there. A held node still has its member, until its next job reboots it.
func (p *pass) quorum(c *candidate) (Reason, string) {
	if len(p.awayControlPlane) == 0 || !c.node.isOfControlPlane() {
		return "", ""
	}
	for _, other := range p.awayControlPlane {
		switch {
		case other == c.node, c.held != nil && p.bears(c.node, other):
		case !other.exists():
			return BudgetExhausted, fmt.Sprintf("Node %s was deleted while its job runs, and may be a control plane node; nodes with a label of %s "+
				"are updated one at a time.", other.holders[0].entry.Node, strings.Join(controlPlane, ", "))
		default:
			return BudgetExhausted, fmt.Sprintf("Control plane node %s is unavailable or has a job; nodes with a label of %s are updated one at a time.",
				other.Name, strings.Join(controlPlane, ", "))
		}
	}
	return "", ""
}

// bears reports whether a held node may be taken over though the other one counts as away: that one is only held as well, and is Ready, or the
// node is not either. Two held nodes do not wait for each other.
func (p *pass) bears(held, other *node) bool {
	works := slices.ContainsFunc(other.holders, func(h holder) bool { return p.jobs[h.entry.UID].State != Held })
	return other.exists() && !works && other.Runs == "" && !other.Unheard && (other.Ready || !held.Ready)
}

// crowded keeps a job while its domain has as many disturbed nodes as may be. A node that uses budget already costs no more.
func (p *pass) crowded(c *candidate) (Reason, string) {
	for _, b := range c.pool.Topology {
		value := c.node.Labels[b.Key]
		size, after := p.domains[b.Key].size[value], p.domains[b.Key].used[value]
		if value == "" {
			size, after = c.pool.apart[b.Key].size, c.pool.apart[b.Key].used
		}
		budget := Budget(b.MaxUnavailable, size)
		if !c.pool.used[c.job.Node] {
			after++
		}
		switch {
		case after <= budget:
		case budget == 0:
			return BudgetExhausted, fmt.Sprintf("Policy %s admits no node because its topology budget for %s is %s.", c.pool.Name, b.Key,
				b.MaxUnavailable.String())
		case value == "":
			return BudgetExhausted, fmt.Sprintf("%[1]d of %[1]d in policy %[2]s without label %[3]s: no more nodes may be disturbed; the job starts "+
				"as soon as one of them is back.%[4]s", budget, c.pool.Name, b.Key, p.aboutLost(p.among(c.pool.lost, b.Key, value)))
		default:
			return BudgetExhausted, fmt.Sprintf("%[1]d of %[1]d in %[3]s %[4]s by policy %[2]s: no more nodes may be disturbed; the job starts as soon as "+
				"one of them is back.%[5]s", budget, c.pool.Name, b.Key, value, p.aboutLost(p.among(c.pool.lost, b.Key, value)))
		}
	}
	return "", ""
}

// among are those of the nodes whose label has that value.
func (p *pass) among(nodes []string, key, value string) []string {
	var out []string
	for _, name := range nodes {
		if p.node(name).Labels[key] == value {
			out = append(out, name)
		}
	}
	return out
}
