package source

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// fetches bounds the files that are fetched at once, and fetchesPerHost those from one server. Each may take 1 GiB of the volume
	// of 20 GiB that the manifests give the operator, beside the images that are stored.
	fetches, fetchesPerHost = 16, 2
	// others is how many sources may be worked on besides those that fetch.
	others = 8
	// concurrency is how many sources are worked on at once. A source that may not fetch now gives its place back, so that servers that
	// hang hold up neither the sources that need none nor those of other servers.
	concurrency = fetches + others
	// fetchSoon is how long a source waits that may not fetch now.
	fetchSoon = 5 * time.Second
)

// errLater is the error of a source that may not fetch now. It is no failure.
var errLater = errors.New("other sources are being fetched from that server, and as many as may be at once")

// lanes count the fetches that run. The zero value is ready for use.
type lanes struct {
	mu    sync.Mutex
	all   int
	hosts map[string]int
	// waiting are the sources that may not fetch now, by name.
	waiting map[string]turn
}

// turn is what a source waits for: to fetch from a server for that generation of its spec.
type turn struct {
	generation int64
	host       string
}

// enter begins a fetch, unless as many run as may. Leave ends it.
func (l *lanes) enter(rawURL string) (leave func(), ok bool) {
	host := hostOf(rawURL)
	if host == "" {
		return func() {}, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full(host) {
		return nil, false
	}
	if l.hosts == nil {
		l.hosts = map[string]int{}
	}
	l.all++
	l.hosts[host]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.hosts[host]--; l.hosts[host] == 0 {
			delete(l.hosts, host)
		}
	}, true
}

// wait remembers that a source may not fetch from that URL now.
func (l *lanes) wait(source string, generation int64, rawURL string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting = map[string]turn{}
	}
	l.waiting[source] = turn{generation, hostOf(rawURL)}
}

// waits reports whether a source still may not fetch what it waited for. Otherwise that is forgotten.
func (l *lanes) waits(source string, generation int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn, ok := l.waiting[source]
	if ok && turn.generation == generation && l.full(turn.host) {
		return true
	}
	delete(l.waiting, source)
	return false
}

// forget ends the wait of a source that is to fetch nothing any more.
func (l *lanes) forget(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, source)
}

// full reports whether as many fetches run as may, in all or from that server.
func (l *lanes) full(host string) bool { return l.all >= fetches || l.hosts[host] >= fetchesPerHost }

// hostOf is the server of a URL; empty where nothing goes over the network.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme == "file" {
		return ""
	}
	return strings.ToLower(u.Host)
}
