package bench

import (
	"os"
	"os/exec"
	"testing"
)

// Once runs each benchmark of the test's package once, in a process of its own: the test binary is there already. The large ones are as
// large as Size says.
func Once(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$", "-test.bench=.", "-test.benchtime=1x", "-test.short").CombinedOutput()
	if err != nil {
		t.Errorf("%s: %s", err, out)
	}
}

// Size is the size of a benchmark: the one that is measured, and a small one where it only runs once.
func Size(measured, once int) int {
	if testing.Short() {
		return once
	}
	return measured
}
