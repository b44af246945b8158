package imageserver

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

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
