package metrics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// waving are the names of the metrics of waves and halts.
var waving = []string{"node_firmware_rollout_updates", "node_firmware_rollout_halted", "node_firmware_rollout_wave_nodes"}

func inPools(t *testing.T, pools map[string][]v1alpha1.RolloutStatus) prometheus.Collector {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	var objects []client.Object
	for pool, updates := range pools {
		objects = append(objects, &v1alpha1.RolloutPolicy{ObjectMeta: name(pool), Status: v1alpha1.RolloutPolicyStatus{Rollouts: updates}})
	}
	leading := make(chan struct{})
	close(leading)
	return NewCollector(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), leading, logr.Discard())
}

func TestWavesAndHaltsOfAPoolAreReported(t *testing.T) {
	halt := &v1alpha1.HaltedRollout{Reason: "MaxFailures"}
	c := inPools(t, map[string][]v1alpha1.RolloutStatus{
		"plain": nil,
		"gpu": {
			{Model: "a", Version: "2", Wave: "canary", Succeeded: 1, Failed: 2, Waiting: 7, Halted: halt, Reason: "RolloutHalted"},
			{Model: "b", Version: "2", Wave: "half", Done: 3, Succeeded: 4, Running: 2, Waiting: 5, Reason: "WaveNotOpen"},
			{Model: "c", Version: "2", Wave: "half", Done: 1, Succeeded: 1, Waiting: 1, Reason: "WaveSoaking"},
			{Model: "d", Version: "2", Wave: "rest", Done: 10, Running: 1, Waiting: 6},
			{Model: "e", Version: "2", Wave: "rest", Done: 10, Running: 1},
			{Model: "f", Version: "1", Wave: "old", Failed: 1, Halted: halt, Reason: "RolloutHalted"},
		},
	})
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(help(poolHalted)+`
node_firmware_rollout_halted{policy="gpu"} 1
node_firmware_rollout_halted{policy="plain"} 0
`+help(poolUpdates)+`
node_firmware_rollout_updates{policy="gpu",state="Open"} 1
node_firmware_rollout_updates{policy="gpu",state="RolloutHalted"} 1
node_firmware_rollout_updates{policy="gpu",state="WaveNotOpen"} 1
node_firmware_rollout_updates{policy="gpu",state="WaveSoaking"} 1
`+help(poolWave)+`
node_firmware_rollout_wave_nodes{policy="gpu",state="Failed",wave="canary"} 2
node_firmware_rollout_wave_nodes{policy="gpu",state="Failed",wave="half"} 0
node_firmware_rollout_wave_nodes{policy="gpu",state="Failed",wave="rest"} 0
node_firmware_rollout_wave_nodes{policy="gpu",state="Judged",wave="canary"} 0
node_firmware_rollout_wave_nodes{policy="gpu",state="Judged",wave="half"} 4
node_firmware_rollout_wave_nodes{policy="gpu",state="Judged",wave="rest"} 20
node_firmware_rollout_wave_nodes{policy="gpu",state="Running",wave="canary"} 0
node_firmware_rollout_wave_nodes{policy="gpu",state="Running",wave="half"} 2
node_firmware_rollout_wave_nodes{policy="gpu",state="Running",wave="rest"} 2
node_firmware_rollout_wave_nodes{policy="gpu",state="Succeeded",wave="canary"} 1
node_firmware_rollout_wave_nodes{policy="gpu",state="Succeeded",wave="half"} 5
node_firmware_rollout_wave_nodes{policy="gpu",state="Succeeded",wave="rest"} 0
node_firmware_rollout_wave_nodes{policy="gpu",state="Waiting",wave="canary"} 7
node_firmware_rollout_wave_nodes{policy="gpu",state="Waiting",wave="half"} 6
node_firmware_rollout_wave_nodes{policy="gpu",state="Waiting",wave="rest"} 6
`), waving...))
}

func help(m Metric) string {
	return fmt.Sprintf("# HELP %s %s\n# TYPE %[1]s gauge", m.Name, m.Help)
}

// Sixty-four updates of different models and versions in the same wave make as many time series as one.
func TestTheNumberOfUpdatesDoesNotMakeTimeSeries(t *testing.T) {
	many := make([]v1alpha1.RolloutStatus, 64)
	for i := range many {
		many[i] = v1alpha1.RolloutStatus{Model: fmt.Sprint("model ", i), Version: fmt.Sprint(i), Wave: "canary", Waiting: 1}
	}
	one := testutil.CollectAndCount(inPools(t, map[string][]v1alpha1.RolloutStatus{"gpu": many[:1]}), waving...)
	assert.Equal(t, 7, one, "five states of the wave, one of the update, and whether it is halted")
	assert.Equal(t, one, testutil.CollectAndCount(inPools(t, map[string][]v1alpha1.RolloutStatus{"gpu": many}), waving...))
}
