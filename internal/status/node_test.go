package status_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	nfstatus "github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

func summary(name string, g given) nfstatus.DeviceSummary {
	return nfstatus.DeviceSummary{Name: name, Assigned: g.Desired.Version != "", Conditions: nfstatus.Device(g.judged(), nil, 1, noon)}
}

// tools are one that was tested and one that was not.
func tools(s vendortool.Support) []vendortool.Finding {
	return []vendortool.Finding{{Tool: "sg_inq", Support: vendortool.Tested}, {Tool: "mstflint", Version: "4.9.0", Support: s, Message: "version 4.9.0 is not it; install another"}}
}

// What is not used comes first, with its next step.
func TestNamesUntestedTools(t *testing.T) {
	all := append(tools(vendortool.TooOld), vendortool.Finding{Tool: "fwupdtool", Support: vendortool.Newer, Message: "it is newer"})
	got := meta.FindStatusCondition(nfstatus.Node(nfstatus.NodeFacts{Tools: all}, nil, 1, noon), v1alpha1.ConditionDegraded)
	require.NotNil(t, got)
	assert.Equal(t, v1alpha1.ReasonToolUnsupported, got.Reason)
	assert.Equal(t, "mstflint: version 4.9.0 is not it; install another. fwupdtool: it is newer. "+
		"To have them looked at again when another version is installed: "+wayout.RestartDaemon(""), got.Message)
	got = meta.FindStatusCondition(nfstatus.Node(nfstatus.NodeFacts{Tools: all[2:]}, nil, 1, noon), v1alpha1.ConditionDegraded)
	require.NotNil(t, got)
	assert.Equal(t, v1alpha1.ReasonToolUnsupported, got.Reason)
}

