package maintenance_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func TestHostWithoutAClusterIsReadyUntilReleased(t *testing.T) {
	var w maintenance.None
	ctx := t.Context()
	s, err := w.State(ctx)
	require.NoError(t, err)
	assert.Equal(t, step.MaintenanceReady, s.Phase, "a job that is continued after a restart goes on")
	assert.Contains(t, s.Message, "nothing takes this machine out of service")
	require.NoError(t, w.Release(ctx))
	s, err = w.State(ctx)
	require.NoError(t, err)
	assert.Equal(t, step.MaintenanceNone, s.Phase)
}
