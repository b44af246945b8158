package seen

import (
	"sync"
	"time"
)

// Seen remembers for each node when its objects were first seen in the state that the caller lists. A new process begins
// anew, so a pause that it counts may become longer, never shorter. The zero Seen is ready for use.
type Seen[K comparable] struct {
	mu    sync.Mutex
	nodes map[string]map[K]time.Time
}

// Since returns when each of the objects of the node was first seen, of those that Note listed last. The result must not be
// changed.
func (s *Seen[K]) Since(node string) map[K]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[node]
}

// Note returns when each of the objects of the node was first seen: now for a new one. What is not listed is forgotten.
// The result must not be changed.
func (s *Seen[K]) Note(node string, objects []K, now time.Time) map[K]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(objects) == 0 {
		delete(s.nodes, node)
		return nil
	}
	known, noted := s.nodes[node], make(map[K]time.Time, len(objects))
	for _, o := range objects {
		noted[o] = now
		if at, ok := known[o]; ok {
			noted[o] = at
		}
	}
	if s.nodes == nil {
		s.nodes = map[string]map[K]time.Time{}
	}
	s.nodes[node] = noted
	return noted
}
