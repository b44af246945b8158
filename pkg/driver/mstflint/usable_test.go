package mstflint

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
)

// An error is no reason: it may be gone at the next look, and a card must not change its driver between the steps of a job.
func TestAnUnreadableLockdownDoesNotChangeTheDriver(t *testing.T) {
	kernel := fstest.MapFS{"sys/kernel/security/lockdown": {Data: []byte("none integrity")}}
	d := New(commandtest.NewRunner(t, nil), kernel)
	assert.NoError(t, d.Reaches(id))
	kernel["sys/kernel/security/lockdown"].Data = []byte("none [integrity] confidentiality")
	require.ErrorContains(t, d.Reaches(id), "locked down (integrity)")
}
