package engine

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

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
