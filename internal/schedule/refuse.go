package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// refusal is why a job must not be admitted even if the budget has room, with a message for people. The zero refusal means
// that it may be.
type refusal struct {
	reason  Reason
	message string
}

// refuse finds the queued jobs that must not be admitted. A cancelled job may be admitted: it ends without doing anything.
func (p *pass) refuse() {
	for i := range p.facts.Jobs {
		j := &p.facts.Jobs[i]
		if j.State != Queued {
			continue
		}
		if r := refusalOf(j, p.node(j.Node)); r.reason != "" {
			p.refusals[j.UID] = r
		}
	}
}

func (p *pass) refused(j *Job) bool { return p.refusals[j.UID].reason != "" }

// refusalOf is why a job must not be admitted to its node, which a failed job may hold.
func refusalOf(j *Job, n *node) refusal {
	held := len(n.held) > 0
	switch {
	case j.Steps:
		return stepsRefusal(j, n, held)
	case j.Quarantined != nil:
		return quarantineRefusal(*j.Quarantined)
	case j.Unlisted != nil:
		return rollbackRefusal(j.Name, *j.Unlisted)
	}
	return healthRefusal(j, n, held)
}

// stepsRefusal refuses steps, and a restore, on a machine that the daemon has not scanned, because it is not known what they would run on.
// On a node that a failed job holds they are always admitted: they may repair it.
func stepsRefusal(j *Job, n *node, held bool) refusal {
	if held || n.Scanned {
		return refusal{}
	}
	return refusal{NodeNotReady, fmt.Sprintf("The daemon has not scanned node %s yet, so no steps are run there; check that its pod "+
		"of the DaemonSet firmware-daemon is running.", j.Node)}
}

func quarantineRefusal(q QuarantinedUpdate) refusal {
	return refusal{Quarantined, fmt.Sprintf("Version %s for device %s is quarantined: %s. Select another version, or lift the quarantine: %s",
		q.Version, q.Device, q.Why, q.Lift)}
}

func rollbackRefusal(job string, u UnlistedRollback) refusal {
	return refusal{ImageNotFound, fmt.Sprintf("Neither the source in rollbackSource nor that of the device lists the rollbackDigest of device %s (%s) as an image of version %s for its "+
		"model and board, so nothing is flashed, because it could not be rolled back safely. List it there, or create the job again without "+
		"rollbackDigest, after: kubectl delete fwj %s", u.Device, u.Digest, u.Version, job)}
}

// healthRefusal refuses an update of a device that a job left unhealthy, and any update that would take over a held node with
// such a device: it would return the node to service.
func healthRefusal(j *Job, n *node, held bool) refusal {
	for _, d := range n.Unhealthy {
		if held || slices.Contains(j.Devices, d.Name) {
			return refusal{DeviceUnhealthy, fmt.Sprintf("Job %s left device %s unhealthy. Repair it; a job of type Steps may run "+
				"before. Then: %s", d.Job, d.Name, wayout.Retry(j.Node))}
		}
	}
	return refusal{}
}

// stopped keeps every job of a policy whose windows or waves are invalid.
func (p *pass) stopped(c *candidate) (Reason, string) {
	if c.pool.Stopped == "" {
		return "", ""
	}
	return InvalidSpec, c.pool.invalid(c.pool.Stopped)
}

// denied keeps every job inside a window with the effect Deny.
func (p *pass) denied(c *candidate) (Reason, string) {
	s := p.calendar(c.pool)
	if s.Denies == "" {
		return "", ""
	}
	return OutsideWindow, fmt.Sprintf("Window %s of rollout policy %s admits no node until %s; %s.", s.Denies, c.pool.Name,
		at(s.DeniedUntil, s.Zone), c.pool.opening)
}

// outside keeps a job while no window is open, and one that is expected to take longer than what is left of the window.
func (p *pass) outside(c *candidate) (Reason, string) {
	s, expected := p.calendar(c.pool), c.job.Expected
	expected = cmp.Or(expected, c.pool.Expected)
	switch {
	case !s.Open:
		return OutsideWindow, fmt.Sprintf("Rollout policy %s: %s.", c.pool.Name, c.pool.opening)
	case !s.Closes.Before(p.facts.Now.Add(expected)):
		return "", ""
	}
	if !c.pool.mayFit(p.facts.Now, expected) {
		return OutsideWindow, fmt.Sprintf("The job is expected to take %s, and none of the next windows of rollout policy %s is that long. "+
			"Lengthen a window, or shorten those with the effect Deny.", about(expected), c.pool.Name)
	}
	return OutsideWindow, fmt.Sprintf("The window of rollout policy %s closes %s and the job is expected to take %s; it waits for the "+
		"next one.", c.pool.Name, at(s.Closes, s.Zone), about(expected))
}

// about is an expected duration for people, rounded up. What is expected changes a little whenever a job ends, and every job that
// waits would have to be told.
func about(expected time.Duration) time.Duration {
	const step = 5 * time.Minute
	return (expected + step - 1).Truncate(step)
}

// calendar is what the windows of the policy say now.
func (p *pass) calendar(o *pool) window.State {
	if o.state == nil {
		s := o.Calendar.At(p.facts.Now)
		o.state, o.opening = &s, Opening(s)
		p.wake(s.Next)
	}
	return *o.state
}

// mayFit reports whether a job of that duration fits into a window to come.
func (o *pool) mayFit(now time.Time, expected time.Duration) bool {
	if o.fitting >= expected && o.fitting > 0 {
		return true
	}
	if t := o.out.TooLong; t > 0 && expected >= t {
		return false
	}
	if o.Calendar.Fits(now, expected) {
		o.fitting = expected
		return true
	}
	o.out.TooLong = expected
	return false
}

// Opening says when a closed calendar opens. What it says is the same as long as that is.
func Opening(s window.State) string {
	switch {
	case !s.Opens.IsZero():
		return "opens " + at(s.Opens, s.Zone)
	case s.Searched < 365*24*time.Hour:
		return "no window opens in the next days"
	}
	return "no window opens within a year"
}

// at is a time as people of the zone write it.
func at(t time.Time, zone *time.Location) string {
	zone = cmp.Or(zone, time.UTC)
	return t.In(zone).Format("Mon 2006-01-02 15:04 ") + zone.String()
}
