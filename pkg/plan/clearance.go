package plan

// Clearance is a person's request that clears what failed before it: a retry or a release. It is the text that the person
// wrote, and means something only in comparison with the text that was in force when a failure was recorded: times of
// different machines are never compared. The empty Clearance clears nothing.
type Clearance string

// Clears reports whether the request clears a failure that was recorded while the request under was in force: whether the
// two differ. A nil under is the same as an empty one.
func (c Clearance) Clears(under *string) bool {
	return c != "" && (under == nil || string(c) != *under)
}

// InForce is the request in the form in which a failure records it. It is never nil.
func (c Clearance) InForce() *string {
	s := string(c)
	return &s
}
