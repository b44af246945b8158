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
}

// enter begins a fetch, unless as many run as may. Leave ends it.
func (l *lanes) enter(rawURL string) (leave func(), ok bool) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme == "file" { // not over the network
		return func() {}, true
	}
	host := strings.ToLower(u.Host)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= fetches || l.hosts[host] >= fetchesPerHost {
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
