package catalog_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/heap"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

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
	case "FullLVFS":
		return catalog.LVFS{Metadata: many(n, "<components>", "</components>", func(i int) string {
			return fullComponent(guid(i), fmt.Sprintf("1.0.%d", i), fmt.Sprintf("CVE-2026-%d", i))
		})}
	case "Dell":
		return catalog.Dell{Catalog: many(n, `<Manifest baseLocation="x.example.com">`, "</Manifest>", func(i int) string {
			return dellPackage("FRMW", fmt.Sprintf("1.%d.10.00", i), "PowerEdge", model(i), "15B3:101D")
		})}
	}
	return catalog.Index{JSON: many(n, `{"schema":"nodefirmware.io/catalog/v1","versions":[{"class":"NIC","version":"0"}`, "]}", func(i int) string {
		return fmt.Sprintf(`,{"machine":{"model":"PowerEdge %s"},"class":"NIC","version":"1.0.%d","fixes":["CVE-2026-%[2]d"]}`, model(i), i)
	})}
}

// paragraphs are as long as what the service says of a release for people.
var paragraphs = strings.Repeat("<p>This release resolves several problems of the device, and <em>improves</em> how it behaves after a resume.</p>"+
	"<ul><li>A rare hang while the link is trained was fixed</li><li>Security hardening of the update itself</li></ul>", 10)

// fullComponent is a component of the size that the service gives it, 3.4 KB: with what people read, requirements and artifacts.
func fullComponent(guid, version, issue string) string {
	full := strings.Replace(component(guid, "triplet", release(version, issue)), "<p>text with <em>marks</em> in it</p>", paragraphs, 1)
	return strings.Replace(full, "<provides>", `<summary>Firmware for the Example adapter</summary><developer_name>Example Corporation</developer_name>`+
		`<project_license>LicenseRef-proprietary</project_license><url type="homepage">https://www.example.com/support/adapter</url>`+
		`<categories><category>X-NetworkInterface</category></categories><keywords><keyword>adapter</keyword><keyword>network</keyword></keywords>`+
		`<requires><id compare="ge" version="1.9.7">org.freedesktop.fwupd</id></requires><provides>`, 1)
}

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkAMillionEntries reports the peak of the heap; the bound is 64 MiB.
func BenchmarkAMillionEntries(b *testing.B) {
	for _, kind := range []string{"LVFS", "FullLVFS", "Dell", "Index"} {
		b.Run(kind, func(b *testing.B) {
			for range b.N {
				peak := heap.Peak(func() {
					_, err := catalog.Collect(b.Context(), catalogOf(kind, bench.Size(1_000_000, 1_000)), r650(), 5)
					require.NoError(b, err)
				})
				require.Less(b, peak, uint64(64<<20))
				b.ReportMetric(float64(peak)/(1<<20), "MiB-peak")
			}
		})
	}
}

// Memory does not grow with the catalog: what a hundred times as many entries allocate at once is bounded by the same.
func TestStreamsLargeCatalog(t *testing.T) {
	for kind, newest := range map[string]string{"LVFS": "1.0.29900", "Dell": "1.29900.1000", "Index": "1.0.29900"} {
		t.Run(kind, func(t *testing.T) {
			var c catalog.Collected
			peak := heap.Peak(func() {
				var err error
				c, err = catalog.Collect(t.Context(), catalogOf(kind, 30_000), r650(), 5)
				require.NoError(t, err)
			})
			require.Equal(t, newest, c.Offers[nic].Decimal[0].Version)
			require.Len(t, c.Offers[nic].First, 5)
			require.Less(t, peak, uint64(32<<20), "the catalog itself is larger")
		})
	}
}

// A million entries, each as small as it can be, are read in the memory of one.
func TestMemoryIgnoresEntryCount(t *testing.T) {
	const million = 1_000_000
	entry := "<component/>"
	peak := heap.Peak(func() {
		c, err := catalog.Collect(t.Context(), catalog.LVFS{Metadata: many(million, "<components>", "</components>", func(int) string { return entry })}, r650(), 5)
		require.NoError(t, err)
		require.Empty(t, c.Offers[nic].First)
	})
	require.Less(t, peak, uint64(32<<20))
	text := "<components>" + strings.Repeat(entry, million) + "</components>"
	_, err := catalog.Collect(t.Context(), catalog.LVFS{Metadata: strings.NewReader(text), Limits: catalog.Limits{Entries: million - 1}}, r650(), 5)
	require.Equal(t, catalog.InvalidCatalog, catalog.ReasonOf(err))
}
