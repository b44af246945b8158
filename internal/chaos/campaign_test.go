package chaos_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/chaos"
)

func TestEveryBoundaryOfEveryScenario(t *testing.T) {
	r, err := chaos.Campaign(t.Context(), chaos.Options{Seeds: 400, Model: 1000, Scenarios: []chaos.Scenario{}})
	require.NoError(t, err)
	var text bytes.Buffer
	r.Summary(&text)
	t.Log(text.String())
	require.NoError(t, r.Write("/tmp/chaos-report.json"))
	require.Empty(t, r.Violations)
}
