// Package heap measures how much memory a function needs at once.
package heap

import (
	"runtime"
	"time"
)

// Peak runs f and returns the highest amount of memory in use by the heap meanwhile, in bytes above what was in use before. It looks
// every five milliseconds, so it misses what is shorter; garbage that is not collected yet counts.
func Peak(f func()) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, m.HeapAlloc
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
	}()
	f()
	close(done)
	<-ended
	return peak - min(before, peak)
}
