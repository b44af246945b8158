package state

// ParseStamp and ErrTruncated are for the tests.
var (
	ParseStamp   = parseStamp
	ErrTruncated = errTruncated
)
