package simhost

import "testing"

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
