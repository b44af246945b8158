package artifact

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkVerifyAndStore fetches an image from a file, verifies its digest and stores it, with all that a crash makes necessary. Beside it
// measures how long the digest alone takes over the same file: of-sha256 is the speed of the first in that of the second, each in its fastest
// run, because a machine is seldom at rest.
// The bytes allocated for each image do not depend on its size.
func BenchmarkVerifyAndStore(b *testing.B) {
	for _, mib := range []int64{1, 16, 64} {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) { benchmarkStore(b, mib<<20) })
	}
}

func benchmarkStore(b *testing.B, size int64) {
	dir := b.TempDir()
	path := filepath.Join(dir, "image")
	require.NoError(b, os.WriteFile(path, nil, 0o600))
	require.NoError(b, os.Truncate(path, size))
	var digest inventory.Digest
	var hashed, stored time.Duration
	sum := func() {
		began := time.Now()
		f, err := os.Open(path)
		require.NoError(b, err)
		h := sha256.New()
		_, err = io.Copy(h, f)
		require.NoError(b, err)
		require.NoError(b, f.Close())
		digest = inventory.Digest(h.Sum(nil))
		hashed = faster(hashed, time.Since(began))
	}
	sum()
	store, err := OpenStore(filepath.Join(dir, "store"), NewFetcher(FetchConfig{FileRoot: dir}), time.Now)
	require.NoError(b, err)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		file := File{URL: "file://" + path, Digest: digest, Images: []Description{{Version: "1", Vendor: "any"}}}
		began := time.Now()
		if err := store.Download(b.Context(), "bench", file); err != nil {
			b.Fatal(err)
		}
		stored = faster(stored, time.Since(began))
		b.StopTimer()
		sum()
		require.NoError(b, os.Remove(store.blob(digest)))
		b.StartTimer()
	}
	b.ReportMetric(float64(hashed)/float64(stored), "of-sha256")
}

func faster(best, now time.Duration) time.Duration {
	if best == 0 {
		return now
	}
	return min(best, now)
}
