package rollout_test

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

// The only node of a cluster is drained from a pod that runs on it. Whoever looks at the job learns what becomes of what is evicted, and who
// has to stay.
func TestTheOnlyNodeIsToldWhatItMeets(t *testing.T) {
	const admitted, alone = "Rollout policy default admitted the node.", " It is the only node of the cluster, so what is evicted waits as Pending until it is back."
	for name, c := range map[string]struct {
		nodes []string
		by    string
		says  string
	}{
		"drained by the operator":             {[]string{"n1"}, config.MaintenanceDrain, admitted + alone + " The firmware-operator drains it and stays on it."},
		"drained by the maintenance-operator": {[]string{"n1"}, config.MaintenanceOperator, admitted + alone + " The maintenance-operator drains it. If that evicts itself, nothing says that the node is drained: have the firmware-operator drain, which stays on it (--maintenance=Drain)."},
		"not drained":                         {[]string{"n1"}, config.MaintenanceNone, admitted},
		"one of two":                          {[]string{"n1", "n2"}, config.MaintenanceDrain, admitted},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(newPolicy("default", intstr.FromInt32(1), nil))
			w.nodes(c.nodes...)
			w.queue("j1", "n1")
			o := w.operator()
			o.Draining(c.by)
			o.pass()
			require.Equal(t, []string{"j1"}, w.admitted())
			assert.Equal(t, c.says, w.message("j1"))
			w.requireStatus(o, "default", status.InProgressStatus)
		})
	}
}
