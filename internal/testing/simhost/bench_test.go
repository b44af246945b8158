package simhost

import (
	"testing"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
)

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

func BenchmarkCreate(b *testing.B) {
	for b.Loop() {
		newMachine(b)
	}
}

func BenchmarkUpdate(b *testing.B) {
	m := newMachine(b)
	for b.Loop() {
		if err := m.update(func(*state) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
