package catalog_test

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

// heapPeak is the highest amount of memory in use by the heap while f runs, in bytes above what was in use before.
func heapPeak(f func()) uint64 {
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

// many is a catalog of n entries that is made while it is read.
func many(n int, head, tail string, entry func(i int) string) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.WriteString(w, head)
		for i := 0; i < n && err == nil; i++ {
			_, err = io.WriteString(w, entry(i))
		}
		_, _ = io.WriteString(w, tail)
		_ = w.CloseWithError(err)
	}()
	return r
}

// catalogOf makes catalogs of n entries of which each hundredth is for the machine.
func catalogOf(kind string, n int) catalog.Provider {
	guid := func(i int) string {
		if i%100 == 0 {
			return guidPCI
		}
		return fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
	}
	model := func(i int) string {
		if i%100 == 0 {
			return "R650"
		}
		return fmt.Sprintf("R%d", i)
	}
	switch kind {
	case "LVFS":
		return catalog.LVFS{Metadata: many(n, "<components>", "</components>", func(i int) string {
			return component(guid(i), "triplet", release(fmt.Sprintf("1.0.%d", i), fmt.Sprintf("CVE-2026-%d", i)))
		})}
	case "Dell":
		return catalog.Dell{Catalog: many(n, `<Manifest baseLocation="x.example.com">`, "</Manifest>", func(i int) string {
			return dellPackage("FRMW", fmt.Sprintf("1.0.%d", i), "PowerEdge", model(i), "15B3:101D")
		})}
	}
	return catalog.Index{JSON: many(n, `{"schema":"nodefirmware.io/catalog/v1","versions":[{"class":"NIC","version":"0"}`, "]}", func(i int) string {
		return fmt.Sprintf(`,{"model":"PowerEdge %s","class":"NIC","version":"1.0.%d","mends":["CVE-2026-%[2]d"]}`, model(i), i)
	})}
}

// BenchmarkAMillionEntries reports the peak of the heap; the bound is 64 MiB.
func BenchmarkAMillionEntries(b *testing.B) {
	for _, kind := range []string{"LVFS", "Dell", "Index"} {
		b.Run(kind, func(b *testing.B) {
			for range b.N {
				peak := heapPeak(func() {
					_, err := catalog.Collect(b.Context(), catalogOf(kind, 1_000_000), r650(), 5)
					require.NoError(b, err)
				})
				require.Less(b, peak, uint64(64<<20))
				b.ReportMetric(float64(peak)/(1<<20), "MiB-peak")
			}
		})
	}
}

// Memory does not grow with the catalog: what a hundred times as many entries allocate at once is bounded by the same.
func TestALargeCatalogIsReadAsAStream(t *testing.T) {
	for _, kind := range []string{"LVFS", "Dell", "Index"} {
		t.Run(kind, func(t *testing.T) {
			var c catalog.Collected
			peak := heapPeak(func() {
				var err error
				c, err = catalog.Collect(t.Context(), catalogOf(kind, 30_000), r650(), 5)
				require.NoError(t, err)
			})
			require.GreaterOrEqual(t, c.Releases, 300)
			require.Len(t, c.Offers[nic].First, 5)
			require.Less(t, peak, uint64(32<<20), "the catalog itself is larger")
		})
	}
}
