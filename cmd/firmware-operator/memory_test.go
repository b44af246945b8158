package main

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A limit below what is in use would make the operator collect garbage without end.
func TestMemoryLimitGrowsWithFleet(t *testing.T) {
	for _, mib := range []uint64{0, 20, 200, 235, 236, 300, 1_000, 100_000} {
		used := mib << 20
		limit := memoryLimit(used)
		assert.GreaterOrEqual(t, limit, int64(leastLimit), "%d MiB in use", mib)
		assert.GreaterOrEqual(t, limit, int64(used*(100+largeCache)/100), "%d MiB in use: the collector has its garbage", mib)
	}
	assert.Equal(t, int64(1400), memoryLimit(1000<<20)>>20)
}

func TestRuntimeSaysWhatIsInUse(t *testing.T) {
	runtime.GC()
	sample := []metrics.Sample{{Name: inUse}}
	metrics.Read(sample)
	require.Equal(t, metrics.KindUint64, sample[0].Value.Kind())
	assert.Positive(t, sample[0].Value.Uint64())
}
