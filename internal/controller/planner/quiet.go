package planner

import (
	"sync"
	"time"
)

// quietTimes remembers for each node since when the same work is due.
type quietTimes struct {
	period time.Duration
	mu     sync.Mutex
	nodes  map[string]quietTime
}

type quietTime struct {
	fingerprint string
	since       time.Time
}

func newQuietTimes(period time.Duration) *quietTimes {
	return &quietTimes{period: period, nodes: map[string]quietTime{}}
}

// left is how long the node's due work has still to stay the same; 0 when it has for the quiet period.
func (q *quietTimes) left(node, fingerprint string, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	last, known := q.nodes[node]
	if !known || last.fingerprint != fingerprint {
		last = quietTime{fingerprint, now}
		q.nodes[node] = last
	}
	return max(0, q.period-now.Sub(last.since))
}

// forget drops a node that has no work.
func (q *quietTimes) forget(node string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.nodes, node)
}
