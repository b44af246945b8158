package provenance

import (
	"maps"
	"slices"
	"sync"
)

// users knows which nodes have devices that refer to a template or a source, so that a change of that wakes these nodes and no
// other. A node with only references to itself takes no room.
type users struct {
	mu     sync.Mutex
	nodes  map[id]map[string]struct{}
	byNode map[string][]id
}

func newUsers() *users {
	return &users{nodes: map[id]map[string]struct{}{}, byNode: map[string][]id{}}
}

// note replaces what the node refers to. It must be called before the objects are read: a change that comes between would
// otherwise find no node to wake.
func (u *users) note(node string, ids map[id]struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, i := range u.byNode[node] {
		if _, still := ids[i]; !still {
			delete(u.nodes[i], node)
			if len(u.nodes[i]) == 0 {
				delete(u.nodes, i)
			}
		}
	}
	for i := range ids {
		if u.nodes[i] == nil {
			u.nodes[i] = map[string]struct{}{}
		}
		u.nodes[i][node] = struct{}{}
	}
	delete(u.byNode, node)
	if len(ids) > 0 {
		u.byNode[node] = slices.Collect(maps.Keys(ids))
	}
}

func (u *users) of(i id) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.nodes[i]))
}
