package v1alpha1_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestDuration(t *testing.T) {
	for text, want := range map[v1alpha1.Duration]time.Duration{
		"": time.Minute, "1h30m": 90 * time.Minute, "0s": 0, "250ms": 250 * time.Millisecond, "soon": time.Minute,
	} {
		assert.Equal(t, want, text.Duration(time.Minute), "%q", text)
	}
}
