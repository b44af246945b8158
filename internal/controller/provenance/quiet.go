package provenance

import "sync"

// waiting remembers for each node which change is not confirmed yet, and since when.
type waiting struct {
	mu    sync.Mutex
	nodes map[string]pending
}

func (w *waiting) get(node string) pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[node]
}

// set remembers the change, and nothing of a node where none waits.
func (w *waiting) set(node string, p pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p == (pending{}) {
		delete(w.nodes, node)
		return
	}
	w.nodes[node] = p
}
