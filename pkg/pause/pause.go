package pause

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// longest bounds what a server may ask for. It is more than anybody waits for within one fetch.
const longest = time.Hour

// Asked is how long a server asks to wait with Retry-After, counted from now: a number of seconds or a date (RFC 9110, section 10.2.3). The
// result is at least 0, even for a date in the past, and at most one hour, even for a number that overflows. ok is false if the header is
// missing or neither a number nor a date.
func Asked(h http.Header, now time.Time) (d time.Duration, ok bool) {
	text := h.Get("Retry-After")
	seconds, err := strconv.ParseUint(text, 10, 32)
	if errors.Is(err, strconv.ErrRange) {
		return longest, true
	} else if err == nil {
		d = time.Duration(seconds) * time.Second //nolint:gosec // 32 bits of seconds fit
	} else if date, err := http.ParseTime(text); err == nil {
		d = date.Sub(now)
	} else {
		return 0, false
	}
	return min(max(d, 0), longest), true
}

// For waits for d. If the context ends first, it returns the context's error.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
