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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/storedversion"
)

// waving are the names of the metrics of waves and halts.
var waving = []string{"node_firmware_rollout_halted", "node_firmware_rollout_wave_nodes"}

func inPools(t *testing.T, pools map[string][]v1alpha1.RolloutStatus) prometheus.Collector {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	var objects []client.Object
	for pool, updates := range pools {
		status := v1alpha1.RolloutPolicyStatus{Rollouts: updates, Waiting: []v1alpha1.WaitingNodes{{Reason: v1alpha1.ReasonRolloutHalted, Nodes: 1}}}
		if pool == "over" {
			status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue}}
			status.Waiting = nil
		}
		objects = append(objects, &v1alpha1.RolloutPolicy{ObjectMeta: name(pool), Status: status})
	}
	leading := make(chan struct{})
	close(leading)
	return NewCollector(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), leading, &storedversion.Progress{}, logr.Discard())
}

func TestReportsPoolsWavesAndHalts(t *testing.T) {
	halt := new(metav1.Unix(1e9, 0))
	c := inPools(t, map[string][]v1alpha1.RolloutStatus{
		"plain": nil,
		"over":  {{Model: "f", Version: "1", Wave: "old", Failed: 1, HaltedTime: halt}},
		"gpu": {
			{Model: "a", Version: "2", Wave: "canary", Succeeded: 1, Failed: 2, HaltedTime: halt},
			{Model: "b", Version: "2", Wave: "half", Done: 3, Succeeded: 4},
			{Model: "c", Version: "2", Wave: "half", Done: 1, Succeeded: 1},
		},
	})
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(help(poolHalted)+`
node_firmware_rollout_halted{policy="gpu"} 1
node_firmware_rollout_halted{policy="over"} 0
node_firmware_rollout_halted{policy="plain"} 0
`+help(poolWave)+`
node_firmware_rollout_wave_nodes{policy="gpu",state="Done",wave="canary"} 0
node_firmware_rollout_wave_nodes{policy="gpu",state="Done",wave="half"} 4
node_firmware_rollout_wave_nodes{policy="gpu",state="Failed",wave="canary"} 2
node_firmware_rollout_wave_nodes{policy="gpu",state="Failed",wave="half"} 0
node_firmware_rollout_wave_nodes{policy="gpu",state="Succeeded",wave="canary"} 1
node_firmware_rollout_wave_nodes{policy="gpu",state="Succeeded",wave="half"} 5
`), waving...))
}

func help(m Metric) string {
	return fmt.Sprintf("# HELP %s %s\n# TYPE %[1]s gauge", m.Name, m.Help)
}

// Sixty-four updates of different models and versions in the same wave make as many time series as one.
func TestTheNumberOfUpdatesDoesNotMakeTimeSeries(t *testing.T) {
	many := make([]v1alpha1.RolloutStatus, 64)
	for i := range many {
		many[i] = v1alpha1.RolloutStatus{Model: fmt.Sprint("model ", i), Version: fmt.Sprint(i), Wave: "canary"}
	}
	one := testutil.CollectAndCount(inPools(t, map[string][]v1alpha1.RolloutStatus{"gpu": many[:1]}), waving...)
	assert.Equal(t, 4, one, "three states of the wave, and whether the update is halted")
	assert.Equal(t, one, testutil.CollectAndCount(inPools(t, map[string][]v1alpha1.RolloutStatus{"gpu": many}), waving...))
}
