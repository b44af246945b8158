package catalog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

// Answer is what becomes of a request for a discovery.
type Answer string

// The answers.
const (
	// Scheduled: it waits or runs now.
	Scheduled Answer = "Scheduled"
	// AlreadyScheduled: one for the same catalog waits or runs; the request has no effect.
	AlreadyScheduled Answer = "AlreadyScheduled"
	// QueueFull: too many wait; the request has no effect and is to be repeated later.
	QueueFull Answer = "QueueFull"
)

// Bounds of the discoveries of one operator.
type Bounds struct {
	// Parallel discoveries; 2 by default.
	Parallel int
	// Waiting discoveries beside those; 64 by default.
	Waiting int
	// Deadline of one, from its start; 30 minutes by default.
	Deadline time.Duration
}

// Task is the discovery of one catalog.
type Task struct {
	// Catalog is the name of the FirmwareCatalog: one task of it at a time.
	Catalog string
	// Spec is the revision of what is asked for, and Discover the request in it.
	Spec     Revision
	Discover string
	// Components that are asked for, as in the order of the query.
	Components []component
	// Failures counts the discoveries in a row before this one that were like it and failed.
	Failures int
	// Ask asks each provider, in order. It ends soon after its context.
	Ask func(ctx context.Context) []Answered
}

// sameAs reports whether two tasks ask the same providers for the same.
func (t *Task) sameAs(other Task) bool {
	return t.Spec == other.Spec && slices.Equal(t.Components, other.Components)
}

// Answered is what one provider answered.
type Answered struct {
	Provider string
	// At is when, by the clock of the operator.
	At time.Time
	// Signed is when its metadata was signed, as the signature says; zero where it does not.
	Signed time.Time
	// Err is why it did not answer. What it offers is then what it answered to the same question before.
	Err error
	catalog.Collected
}

// Outcome is a discovery that ended.
type Outcome struct {
	Task
	Answers []Answered
	// Ended is when, by the clock of the operator.
	Ended time.Time
}

// oldest is when the provider answered whose answer is the oldest.
func (o *Outcome) oldest() time.Time {
	out := o.Ended
	for _, a := range o.Answers {
		if a.At.Before(out) {
			out = a.At
		}
	}
	return out
}

// Discoveries is the queue of discoveries: bounded, one for each catalog, in the order of the requests. Run must be running.
type Discoveries struct {
	bounds Bounds
	now    func() time.Time
	// Ended is told the name of a catalog when its discovery has ended, and must not block for long.
	Ended func(catalog string)

	mu       sync.Mutex
	wake     chan struct{}
	waiting  []Task
	running  map[string]*run
	outcomes map[string]Outcome
}

type run struct {
	Task
	cancel context.CancelFunc
}

// NewDiscoveries returns an empty queue.
func NewDiscoveries(b Bounds, now func() time.Time) *Discoveries {
	b.Parallel = cmp.Or(b.Parallel, 2)
	b.Waiting = cmp.Or(b.Waiting, 64)
	b.Deadline = cmp.Or(b.Deadline, 30*time.Minute)
	return &Discoveries{
		bounds: b, now: now, Ended: func(string) {}, wake: make(chan struct{}, 1),
		running: map[string]*run{}, outcomes: map[string]Outcome{},
	}
}

// Start runs discoveries until the context ends, and returns when the last one has ended. The manager calls it on the leader.
func (d *Discoveries) Start(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		d.startSome(ctx, &all)
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		}
	}
}

// startSome starts as many discoveries as may run.
func (d *Discoveries) startSome(ctx context.Context, all *sync.WaitGroup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.running) < d.bounds.Parallel && len(d.waiting) > 0 && ctx.Err() == nil {
		r := &run{Task: d.waiting[0]}
		d.waiting = d.waiting[1:]
		var within context.Context
		within, r.cancel = context.WithTimeout(ctx, d.bounds.Deadline)
		d.running[r.Catalog] = r
		all.Go(func() { d.run(within, r) })
	}
}

func (d *Discoveries) run(ctx context.Context, r *run) {
	defer r.cancel()
	answers := r.Ask(ctx)
	d.mu.Lock()
	delete(d.running, r.Catalog)
	if !errors.Is(ctx.Err(), context.Canceled) { // what the end of the operator, or of the request, broke off says nothing
		d.outcomes[r.Catalog] = Outcome{Task: r.Task, Answers: answers, Ended: d.now()}
	}
	d.mu.Unlock()
	d.poke()
	d.Ended(r.Catalog)
}

func (d *Discoveries) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Request asks for a discovery. An earlier outcome for the catalog is forgotten when it is scheduled.
func (d *Discoveries) Request(t Task) Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, scheduled := d.scheduled(t.Catalog); scheduled {
		return AlreadyScheduled
	}
	if len(d.waiting) >= d.bounds.Waiting {
		return QueueFull
	}
	delete(d.outcomes, t.Catalog)
	d.waiting = append(d.waiting, t)
	d.poke()
	return Scheduled
}

// Cancel ends the discovery of a catalog, if there is one: what waits is removed, what runs is told to end and has no outcome. It
// counts as scheduled until it has ended.
func (d *Discoveries) Cancel(catalog string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.waiting {
		if d.waiting[i].Catalog == catalog {
			d.waiting = append(d.waiting[:i:i], d.waiting[i+1:]...)
			break
		}
	}
	if r := d.running[catalog]; r != nil {
		r.cancel()
	}
}

// Scheduled returns the revision of the spec that a discovery of the catalog waits or runs for, and whether there is one.
func (d *Discoveries) Scheduled(catalog string) (spec Revision, scheduled bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.scheduled(catalog)
}

func (d *Discoveries) scheduled(catalog string) (Revision, bool) {
	if r := d.running[catalog]; r != nil {
		return r.Spec, true
	}
	for _, t := range d.waiting {
		if t.Catalog == catalog {
			return t.Spec, true
		}
	}
	return Revision{}, false
}

// Outcome returns how the last discovery of a catalog ended, in this process.
func (d *Discoveries) Outcome(catalog string) (Outcome, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.outcomes[catalog]
	return o, ok
}

// Forget drops what is known of a catalog that is gone.
func (d *Discoveries) Forget(catalog string) {
	d.Cancel(catalog)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.outcomes, catalog)
}
