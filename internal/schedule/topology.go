package schedule

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// TopologyBudget bounds how many nodes of a pool with the same value of a label are disturbed at once.
type TopologyBudget struct {
	// Key is the label. The nodes without it are one domain together.
	Key string
	// MaxUnavailable is a number of nodes, or a percentage of the nodes of the domain.
	MaxUnavailable intstr.IntOrString
}

// domains counts the nodes of a pool by the value of one label.
type domains struct {
	TopologyBudget
	size, used map[string]int
}

func newDomains(budgets []TopologyBudget) []*domains {
	out := make([]*domains, len(budgets))
	for i, b := range budgets {
		out[i] = &domains{TopologyBudget: b, size: map[string]int{}, used: map[string]int{}}
	}
	return out
}

// use notes that a node uses up budget: that of its pool, and that of each domain it is in.
func (p *pass) use(o *pool, node string) {
	if o.used[node] {
		return
	}
	o.used[node] = true
	for _, d := range o.domains {
		d.used[p.node(node).Labels[d.Key]]++
	}
}

// crowded keeps a job while its domain has as many disturbed nodes as may be. A node that uses budget already costs no more.
func (p *pass) crowded(c *candidate) (Reason, string) {
	for _, d := range c.pool.domains {
		value := c.node.Labels[d.Key]
		budget, after := Budget(d.MaxUnavailable, d.size[value]), d.used[value]
		if !c.pool.used[c.job.Node] {
			after++
		}
		switch {
		case after <= budget:
		case budget == 0:
			return BudgetExhausted, fmt.Sprintf("Policy %s admits no node because its topology budget for %s is %s.", c.pool.Name, d.Key,
				d.MaxUnavailable.String())
		case value == "":
			return BudgetExhausted, fmt.Sprintf("%[1]d of %[1]d in policy %[2]s without label %[3]s: as many nodes are disturbed as may be; the job goes "+
				"as soon as one of them is back.%[4]s", budget, c.pool.Name, d.Key, p.aboutLost(d.among(p, c.pool.lost, value)))
		default:
			return BudgetExhausted, fmt.Sprintf("%[1]d of %[1]d in %[3]s %[4]s of policy %[2]s: as many nodes are disturbed as may be; the job goes as soon as "+
				"one of them is back.%[5]s", budget, c.pool.Name, d.Key, value, p.aboutLost(d.among(p, c.pool.lost, value)))
		}
	}
	return "", ""
}

// among are those of the nodes that are in the domain with that value.
func (d *domains) among(p *pass, nodes []string, value string) []string {
	var out []string
	for _, name := range nodes {
		if p.node(name).Labels[d.Key] == value {
			out = append(out, name)
		}
	}
	return out
}
