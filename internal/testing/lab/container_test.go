package lab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCrashLoopsBackOff(t *testing.T) {
	var b backoff
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		assert.Equal(t, want*time.Second, b.after(time.Second), i)
	}
	assert.Equal(t, time.Second, b.after(stableAfter), "it ran well before")
	assert.Equal(t, 2*time.Second, b.after(0))
}
