package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// leastLimit is the soft limit of the memory of the Go runtime, in bytes, for a small fleet. Below it the garbage may become as much as
	// what is in use, which takes a third less processor time than to collect it when it is 30 % of that.
	leastLimit = 200 << 20
	// lookAtMemory is how often the limit is set anew.
	lookAtMemory = 2 * time.Second
	// inUse is the name of the bytes that the last collection found in use.
	inUse = "/gc/heap/live:bytes"
)

// tuneMemory bounds the garbage of a large fleet, until ctx is done. What GOMEMLIMIT says stays as it is.
func tuneMemory(ctx context.Context) {
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

// memoryLimit is the soft limit where so many bytes are in use: nearly all of them are cache, which grows with the fleet, so that a third
// of them is enough for garbage.
func memoryLimit(used uint64) int64 {
	return max(leastLimit, int64(used/3*4)) //nolint:gosec // less than a machine has
}
