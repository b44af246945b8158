package hotplug

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
)

// quiet is how long the hardware must be silent before it is reported: a card that is plugged in makes many events.
const quiet = 3 * time.Second

// spacing is the least time between two reports: a link that flaps must not keep the vendor tools busy.
const spacing = 30 * time.Second

// Watch calls changed when hardware came, went or changed its link, after a quiet moment, until the context ends. Each
// of its two sources is optional: one that this process may not use is logged once and done without. Transports are those of the NVMe
// drives that belong to the machine, as sysfs names them.
func Watch(ctx context.Context, log logr.Logger, transports []string, changed func()) {
	events := make(chan struct{}, 1)
	report := func() {
		select {
		case events <- struct{}{}:
		default:
		}
	}
	var group sync.WaitGroup
	uevents := func(ctx context.Context, subscribed, report func()) error {
		return listenToUevents(ctx, transports, subscribed, report)
	}
	group.Go(func() { resume(ctx, log, "devices", uevents, report) })
	group.Go(func() { resume(ctx, log, "links", listenToLinks, report) })
	Debounce(ctx, events, quiet, spacing, changed)
	group.Wait()
}

// patience is how many quiet times events without end can put a report off.
const patience = 10

// Debounce calls changed once the events have been silent for the quiet time, or have gone on for ten times as long, and
// not again before the spacing has passed, until the context ends.
func Debounce(ctx context.Context, events <-chan struct{}, quiet, spacing time.Duration, changed func()) {
	timer := time.NewTimer(0)
	<-timer.C
	var first, last time.Time // of the events not reported yet, and of the reports
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			if first.IsZero() {
				first = time.Now()
			}
			silent := min(quiet, patience*quiet-time.Since(first))
			timer.Reset(max(silent, spacing-time.Since(last)))
		case <-timer.C:
			first, last = time.Time{}, time.Now()
			changed()
		}
	}
}

// errEnded says that the kernel's messages about links ended without a cause.
var errEnded = errors.New("the messages about links ended")

// listenToLinks reports a physical link that goes up or down.
func listenToLinks(ctx context.Context, subscribed, report func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // closes the socket, also of a subscription that failed
	updates := make(chan netlink.LinkUpdate, 16)
	cause := errEnded // written by the one goroutine that closes updates afterwards
	options := netlink.LinkSubscribeOptions{ErrorCallback: func(err error) { cause = err }}
	if err := netlink.LinkSubscribeWithOptions(updates, ctx.Done(), options); err != nil {
		return fmt.Errorf("subscribe to links: %w", err)
	}
	subscribed()
	states := map[int]netlink.LinkOperState{}
	for u := range updates {
		if u.Link.Type() != "device" {
			continue
		}
		a := u.Link.Attrs()
		if before, known := states[a.Index]; known && before != a.OperState {
			report()
		}
		states[a.Index] = a.OperState
	}
	return cause
}
