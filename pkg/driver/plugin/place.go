package plugin

import (
	"sync"
	"time"
)

// place is where one plugin is kept. Once it has a name it keeps that.
type place struct {
	mu   sync.Mutex
	name string
	info Info
	// installed says that the socket is there and that it is known what the plugin is for.
	installed bool
	// seen is the socket as it was when the plugin was asked last, and failed how often in a row it did not answer.
	seen   socketID
	failed int
	retry  time.Time
	// problem is why the plugin could not be asked, as it was logged.
	problem string
	// ids are the unique ids the plugin gave, by those it was given.
	ids map[string]string
}

// maxIDs bounds the identities that are remembered of a plugin.
const maxIDs = 4096

func (p *place) now() (name string, info Info, installed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name, p.info, p.installed
}

// learn takes over what the plugin says of itself in passing.
func (p *place) learn(info Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name == info.Name {
		p.info = info
	}
}

// identified returns the unique id the plugin gave to the device before, or the new one where it is the first.
func (p *place) identified(given, said string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range []string{given, said} {
		if before, ok := p.ids[id]; ok && id != "" {
			return before
		}
	}
	if p.ids == nil || len(p.ids) >= maxIDs {
		p.ids = map[string]string{}
	}
	if given != "" {
		p.ids[given] = said
	}
	p.ids[said] = said
	return said
}
