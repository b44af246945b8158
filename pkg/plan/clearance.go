package plan

import (
	"strings"
	"time"
)

// Clearance is a person's request that clears what failed before it: a retry or a release. It is the text that the person
// wrote, and means something only in comparison with the text that was in force when a failure was recorded: times of
// different machines are never compared. The empty Clearance clears nothing.
type Clearance string

// dated begins a request that was made through a field which holds a time.
const dated = "at "

// ClearedAt makes a Clearance of a request that is a time, as the deprecated fields of the API are. The time is taken as a
// text, and compared with no clock. The zero time makes the empty Clearance.
func ClearedAt(at time.Time) Clearance {
	if at.IsZero() {
		return ""
	}
	return Clearance(dated + at.UTC().Format(time.RFC3339))
}

// Clears reports whether the request clears a failure that was recorded while the request under was in force: whether the
// two differ. A nil under means that an earlier version recorded the failure and noted no request. Only a request that is
// not a time clears it, because a time may be older than the failure.
func (c Clearance) Clears(under *string) bool {
	switch {
	case c == "":
		return false
	case under == nil:
		return !strings.HasPrefix(string(c), dated)
	}
	return string(c) != *under
}

// InForce is the request in the form in which a failure records it. It is never nil.
func (c Clearance) InForce() *string {
	s := string(c)
	return &s
}
