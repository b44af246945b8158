package imageserver

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// chunked is an answer each part of which has a deadline of its own: a node that stops to read gives its place to others, and one that
// is slow keeps it.
type chunked struct {
	http.ResponseWriter
	control *http.ResponseController
	chunk   time.Duration
}

func newChunked(w http.ResponseWriter, chunk time.Duration) *chunked {
	return &chunked{w, http.NewResponseController(w), chunk}
}

// Write writes one part. A part that is not received in time breaks the connection.
func (c *chunked) Write(p []byte) (int, error) {
	if err := c.control.SetWriteDeadline(time.Now().Add(c.chunk)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return c.ResponseWriter.Write(p)
}

// close sends what is left under the last deadline, and takes the deadline from the connection: the next answer has its own.
func (c *chunked) close() {
	_ = c.control.SetWriteDeadline(time.Now().Add(c.chunk))
	if c.control.Flush() == nil {
		_ = c.control.SetWriteDeadline(time.Time{})
	}
}

// later answers that the caller is to come again.
func later(w http.ResponseWriter, code int, after time.Duration, text string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(after.Seconds())))
	http.Error(w, text, code)
}
