package imageserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// Limits bounds what transfers of images cost the operator. The zero value has the defaults.
type Limits struct {
	// Transfers is how many images are sent at once, to all nodes together. Each takes a goroutine, a connection and a buffer of 32 KiB,
	// whatever the size of the image. Default 64.
	Transfers int
	// PerNode is how many of them one node may have. Default 2: a daemon has one, and one more while the server has not noticed that an
	// earlier connection is dead.
	PerNode int
	// Waiting and WaitingPerNode are how many requests may wait for their turn, of all nodes and of one. Default 512 and 2.
	Waiting, WaitingPerNode int
	// Patience is how long a request may wait. Default 15 seconds: a daemon gives up on a server that is silent for 30.
	Patience time.Duration
	// Chunk is how long a node may take to receive 32 KiB. Default 30 seconds. It is no bound for a whole image: slow nodes get theirs.
	Chunk time.Duration
}

func (l Limits) orDefaults() Limits {
	l.Transfers = cmp.Or(l.Transfers, 64)
	l.PerNode = cmp.Or(l.PerNode, 2)
	l.Waiting = cmp.Or(l.Waiting, 512)
	l.WaitingPerNode = cmp.Or(l.WaitingPerNode, 2)
	l.Patience = cmp.Or(l.Patience, 15*time.Second)
	l.Chunk = cmp.Or(l.Chunk, 30*time.Second)
	return l
}

// errFull says that a transfer cannot begin now, nor soon.
var errFull = errors.New("too many transfers")

// queue lets transfers begin: no more than Limits allows, and the nodes that wait in turn. A node with many requests waits behind itself
// and delays no other node by more than one transfer.
type queue struct {
	limits Limits

	mu sync.Mutex
	// active is how many transfers each node has, and sum all of them.
	active map[string]int
	sum    int
	// waiting has the requests of each node that wait, in their order, turn the nodes that have one, the next first, and queued how many
	// requests wait.
	waiting map[string][]*ticket
	turn    []string
	queued  int
}

// ticket is a request that waits. Begin is closed when its transfer may begin.
type ticket struct {
	node  string
	begin chan struct{}
}

func newQueue(l Limits) *queue {
	return &queue{limits: l, active: map[string]int{}, waiting: map[string][]*ticket{}}
}

// enter waits until the transfer may begin. End must be called when it is over. The error is errFull, or the context's.
func (q *queue) enter(ctx context.Context, node string) (end func(), err error) {
	t, err := q.join(node)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, q.limits.Patience, errFull)
	defer stop()
	select {
	case <-t.begin:
	case <-ctx.Done():
		if q.leave(t) {
			return nil, context.Cause(ctx)
		}
	}
	return func() { q.end(node) }, nil
}

// join puts a request behind the others of its node.
func (q *queue) join(node string) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &ticket{node: node, begin: make(chan struct{})}
	own := q.waiting[node]
	if len(own) == 0 {
		q.turn = append(q.turn, node)
	}
	q.waiting[node] = append(own, t)
	q.queued++
	q.next()
	select {
	case <-t.begin: // it need not wait
		return t, nil
	default:
	}
	if q.queued > q.limits.Waiting || len(q.waiting[node]) > q.limits.WaitingPerNode {
		q.remove(t)
		return nil, errFull
	}
	return t, nil
}

// leave takes a request out of the queue, and reports whether it was still in it: its transfer may begin otherwise.
func (q *queue) leave(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-t.begin:
		return false
	default:
	}
	q.remove(t)
	return true
}

// end makes room for the next transfer.
func (q *queue) end(node string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sum--
	if q.active[node]--; q.active[node] == 0 {
		delete(q.active, node)
	}
	q.next()
}

// next begins what may begin: of the nodes that wait and have room, the one whose turn it is, which is the last of them afterwards.
func (q *queue) next() {
	for at := 0; at < len(q.turn) && q.sum < q.limits.Transfers; {
		node := q.turn[at]
		if q.active[node] >= q.limits.PerNode {
			at++
			continue
		}
		t := q.waiting[node][0]
		q.active[node]++
		q.sum++
		q.remove(t)
		if len(q.waiting[node]) > 0 { // behind the others
			q.turn = append(append(q.turn[:at:at], q.turn[at+1:]...), node)
		}
		close(t.begin)
	}
}

// remove takes a request from those that wait, and its node with the last of them.
func (q *queue) remove(t *ticket) {
	own := q.waiting[t.node]
	for i := range own {
		if own[i] == t {
			own = append(own[:i:i], own[i+1:]...)
			q.queued--
			break
		}
	}
	if q.waiting[t.node] = own; len(own) > 0 {
		return
	}
	delete(q.waiting, t.node)
	for i, node := range q.turn {
		if node == t.node {
			q.turn = append(q.turn[:i:i], q.turn[i+1:]...)
			return
		}
	}
}

// comeAgain is after how long a request that found no room is to be repeated: longer the more wait. Who repeats it adds a jitter.
func (q *queue) comeAgain() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return min(5*time.Second+time.Duration(q.queued/q.limits.Transfers)*2*time.Second, time.Minute)
}

// ErrBusy says that the API server is not asked about another token now.
var ErrBusy = errors.New("too many tokens to review")

const (
	// reviewsPerSecond and reviewBurst bound the reviews of all callers together.
	reviewsPerSecond, reviewBurst = 20, 200
	// callerEvery and callerBurst bound those of one caller, which needs one a minute.
	callerEvery, callerBurst = 5 * time.Second, 6
	// remembered bounds the callers and the tokens that are remembered.
	remembered = 8192
)

// limit bounds how often the API server is asked about tokens: once at a time for each caller, and not too often.
type limit struct {
	all *rate.Limiter

	mu      sync.Mutex
	callers *lru.Cache // of *caller by address
	known   *lru.Cache // of the time until which an answer is cached, by the hash of the token
}

type caller struct {
	rate    *rate.Limiter
	waiting bool
}

func newLimit() *limit {
	return &limit{all: rate.NewLimiter(reviewsPerSecond, reviewBurst), callers: lru.New(remembered), known: lru.New(remembered)}
}

// begin says whether the token of the caller may be reviewed now. Where it may, end must be called afterwards, with whether
// the API server has answered: the answer is in the cache then.
func (l *limit) begin(address, token string) (end func(answered bool), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := sha256.Sum256([]byte(token))
	if until, found := l.known.Get(key); found && time.Now().Before(until.(time.Time)) {
		return func(bool) {}, true
	}
	var c *caller
	if found, ok := l.callers.Get(address); ok {
		c = found.(*caller)
	} else {
		c = &caller{rate: rate.NewLimiter(rate.Every(callerEvery), callerBurst)}
		l.callers.Add(address, c)
	}
	if c.waiting || !c.rate.Allow() || !l.all.Allow() {
		return nil, false
	}
	c.waiting = true
	return func(answered bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.waiting = false
		if answered {
			l.known.Add(key, time.Now().Add(reviewTTL))
		}
	}, true
}
