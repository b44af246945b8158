package maintenance

import "sync"

// Looked remembers how the maintenance of a held node stood at the last look, for those who tell people.
type Looked struct {
	// Changed is called when another look found something else. It must not block.
	Changed func()

	mu   sync.Mutex
	last State
}

// Note remembers a state and reports whether it is another one than before.
func (l *Looked) Note(s State) bool {
	l.mu.Lock()
	changed := l.last != s
	l.last = s
	l.mu.Unlock()
	if changed {
		l.Changed()
	}
	return changed
}

// Last is the state of the last look; zero before the first one.
func (l *Looked) Last() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}
