package images

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/pause"
)

const (
	// leastPause and mostPause bound what an answer may ask for with Retry-After, before a jitter of up to half of it.
	leastPause, mostPause = time.Second, time.Minute
	// maxBusy is how often in a row the server may ask to come again: for about a quarter of an hour, if it asks for the half of a minute.
	maxBusy = 30
)

// busyError is the answer of a server that says when to come again. It is up, and has others to serve.
type busyError struct {
	status string
	after  time.Duration
}

func (b *busyError) Error() string {
	return fmt.Sprintf("the image server answered %s and asked to retry in %v", b.status, b.after)
}

// askedToWait is how long an answer asks to wait, within bounds. It is not ok where it does not say.
func askedToWait(h http.Header, now time.Time) (after time.Duration, ok bool) {
	after, ok = pause.Asked(h, now)
	return min(max(after, leastPause), mostPause), ok
}

// tries are the attempts of one fetch that ended without what was wanted.
type tries struct {
	store *Store
	// idle and busy are how many in a row made no progress, and how many in a row found the server busy.
	idle, busy int
}

// progress forgets the attempts before one that received something.
func (t *tries) progress() { t.idle, t.busy = 0, 0 }

// pause waits until the next attempt, after one that ended with err. A server that says when to come again is believed within bounds, and
// asked a little later than that, by chance: many nodes were told the same. Its answers do not count as failures, and their number is bounded
// too. It returns an error that wraps ErrUnavailable when there is to be no further attempt.
func (t *tries) pause(ctx context.Context, err error) error {
	config := t.store.config
	if b := (*busyError)(nil); errors.As(err, &b) {
		if t.busy++; t.busy >= maxBusy {
			return fmt.Errorf("%w: gave up after it was busy %d times: %w", ErrUnavailable, t.busy, err)
		}
		jitter := time.Duration(config.Random() * float64(b.after) / 2)
		return unavailable(config.Sleep(ctx, b.after+jitter))
	}
	if t.idle++; t.idle >= config.Attempts {
		return fmt.Errorf("%w: gave up after %d attempts: %w", ErrUnavailable, t.idle, err)
	}
	return unavailable(config.Wait(ctx, t.idle))
}

func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
