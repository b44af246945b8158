package chaos

import "testing"

func BenchmarkRun(b *testing.B) {
	s := Scenarios()[4]
	for range b.N {
		Run{Scenario: s, Aftermath: Again, dir: "/dev/shm"}.Do()
	}
}
