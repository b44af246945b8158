package plan

import "time"

// Clearance is a person's request that clears what failed up to its time: a retry, a release or the lift of a quarantine.
// The zero Clearance clears nothing.
type Clearance struct {
	at time.Time
}

// ClearedAt makes a Clearance of the time of a person's request; the zero time makes the zero Clearance.
func ClearedAt(at time.Time) Clearance { return Clearance{at: at} }

// Clears reports whether a failure at that time is cleared. The API stores times in whole seconds, so a request in the
// second of the failure clears it: the person had seen the failure. The zero time is no failure and is never cleared.
func (c Clearance) Clears(failed time.Time) bool {
	return !c.at.IsZero() && !failed.IsZero() && !c.at.Before(failed.Truncate(time.Second))
}

// Time is the time of the request; zero when there is none.
func (c Clearance) Time() time.Time { return c.at }
