package schedule

import (
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

// stopped keeps every job of a policy whose windows or waves are invalid.
func (p *pass) stopped(c *candidate) (Reason, string) {
	if c.pool.Stopped == "" {
		return "", ""
	}
	return InvalidSpec, fmt.Sprintf("Rollout policy %s: %s", c.pool.Name, c.pool.Stopped)
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
	if expected == 0 {
		expected = c.pool.Expected
	}
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
	if zone == nil {
		zone = time.UTC
	}
	return t.In(zone).Format("Mon 2006-01-02 15:04 ") + zone.String()
}
