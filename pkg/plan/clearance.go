package plan

// Clearance is a person's request, a retry or a release, that clears earlier failures. It is the text the person wrote, and has a meaning
// only when compared with the text in force when a failure was recorded: clocks of different machines are never compared. The empty
// Clearance clears nothing.
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
