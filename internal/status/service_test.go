package status_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// What is said of the service of a held node is what was last seen of it, and nothing is promised that nobody has requested.
func TestNothingIsPromised(t *testing.T) {
	for name, c := range map[string]struct {
		reason step.Reason
		look   maintenance.State
		says   string
	}{
		"as the job left it":       {step.WriteFailed, maintenance.State{}, "Node n1 stays out of service"},
		"still so":                 {step.WriteFailed, maintenance.State{Phase: step.MaintenanceRequested, Node: "u", Message: "m"}, "Node n1 stays out of service"},
		"lost, not looked at yet":  {step.MaintenanceLost, maintenance.State{}, "Node n1 lost its maintenance and may take workloads"},
		"lost, nothing requested":  {step.WriteFailed, maintenance.State{Phase: step.MaintenanceNone}, "Node n1 lost its maintenance and may take workloads"},
		"lost, another one waits":  {step.MaintenanceLost, maintenance.State{Phase: step.MaintenanceRequested, Message: "no slot"}, "may take workloads until the one that was requested is ready (no slot)"},
		"lost, and ready again":    {step.MaintenanceLost, maintenance.State{Phase: step.MaintenanceReady, Node: "u", Message: "m"}, "Node n1 is out of service again"},
		"lost, and held again":     {step.MaintenanceLost, maintenance.State{Phase: step.MaintenanceRequested, Node: "u", Message: "m"}, "Node n1 is out of service again"},
		"uncordoned":               {step.WriteFailed, maintenance.State{Phase: step.MaintenanceBroken, Message: "kured did"}, "Node n1 may take workloads, and nobody cordons it again but a retry, which drains it too (kured did)"},
		"lost by an uncordon":      {step.MaintenanceLost, maintenance.State{Phase: step.MaintenanceBroken, Message: "kured did"}, "nobody cordons it again but a retry"},
		"where nothing is drained": {step.WriteFailed, maintenance.State{Phase: step.MaintenanceReady, Message: "nothing takes it away"}, "Node n1 stays powered on (nothing takes it away)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := status.JobFacts{Outcome: step.Failed, Held: true, Node: "n1", Look: c.look, Failure: &step.Failure{Reason: c.reason, Message: "m", Step: "flash"}}
			held := meta.FindStatusCondition(status.Job(f, nil, 1, time.Unix(0, 0)), v1alpha1.ConditionHeld)
			require.NotNil(t, held)
			assert.Contains(t, held.Message, c.says)
			if c.look.Phase != step.MaintenanceRequested {
				assert.NotContains(t, held.Message, "requested")
			}
			node := status.NodeFacts{Node: "n1", Held: &status.HeldFacts{Job: "j", Reason: string(c.reason), Look: c.look}}
			ready := meta.FindStatusCondition(status.Node(node, nil, 1, time.Unix(0, 0)), v1alpha1.ConditionReady)
			require.NotNil(t, ready)
			if c.look == (maintenance.State{}) && c.reason != step.MaintenanceLost || c.look.Node != "" && c.reason != step.MaintenanceLost {
				assert.Contains(t, ready.Message, "the node stays in maintenance, powered on")
				return
			}
			assert.NotContains(t, ready.Message, "stays in maintenance")
		})
	}
}

// Where nothing is taken out of service, nobody claims that it was.
func TestReadyIsSaidAsItIs(t *testing.T) {
	f := status.JobFacts{MaintenanceRequested: true, Maintenance: step.MaintenanceReady, MaintenanceSaid: "nothing takes this machine out of service here"}
	ready := meta.FindStatusCondition(status.Job(f, nil, 1, time.Unix(0, 0)), v1alpha1.ConditionMaintenanceReady)
	require.NotNil(t, ready)
	assert.Equal(t, "Nothing takes this machine out of service here.", ready.Message)
}