func TestNodeConditions(t *testing.T) {
	fine := summary("n1-nic-a", given{Observed: observed(), Desired: want("22.39.1002")})
	due := summary("n1-nic-b", given{Observed: observed(), Desired: want("22.41.1000")})
	stuck := summary("n1-nic-c", given{Observed: observed(), Desired: want("22.1.1")})
	dark := summary("n1-disk-d", given{Observed: observed(func(f *plan.Facts) { f.Unreadable = "no answer" })})
	free := summary("n1-bios", given{Observed: observed()})
	held := &nfstatus.HeldFacts{Job: "n1-1234", Reason: v1alpha1.ReasonWriteFailed, Message: "step flash of n1-nic-b: tool failed"}
	lost := &nfstatus.HeldFacts{Job: "n1-1234", Reason: v1alpha1.ReasonUnhealthy, Message: "the node is not Ready: kubelet stopped", Step: "health",
		NoWayBack: "the previous firmware cannot be restored: n1-nic-b has one slot"}
	many := []nfstatus.DeviceSummary{stuck, stuck, stuck, stuck, stuck, stuck}

	for name, tc := range map[string]struct {
		facts    nfstatus.NodeFacts
		reason   string
		kstatus  status.Status
		says     []string
		abnormal []string
	}{
		"no device":                       {facts: nfstatus.NodeFacts{}, reason: v1alpha1.ReasonNotAssigned, kstatus: status.CurrentStatus, says: []string{"0 devices found"}},
		"nothing assigned":                {facts: nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{free}}, reason: v1alpha1.ReasonNotAssigned, kstatus: status.CurrentStatus, says: []string{"1 device found"}},
		"all as desired":                  {facts: nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{fine, free}}, reason: v1alpha1.ReasonUpToDate, kstatus: status.CurrentStatus, says: []string{"all 1 with"}},
		"update due":                      {facts: nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{fine, due}}, reason: v1alpha1.ReasonPending, kstatus: status.InProgressStatus, says: []string{"n1-nic-b (Pending)"}},
		"needs a person":                  {facts: nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{due, stuck}}, reason: v1alpha1.ReasonDowngradeForbidden, kstatus: status.FailedStatus, says: []string{"1 of 2", "n1-nic-c (DowngradeForbidden)"}},
		"many need a person":              {facts: nfstatus.NodeFacts{Devices: many}, reason: v1alpha1.ReasonDowngradeForbidden, kstatus: status.FailedStatus, says: []string{"6 of 6", "and 2 more"}},
		"a device cannot be read":         {facts: nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{fine, dark}}, reason: v1alpha1.ReasonReadFailed, kstatus: status.InProgressStatus, says: []string{"n1-disk-d"}, abnormal: []string{v1alpha1.ConditionDegraded}},
		"a class cannot be enumerated":    {facts: nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{fine}, Problems: []string{"Disks could not be listed: permission denied."}}, reason: v1alpha1.ReasonReadFailed, kstatus: status.InProgressStatus, says: []string{"permission denied"}, abnormal: []string{v1alpha1.ConditionDegraded}},
		"a tool is too old":               {facts: nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{fine}, Tools: tools(vendortool.TooOld)}, reason: v1alpha1.ReasonUpToDate, kstatus: status.CurrentStatus, abnormal: []string{v1alpha1.ConditionDegraded}},
		"a tool is newer":                 {facts: nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{fine}, Tools: tools(vendortool.Newer)}, reason: v1alpha1.ReasonUpToDate, kstatus: status.CurrentStatus, abnormal: []string{v1alpha1.ConditionDegraded}},
		"a tool is missing":               {facts: nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{fine}, Tools: tools(vendortool.Missing)}, reason: v1alpha1.ReasonUpToDate, kstatus: status.CurrentStatus},
		"a job runs":                      {facts: nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{stuck}, Working: "Job n1-1234 is at step flash."}, reason: v1alpha1.ReasonProgressing, kstatus: status.InProgressStatus, says: []string{"step flash"}},
		"held after a failure":            {facts: nfstatus.NodeFacts{Node: "n1", Devices: []nfstatus.DeviceSummary{due}, Held: held}, reason: v1alpha1.ReasonWriteFailed, kstatus: status.FailedStatus, says: []string{"Job n1-1234 failed", `\"retry\"`, `\"release\"`, "powered on"}, abnormal: []string{v1alpha1.ConditionHeld}},
		"held where a person has to look": {facts: nfstatus.NodeFacts{Node: "n1", Devices: []nfstatus.DeviceSummary{due}, Held: lost}, reason: v1alpha1.ReasonNeedsIntervention, kstatus: status.FailedStatus, says: []string{"Job n1-1234 failed at step health (Unhealthy)", "nothing more is done", "kubelet stopped", "n1-nic-b has one slot", "Repair it", `\"retry\"`, `\"release\"`}, abnormal: []string{v1alpha1.ConditionHeld}},
		"held without its maintenance":    {facts: nfstatus.NodeFacts{Node: "n1", Held: &nfstatus.HeldFacts{Job: "n1-1234", Reason: v1alpha1.ReasonMaintenanceLost, Message: "m"}}, reason: v1alpha1.ReasonMaintenanceLost, kstatus: status.FailedStatus, says: []string{"lost its maintenance and may take workloads", `\"retry\"`}, abnormal: []string{v1alpha1.ConditionHeld}},
		"a new job under the same hold":   {facts: nfstatus.NodeFacts{Node: "n1", Held: held, Working: "Job n1-5678 is at step preflight."}, reason: v1alpha1.ReasonProgressing, kstatus: status.InProgressStatus, abnormal: []string{v1alpha1.ConditionHeld}},
	} {
		t.Run(name, func(t *testing.T) {
			got := nfstatus.Node(tc.facts, nil, 2, noon)
			ready := meta.FindStatusCondition(got, v1alpha1.ConditionReady)
			require.NotNil(t, ready)
			assert.Equal(t, tc.reason, ready.Reason)
			for _, s := range tc.says {
				assert.Contains(t, ready.Message, s)
			}
			for _, kind := range []string{v1alpha1.ConditionHeld, v1alpha1.ConditionDegraded} {
				assert.Equal(t, slices.Contains(tc.abnormal, kind), meta.FindStatusCondition(got, kind) != nil, kind)
			}
			assert.Equal(t, tc.kstatus, kstatusOf(t, &v1alpha1.NodeFirmware{
				TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeFirmware"},
				ObjectMeta: metav1.ObjectMeta{Name: "n1", Generation: 2},
				Status:     v1alpha1.NodeFirmwareStatus{ObservedGeneration: 2, Conditions: got},
			}))
			assert.Equal(t, got, nfstatus.Node(tc.facts, got, 2, noon.Add(time.Hour)), "the same facts change nothing later")
			healed := nfstatus.Node(nfstatus.NodeFacts{Devices: []nfstatus.DeviceSummary{fine}}, got, 2, noon)
			assert.Len(t, healed, 1, "abnormal conditions go away with their cause")
		})
	}
}

// TestHeldNodeNamesBothWaysOut proves R002-27, R003-25, R003-39.
func TestHeldNodeNamesBothWaysOut(t *testing.T) {
	long := strings.Repeat("the tool said a lot; ", 100)
	for name, held := range map[string]nfstatus.HeldFacts{
		"a failure":                  {Reason: v1alpha1.ReasonStepFailed, Message: long},
		"where a person has to look": {Reason: v1alpha1.ReasonUnhealthy, Message: long, NoWayBack: long},
	} {
		t.Run(name, func(t *testing.T) {
			held.Job, held.Step, held.Device = "worker-17.example.org-12345", "flash", "worker-17.example.org-nic-b8cef6000001"
			got := nfstatus.Node(nfstatus.NodeFacts{Node: "worker-17.example.org", Held: &held}, nil, 1, noon)
			for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled, v1alpha1.ConditionHeld} {
				c := meta.FindStatusCondition(got, kind)
				require.NotNil(t, c, kind)
				assert.Contains(t, c.Message, "at step flash of worker-17.example.org-nic-b8cef6000001 ("+held.Reason+")")
				assert.Contains(t, c.Message, `{\"spec\":{\"requests\":{\"retry\":\"$(date -u +%FT%TZ)\"}}}`)
				assert.True(t, strings.HasSuffix(c.Message, `{\"spec\":{\"requests\":{\"release\":\"$(date -u +%FT%TZ)\"}}}"`), "%s is not cut off", c.Message)
				want := held.Reason
				if held.NoWayBack != "" {
					want = v1alpha1.ReasonNeedsIntervention
				}
				assert.Equal(t, want, c.Reason, kind)
			}
		})
	}
}
