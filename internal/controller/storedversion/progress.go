package storedversion

import (
	"maps"
	"strings"
	"sync"
)

// Left is how many objects of a kind are not known to be stored in the version in which the API server stores them now.
type Left struct {
	// Pending wait for their turn. There is at least 1, or one refused, as long as the definition does not say that all are stored, or cannot be read.
	Pending int
	// Refused are those that the API server refused to store; they are tried again.
	Refused int
}

// Progress is what the reconciler has left to do. Metrics are made from it. The zero value is of a reconciler that has not begun.
type Progress struct {
	mu   sync.Mutex
	left map[string]Left
}

// Resources returns what is left of each resource that was looked at, such as nodedevices.
func (p *Progress) Resources() map[string]Left {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.left)
}

// Set notes what is left of what a definition defines.
func (p *Progress) Set(definition string, left Left) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == nil {
		p.left = map[string]Left{}
	}
	p.left[resource(definition)] = left
}

// begin notes that objects may be outdated, one at least until they are counted.
func (p *Progress) begin(definition string) {
	if p.Resources()[resource(definition)] == (Left{}) {
		p.Set(definition, Left{Pending: 1})
	}
}

func (p *Progress) forget(definition string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.left, resource(definition))
}

// resource is what a definition defines: the API server makes sure that it is named after that and its group.
func resource(definition string) string {
	name, _, _ := strings.Cut(definition, ".")
	return name
}
