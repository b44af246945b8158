package imageserver

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

const (
	// unknownEvery is how often the API server is asked about an issuer that is not known, for each caller: one that makes tokens up
	// uses up no other's share. All callers together have a burst of unknownBurst, and then one in unknownAllEvery.
	unknownEvery    = time.Minute
	unknownAllEvery = 5 * time.Second
	unknownBurst    = 12
	// maxIssuers bounds the issuers that are known: while an issuer is replaced there are two.
	maxIssuers = 4
)

// issuers are the issuers that tokens of this cluster are known to have. An API server that is given another issuer goes on to
// accept the one before, and each pod's token is replaced at its own time: for an hour or so there are both.
type issuers struct {
	// own reads the issuer of this process's own token, or returns "" where that is not known.
	own func() string

	mu sync.Mutex
	// known is empty when the token of this process named none at the start: then any issuer is plausible.
	known   []string
	unknown *rate.Limiter
	callers *lru.Cache // of *rate.Limiter by address
}

func newIssuers(own func() string) *issuers {
	i := &issuers{own: own, unknown: rate.NewLimiter(rate.Every(unknownAllEvery), unknownBurst), callers: lru.New(remembered)}
	if first := own(); first != "" {
		i.known = []string{first}
	}
	return i
}

// plausible reports whether the API server is worth asking about a token of the issuer. Once a minute it is about one that is
// not known and that the caller brings: only the API server knows all that it accepts.
func (i *issuers) plausible(issuer, caller string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case len(i.known) == 0, slices.Contains(i.known, issuer):
		return true
	case !i.of(caller).Allow() || !i.unknown.Allow():
		return false
	}
	if own := i.own(); own != "" {
		i.add(own)
	}
	return true
}

func (i *issuers) of(caller string) *rate.Limiter {
	if found, ok := i.callers.Get(caller); ok {
		return found.(*rate.Limiter)
	}
	l := rate.NewLimiter(rate.Every(unknownEvery), 1)
	i.callers.Add(caller, l)
	return l
}

// learn notes that the API server accepted a token of the issuer.
func (i *issuers) learn(issuer string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.known) > 0 {
		i.add(issuer)
	}
}

func (i *issuers) add(issuer string) {
	if !slices.Contains(i.known, issuer) {
		i.known = append(i.known, issuer)
		i.known = i.known[max(0, len(i.known)-maxIssuers):]
	}
}
