package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// What a Node says follows from what its NodeFirmware says, in the words of that.
func TestCompliance(t *testing.T) {
	now := time.Unix(100, 0)
	device := func(name string, conditions ...Condition) DeviceSummary {
		return DeviceSummary{Name: name, Assigned: true, Conditions: Merge(nil, 1, now, DeviceConditions, conditions...)}
	}
	good := device("n1-nic", ready(v1alpha1.ReasonUpToDate, "runs")...)
	behind := device("n1-bios", reconciling(v1alpha1.ReasonPending, "waits")...)
	broken := device("n1-bmc", stalled(v1alpha1.ReasonWriteFailed, "broken")...)
	said := func(f NodeFacts) []metav1.Condition { return Node(f, nil, 1, now) }
	silent := Silence{NodeNotReady: true}
	on := func(is corev1.ConditionStatus, reason, message string) *corev1.NodeCondition {
		return &corev1.NodeCondition{Type: v1alpha1.ConditionFirmwareCompliant, Status: is, Reason: reason, Message: message}
	}
	runs := on(corev1.ConditionTrue, v1alpha1.ReasonUpToDate, "Every device of the node with desired firmware runs it.")
	for name, c := range map[string]struct {
		of        []metav1.Condition
		behind    bool
		was, want *corev1.NodeCondition
	}{
		"nothing is said before the first report": {},
		"all run it":                     {of: said(NodeFacts{Devices: []DeviceSummary{good}}), want: runs},
		"nothing is desired":             {of: said(NodeFacts{}), want: on("True", v1alpha1.ReasonNotAssigned, "No template or pin assigns firmware to a device of the node.")},
		"one waits":                      {of: said(NodeFacts{Devices: []DeviceSummary{good, behind}}), was: runs, want: on("False", v1alpha1.ReasonOutOfDate, "1 of 2 devices are not done yet: n1-bios (Pending).")},
		"what it waits for is no change": {of: said(NodeFacts{Devices: []DeviceSummary{behind}}), was: on("False", v1alpha1.ReasonOutOfDate, "before"), want: on("False", v1alpha1.ReasonOutOfDate, "before")},
		"one is broken":                  {of: said(NodeFacts{Devices: []DeviceSummary{broken, behind}}), was: on("False", v1alpha1.ReasonOutOfDate, "before"), want: on("False", v1alpha1.ReasonWriteFailed, "1 of 2 devices need attention: n1-bmc (WriteFailed).")},
		"the update runs":                {of: said(NodeFacts{Working: "Job j.", Devices: []DeviceSummary{behind}}), was: on("False", v1alpha1.ReasonOutOfDate, "before"), want: on("False", v1alpha1.ReasonOutOfDate, "before")},
		"it is tried again":              {of: said(NodeFacts{Working: "Job j.", Devices: []DeviceSummary{behind}}), was: on("False", v1alpha1.ReasonWriteFailed, "broken"), want: on("False", v1alpha1.ReasonOutOfDate, "Job j.")},
		"a job changes no firmware":      {of: said(NodeFacts{Working: "Job j.", Devices: []DeviceSummary{good}}), was: runs, want: runs},
		"a job was not seen to begin":    {of: said(NodeFacts{Working: "Job j.", Devices: []DeviceSummary{behind}}), behind: true, was: runs, want: on("False", v1alpha1.ReasonOutOfDate, "Job j.")},
		"its firmware is written":        {of: said(NodeFacts{Working: "Job j.", Devices: []DeviceSummary{behind}}), was: on("False", v1alpha1.ReasonOutOfDate, "before"), want: on("False", v1alpha1.ReasonOutOfDate, "before")},
		"a class cannot be listed":       {of: said(NodeFacts{Problems: []string{"Not listed."}, Devices: []DeviceSummary{good}}), was: runs, want: on("Unknown", v1alpha1.ReasonReadFailed, "Not listed.")},
		"the daemon is silent":           {of: Daemon(&silent, said(NodeFacts{Devices: []DeviceSummary{good}}), 1, now), was: runs, want: on("Unknown", v1alpha1.ReasonNodeNotReady, "The daemon has never reported; the Node is not Ready.")},
		"it reports again":               {of: Daemon(nil, Daemon(&silent, said(NodeFacts{Devices: []DeviceSummary{good}}), 1, now), 1, now), was: on("Unknown", v1alpha1.ReasonNotReporting, "x"), want: runs},
		"the node is held": {of: said(NodeFacts{Node: "n1", Held: &HeldFacts{Job: "j", Reason: v1alpha1.ReasonUnhealthy, Message: "no link"}, Devices: []DeviceSummary{behind}}), was: on("False", v1alpha1.ReasonOutOfDate, "before"),
			want: on("False", v1alpha1.ReasonUnhealthy, "Job j failed (Unhealthy) and the node stays in maintenance, powered on: No link. To try again: "+
				wayout.Retry("n1")+"  To return the node to service as it is: "+wayout.Request("nfw", "n1", "release"))},
	} {
		t.Run(name, func(t *testing.T) {
			got := Compliance(c.of, c.behind, c.was)
			if c.want == nil {
				assert.Nil(t, got)
				return
			}
			assert.Equal(t, onNode(c.want), got)
		})
	}
}

// A condition keeps its times while it says the same, so that an unchanged one is no write.
func TestOnNodeKeepsTimes(t *testing.T) {
	first, later := time.Unix(100, 0), time.Unix(200, 0)
	say := func(is metav1.ConditionStatus, message string) Condition { return Condition{"A", is, "R", message} }
	was := OnNode(nil, first, say("True", "m"))
	assert.Equal(t, was, OnNode(was, later, say("True", "m")))
	got := OnNode(was, later, say("True", "n"))[0]
	assert.Equal(t, []metav1.Time{metav1.NewTime(later), metav1.NewTime(first)}, []metav1.Time{got.LastHeartbeatTime, got.LastTransitionTime})
	got = OnNode(was, later, say("False", "m"))[0]
	assert.Equal(t, []metav1.Time{metav1.NewTime(later), metav1.NewTime(later)}, []metav1.Time{got.LastHeartbeatTime, got.LastTransitionTime})
	assert.Empty(t, OnNode(was, later))
}
