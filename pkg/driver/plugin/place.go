package plugin

import (
	"sync"
	"time"
)

// place is the state of one plugin of a Directory. Once it has a name, it keeps it.
type place struct {
	mu   sync.Mutex
	name string
	info Info
	// installed says that the socket exists and the plugin's info is known.
	installed bool
	// seen is the socket at the last request for the plugin's info, and failed how often in a row the plugin did not
	// answer.
	seen   socketID
	failed int
	retry  time.Time
	// problem is why the plugin did not answer, as it was logged.
	problem string
	// ids maps the unique ids from the kernel to those the plugin returned.
	ids map[string]string
}

// maxIDs bounds the remembered ids of one plugin.
const maxIDs = 4096

func (p *place) now() (name string, info Info, installed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name, p.info, p.installed
}

// learn takes over the plugin's info from another answer.
func (p *place) learn(info Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name == info.Name {
		p.info = info
	}
}

// identified returns the unique id the plugin returned for the device before, or the new one if it is the first.
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
