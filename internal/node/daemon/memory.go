package daemon

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/nodefirmware/node-firmware-operator/internal/node/memory"
)

// settleTime is how long the daemon takes to start: by then it has scanned, filled its caches and published its
// objects.
const settleTime = 10 * time.Second

// trimMemory releases memory that only the start of the daemon needed: freed heap, and the pages of the program that
// registered kinds and set up clients. The kernel reads a page again from its file cache when it is needed.
func trimMemory(ctx context.Context, log logr.Logger) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	if err := memory.Release(); err != nil {
		log.V(1).Info("Could not release pages of the program", "cause", err.Error())
	}
}
