package planner

import "sync"

// dueByNode remembers for each node the work that was due when the node was last planned.
type dueByNode struct {
	mu    sync.Mutex
	nodes map[string]dueWork
}

func (d *dueByNode) get(node string) dueWork {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[node]
}

// set remembers the work, and nothing of a node that has none.
func (d *dueByNode) set(node string, work dueWork) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if work == (dueWork{}) {
		delete(d.nodes, node)
		return
	}
	d.nodes[node] = work
}
