package hotplug

import (
	"context"
	"time"

	"github.com/go-logr/logr"
)

// The pause before a subscription is renewed doubles up to the longest one, and starts afresh after a subscription that
// lasted that long.
const (
	shortestPause = time.Second
	longestPause  = 2 * time.Minute
)

// listener subscribes to messages of the kernel, calls subscribed, and calls report for each one that matters. It returns
// an error when the subscription ends, and at the end of the context.
type listener func(ctx context.Context, subscribed, report func()) error

// resume listens until the context ends and renews a subscription that ended, which happens when the kernel drops messages
// for lack of buffer space. What happened meanwhile is lost, so a renewed subscription is reported as a change. A source
// that cannot be subscribed to at all is logged and given up.
func resume(ctx context.Context, log logr.Logger, what string, listen listener, report func()) {
	before := false
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		began := time.Now()
		err := listen(ctx, func() {
			if before {
				report()
			}
			before = true
		}, report)
		switch {
		case ctx.Err() != nil:
			return
		case !before:
			log.Info("Changes are not watched; they are found at the next scan", "of", what, "cause", err.Error())
			return
		case time.Since(began) >= longestPause:
			pause = shortestPause
		}
		log.Info("Watching changes was interrupted and is started again", "of", what, "cause", err.Error(), "pause", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
