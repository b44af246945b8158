package reboot_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/reboot"
)

func TestClockOfTheBootRunsSinceBeforeThisProcess(t *testing.T) {
	first, err := reboot.SinceBoot()
	require.NoError(t, err)
	assert.Greater(t, first, time.Second, "the clock of the process began just now")
	second, err := reboot.SinceBoot()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, second, first)
}
