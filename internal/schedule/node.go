package schedule

import "slices"

// node is a Node with what the pass knows of it.
type node struct {
	// Node is zero where the facts have none of that name.
	Node
	// pools are those of the policies that choose the node; more than one are in conflict.
	pools []*pool
	// holders are the entries of the node in the ledgers.
	holders []holder
	// held are the failed jobs that hold the node. If there are any, admitted are they and its other jobs that do not wait.
	held, admitted []*Job
	// first is the job that goes before the others of the node that wait; nil as long as none is known.
	first *Job
	// waitsWith are the rollouts that count the node as one that waits.
	waitsWith []*rollout
}

// holder is an entry in the ledger of a pool.
type holder struct {
	pool  *pool
	entry Entry
}

// node is the one of that name.
func (p *pass) node(name string) *node {
	n := p.nodes[name]
	if n == nil {
		n = &node{}
		p.nodes[name] = n
	}
	return n
}

// atWork reports whether the node reports that a job disturbs it.
func (n *node) atWork() bool { return n.Runs != "" || n.Held }

func (n *node) exists() bool { return n.Name != "" }

func (n *node) hasEntry(j *Job) bool {
	return slices.ContainsFunc(n.holders, func(h holder) bool { return h.entry.UID == j.UID })
}

// followed reports whether a newer job has already taken over the node that the held job holds.
func (n *node) followed(held *Job) bool {
	return held.State == Held && slices.ContainsFunc(n.admitted, func(j *Job) bool { return j.follows(held) })
}

// policy is the name of the policy of the node; empty where it has none, or more than one.
func (n *node) policy() string {
	if len(n.pools) != 1 {
		return ""
	}
	return n.pools[0].Name
}
