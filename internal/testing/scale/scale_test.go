package scale

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
)

// The counts of a rollout over a fleet do not depend on its size, so a small one holds what the performance page says of 5,000
// nodes. Times are not looked at. R000-6
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	m.Run()
}

func TestFewWritesAndNoneAtRest(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, child.Build(dir, "firmware-operator"))
	operator := filepath.Join(dir, "firmware-operator")
	const nodes = 30
	r, err := Run(t.Context(), Options{Nodes: nodes, Operator: operator, Dir: dir, QuietPeriod: time.Second, Rest: 3 * time.Second, Out: os.Stderr})
	require.NoError(t, err)
	r.Summary(os.Stderr)

	assert.Equal(t, nodes*devicesPerNode, r.Devices)
	assert.Equal(t, nodes, r.Jobs, "one job for each node")
	assert.Equal(t, nodes, r.RolloutWrites["create firmwarejobs"])
	assert.Equal(t, nodes, r.RolloutWrites["patch firmwarejobs"], "an end is one write: the finalizer")
	assert.Equal(t, nodes, r.RolloutWrites["patch firmwarejobs/status"], "that it is admitted; a job that waits for the budget is told nothing")
	assert.Equal(t, 1, r.RolloutWrites["create events"], "that the catalog of the machine model is there")
	assert.LessOrEqual(t, r.RolloutWrites["patch rolloutpolicies/status"], 2*nodes, "at worst one to give a place and one to take it back")
	assert.NotZero(t, r.RolloutWrites["patch rolloutpolicies/status"])
	assert.Zero(t, r.RolloutWrites["patch nodedevices"], "no device is written twice")
	assert.LessOrEqual(t, r.AdmittedAtOnce, nodes/4)
	assert.Positive(t, r.FilledPlaces)
	assert.Zero(t, r.RestWrites, "%v", r.RestKinds)
	assert.Empty(t, r.LoggedErrors)
	for kind, size := range r.LargestKiB {
		assert.Less(t, size, 256.0, kind)
	}
	assert.NotZero(t, r.PeakMiB)
	assert.Positive(t, r.APIMillisecondsPerJob)
}
