package view

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A page that hears nothing takes what it shows for stale, so a stream on which nothing is new says that it is there.
func TestAStreamAtRestIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{Options: Options{Now: time.Now}, cluster: &cluster{}, drawn: Draw(&Objects{}, time.Now()), pages: map[chan struct{}]bool{}}
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		answer := httptest.NewRecorder()
		go s.stream(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/stream", nil))
		said := func() (beats int) {
			synctest.Wait()
			return strings.Count(answer.Body.String(), "\n\n:\n\n")
		}
		assert.Zero(t, said())
		time.Sleep(beat - time.Second)
		assert.Zero(t, said())
		time.Sleep(time.Second)
		assert.Equal(t, 1, said())

		time.Sleep(beat - time.Second)
		s.mu.Lock()
		s.drawn = Draw(&Objects{}, time.Now())
		s.drawn.Devices = 1
		for page := range s.pages {
			page <- struct{}{}
		}
		s.mu.Unlock()
		time.Sleep(time.Second)
		assert.Equal(t, 1, said(), "what was new said as much")
		time.Sleep(beat - time.Second)
		assert.Equal(t, 2, said())
	})
}
