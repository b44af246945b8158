package rollout

import "time"

// lostAfter is how long a node may report a job that the API does not have before people are told its name. A daemon reports the end
// of its job in the NodeFirmware seconds after it wrote it to the job.
const lostAfter = 5 * time.Minute

// lost remembers since when nodes report jobs that the API does not have, or has as ended. Such a node is at work on a job that a
// restored API server lost or a person deleted by force, or its daemon is gone and its report will never change.
type lost struct{ since map[string]time.Time }

// note finds the nodes that report such a job.
func (l *lost) note(f facts, now time.Time) {
	entered := map[string]bool{}
	for _, p := range f.policies {
		for _, e := range p.Status.Admitted {
			if f.jobs[e.JobUID] != nil {
				entered[e.Node] = true
			}
		}
	}
	since := map[string]time.Time{}
	for name, report := range f.reports {
		if runs(report) == "" && !isHeld(report) || entered[name] {
			continue
		}
		since[name] = now
		if before, known := l.since[name]; known {
			since[name] = before
		}
	}
	l.since = since
}

// is reports whether the node has reported such a job for long.
func (l *lost) is(node string, now time.Time) bool {
	since, known := l.since[node]
	return known && now.Sub(since) >= lostAfter
}

// next is how long until another node has reported such a job for long; 0 for none.
func (l *lost) next(now time.Time) time.Duration {
	var out time.Duration
	for _, since := range l.since {
		if left := lostAfter - now.Sub(since); left > 0 && (out == 0 || left < out) {
			out = left
		}
	}
	return out
}
