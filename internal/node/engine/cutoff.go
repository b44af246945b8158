package engine

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

const (
	// seenEach is how many times in a wait it is journalled that its reason was seen again.
	seenEach = 4
	// notedEach is how often at most a process journals that a wait begins. An API server that comes and goes must not wear
	// out the disk.
	notedEach = time.Minute
)

// notes says what of the wait of a node that is cut off is in the journal.
type notes struct {
	// began is when this process last journalled that a wait began; zero for never.
	began time.Duration
	// pending says that the last change is not in the journal yet, and failed why it could not be written last; empty when it could.
	pending bool
	failed  string
}

// isolate notes for how long the host has been cut off by what the job changed. A complaint that ends for less than the soak
// has not ended: a link that comes and goes does not let the host reach anything.
func (x *execution) isolate(f *step.Facts, reached bool, err error) {
	g, now, l := &x.gate, x.cfg.Elapsed(), x.limits()
	blamed := len(x.job.Record.Suspects(f.Unhealthy)) > 0
	began := !g.isolated.lasts
	if began {
		g.isolated = x.resumed(f.BootID, now)
	}
	flaps := g.isolated.lasts && g.without.look(now, !blamed) < l.Soak
	lasted := g.isolated.look(now, blamed || flaps)
	f.Isolation = &step.Isolation{Message: err.Error(), Reached: reached, Lasted: lasted}
	switch {
	case !g.isolated.lasts:
		x.note(nil)
		return
	case blamed && reached:
		x.noteCutOff(f.BootID, now)
	}
	if began {
		g.until = x.cfg.Now().Add(l.Isolation - lasted)
		x.logger().Warn("Node is cut off, and its update may be the cause", "job", x.job.Name, "complaints", len(f.Unhealthy),
			"waited", lasted, "until", g.until, "err", err)
	}
	f.Isolation.Until = g.until
}

// reached notes that the API server answered.
func (x *execution) reached() {
	x.gate.isolated, x.gate.without = stretch{}, stretch{}
	x.note(nil)
}

// resumed is the wait that the daemon before this one began, if it goes on.
func (x *execution) resumed(bootID string, now time.Duration) stretch {
	at, ok := x.sinceBoot()
	if !ok || !x.goesOn(bootID, at) {
		return stretch{}
	}
	return stretch{since: now - (at - x.job.CutOff.Since), lasts: true}
}

// goesOn reports whether the wait in the journal goes on. The time in which no daemon ran counts, because the node was cut off
// before it and is after it. When nobody looked for as long as the whole wait lasts, the node may have been well for most of it.
func (x *execution) goesOn(bootID string, at time.Duration) bool {
	c := x.job.CutOff
	return c != nil && c.BootID == bootID && c.Since <= c.Seen && c.Seen <= at && at-c.Seen <= x.limits().Isolation
}

// noteCutOff journals that the node is cut off: when that begins, and a few times while it lasts.
func (x *execution) noteCutOff(bootID string, now time.Duration) {
	at, ok := x.sinceBoot()
	if !ok {
		return
	}
	next := journal.CutOff{BootID: bootID, Since: at - x.gate.isolated.lasted(now), Seen: at}
	switch {
	case x.goesOn(bootID, at):
		c := x.job.CutOff
		if next.Since = c.Since; at-c.Seen < x.limits().Isolation/seenEach {
			next.Seen = c.Seen
		}
	case x.notes.began > 0 && now-x.notes.began < notedEach:
		return
	default:
		x.notes.began = max(now, 1)
	}
	x.note(&next)
}

// note journals the wait, nil for none, unless the journal holds it already. Where that fails it is tried again at the next look,
// and with whatever else is journalled.
func (x *execution) note(c *journal.CutOff) {
	same := x.job.CutOff == c || c != nil && x.job.CutOff != nil && *c == *x.job.CutOff
	if same && !x.notes.pending {
		return
	}
	x.job.CutOff, x.notes.pending = c, true
	err := x.cfg.Journal.Save(x.job)
	switch {
	case err == nil:
		x.notes.pending, x.notes.failed = false, ""
	case x.notes.failed != err.Error(): // a full disk is full at each look
		x.notes.failed = err.Error()
		x.logger().Warn("The wait of an isolated node could not be journalled and will be retried; if the daemon restarts first, "+
			"the wait starts over", "job", x.job.Name, "err", err)
	}
}

func (x *execution) sinceBoot() (at time.Duration, ok bool) {
	if x.cfg.SinceBoot == nil {
		return 0, false
	}
	at, err := x.cfg.SinceBoot()
	if err != nil {
		x.logger().Debug("How long the kernel has run is not known", "job", x.job.Name, "err", err)
	}
	return at, err == nil
}

const (
	// longestRest is the longest pause between two questions of a gate outside of its soak.
	longestRest = time.Minute
	// renewedEach is how often at most the pauses begin at the shortest again. What comes and goes must not poll the API server.
	renewedEach = time.Minute
)

// question is the last question of a health gate to the API server and the executables. During a soak there is none. Otherwise the
// pauses between two of them double from Config.Poll to longestRest, and begin at the shortest again where the answer is of another
// kind than the last one, or the host alone begins or ceases to complain.
type question struct {
	// asked says that there was one; at is when it was answered or given up, and rest how long nobody is asked after that.
	asked    bool
	at, rest time.Duration
	// found, worse and err are what it came to.
	found finding
	worse []step.Complaint
	err   error
	// renewed lasts from when the pauses last began at the shortest again.
	renewed stretch
	// looked says that there was a look at the host alone, and complained what the last one found.
	looked, complained bool
}

func (q *question) rests(now time.Duration) bool { return q.asked && now-q.at < q.rest }

// answered notes what a question came to.
func (q *question) answered(now, shortest time.Duration, found finding, worse []step.Complaint, err error) {
	first, other := !q.asked, found != q.found
	q.asked, q.at, q.found, q.worse, q.err = true, now, found, worse, err
	switch q.rest = min(2*q.rest, longestRest); {
	case first:
		q.rest = shortest
	case other:
		q.renew(now, shortest)
	}
}

// saw notes what a look at the host alone found.
func (q *question) saw(now, shortest time.Duration, complains bool) {
	if q.looked && complains != q.complained {
		q.renew(now, shortest)
	}
	q.looked, q.complained = true, complains
}

func (q *question) renew(now, shortest time.Duration) {
	if q.renewed.lasts && q.renewed.lasted(now) < renewedEach {
		return
	}
	q.rest, q.renewed = shortest, stretch{since: now, lasts: true}
}
