package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// largeCache makes the garbage collector run when the garbage is 30 % of what is in use, and not all of it: what is in use is
	// nearly all cache, which grows with the fleet.
	largeCache = 30
	// leastLimit is the soft limit of the memory of the Go runtime, in bytes, up to a fleet of about 40,000 devices.
	leastLimit = 240 << 20
	// lookAtMemory is how often the limit is set anew.
	lookAtMemory = 10 * time.Second
	// inUse is the name of the bytes that the last collection found in use.
	inUse = "/gc/heap/live:bytes"
)

// tuneMemory makes the collector spend processor time rather than memory, until ctx is done. What GOGC or GOMEMLIMIT say stays as
// it is.
func tuneMemory(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(largeCache)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(leastLimit)
		go followFleet(ctx)
	}
}

// followFleet keeps the soft limit above what the fleet needs: below it the collector would take half of the processor time.
func followFleet(ctx context.Context) {
	ticker := time.NewTicker(lookAtMemory)
	defer ticker.Stop()
	sample := []metrics.Sample{{Name: inUse}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			metrics.Read(sample)
			debug.SetMemoryLimit(memoryLimit(sample[0].Value.Uint64()))
		}
	}
}

// memoryLimit is the soft limit where so many bytes are in use. It only cuts off peaks: with largeCache the heap grows to 1.3 times
// what is in use, and the runtime takes a few percent more.
func memoryLimit(used uint64) int64 {
	return max(leastLimit, int64(used/5*7)) //nolint:gosec // less than a machine has
}
