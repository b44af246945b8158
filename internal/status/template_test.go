package status

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/baseline"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
)

// R000-18, R000-34: a template's conditions follow from its counters.
func TestTemplateConditions(t *testing.T) {
	blocked := func(reason string) []match.BlockOn {
		return []match.BlockOn{{Device: "n1-nic", Block: match.Block{Reason: reason, Source: "s"}}}
	}
	conflicts := []match.ConflictOn{{Device: "n1-nic", Parties: []match.Party{
		{Kind: v1alpha1.OriginTemplate, Name: "a", Rule: "r"}, {Kind: v1alpha1.OriginTemplate, Name: "b", Rule: "r"},
	}}}
	tests := []struct {
		name   string
		tally  match.Tally
		reason string
		// with is the abnormal condition beside a Ready that is not True; empty when it is.
		with    string
		message []string
	}{
		{"all run it", match.Tally{Counts: match.Counts{Matched: 2, Applied: 2}}, v1alpha1.ReasonSucceeded, "", []string{"2 of 2 assigned devices"}},
		{
			"nodes that differ", match.Tally{Counts: match.Counts{Matched: 2, Applied: 2}, NodesUnlike: 4, Unlike: []match.Unlike{
				{Nodes: 1, Node: "gpu-017", Like: "gpu-001", Differs: []baseline.Difference{
					{What: "Disk PM9A3", Has: "7 × GDC5602Q", Other: "8 × GDC5602Q"}, {What: "NIC ConnectX-6 Dx", Other: "22.41.1000"},
					{What: "NIC E810", Has: "4.40"}, {What: "StorageController PERC", Has: "1", Other: "2"},
				}},
				{Nodes: 2, Node: "gpu-044", Like: "gpu-001", Differs: []baseline.Difference{{What: "NIC ConnectX-6 Dx", Has: "22.41.1000 [numVFs=4]", Other: "22.41.1000 [numVFs=8]"}}},
				{Nodes: 1, Node: "gpu-400", Like: "gpu-001"},
			}}, v1alpha1.ReasonSucceeded, "",
			[]string{"2 of 2 assigned devices run the desired firmware. 4 nodes differ from most of their machine model. " +
				"gpu-017 differs from gpu-001 in Disk PM9A3 (7 × GDC5602Q, not 8 × GDC5602Q), NIC ConnectX-6 Dx (none, not 22.41.1000), NIC E810 (4.40, not none), 1 more. " +
				"gpu-044 and 1 more like it differ from gpu-001 in NIC ConnectX-6 Dx (22.41.1000 [numVFs=4], not 22.41.1000 [numVFs=8]). gpu-400 differs."},
		},
		{"no node yet", match.Tally{}, v1alpha1.ReasonNoMatch, v1alpha1.ConditionReconciling, []string{"No node is selected", "nodeSelector", "machine"}},
		{"no device of the class", match.Tally{Nodes: 3}, v1alpha1.ReasonNoMatch, v1alpha1.ConditionReconciling, []string{"3 selected nodes", "class", "kubectl get nodedevices"}},
		{
			"a wrong board id", match.Tally{Nodes: 3, Nearest: &match.Near{Device: "n1-nic", Rule: "cx6dx", Differs: []match.Difference{{Field: "boardIDs", Has: "MT_1"}, {Field: "serialNumbers"}}}},
			v1alpha1.ReasonNoMatch, v1alpha1.ConditionReconciling,
			[]string{"3 selected nodes", `Rule "cx6dx" is closest to device n1-nic`, "boardIDs (the device reports MT_1), serialNumbers (the device reports no value)", "kubectl get nodedevices"},
		},
		{"pinned elsewhere", match.Tally{Counts: match.Counts{Matched: 1}}, v1alpha1.ReasonSucceeded, "", []string{"pins override it on 1 matching device"}},
		{"invalid", match.Tally{Invalid: "spec.nodeSelector: bad", Counts: match.Counts{Matched: 1, Pending: 1}}, v1alpha1.ReasonInvalidSpec, v1alpha1.ConditionStalled, []string{"spec.nodeSelector: bad", "withdraws nothing"}},
		{"pending", match.Tally{Counts: match.Counts{Matched: 2, Applied: 1, NotApplied: 1, Pending: 1}}, v1alpha1.ReasonProgressing, v1alpha1.ConditionReconciling, []string{"1 of 2", "1 device is in progress"}},
		{"not judged yet", match.Tally{Counts: match.Counts{Matched: 2, Applied: 2, Updating: 1}}, v1alpha1.ReasonProgressing, v1alpha1.ConditionReconciling, nil},
		{"updating", match.Tally{Counts: match.Counts{Matched: 2, NotApplied: 2, Updating: 1, Pending: 1}}, v1alpha1.ReasonProgressing, v1alpha1.ConditionReconciling, nil},
		{
			"some on their way, some failed",
			match.Tally{Counts: match.Counts{Matched: 2, NotApplied: 2, Pending: 1, Failed: 1}, Failures: []match.FailureOn{{Device: "n1-nic", Node: "n1"}}},
			v1alpha1.ReasonProgressing, v1alpha1.ConditionReconciling, []string{"1 update failed (first: n1-nic)"},
		},
		{
			"restored",
			match.Tally{Counts: match.Counts{Matched: 1, NotApplied: 1, Restored: 1}, Restores: []match.FailureOn{{Device: "n1-nic", Node: "n1"}}},
			v1alpha1.ReasonRestored, v1alpha1.ConditionStalled, []string{"1 device runs what a person restored (first: n1-nic)", "kubectl patch nfw n1", `\"retry\"`},
		},
		{
			"failed",
			match.Tally{Counts: match.Counts{Matched: 1, NotApplied: 1, Failed: 1}, Failures: []match.FailureOn{{Device: "n1-nic", Node: "n1"}}},
			v1alpha1.ReasonUpdateFailed, v1alpha1.ConditionStalled, []string{"kubectl patch nfw n1", `\"retry\"`},
		},
		{"waits for the source", match.Tally{Counts: match.Counts{Matched: 1, NotApplied: 1, Blocked: 1, Waiting: 1}, Blocks: blocked(v1alpha1.ReasonSourceNotReady)}, v1alpha1.ReasonSourceNotReady, v1alpha1.ConditionReconciling, []string{"kubectl describe firmwaresource s"}},
		{"blocked", match.Tally{Counts: match.Counts{Matched: 1, NotApplied: 1, Blocked: 1}, Blocks: blocked(v1alpha1.ReasonSourceNotFound)}, v1alpha1.ReasonSourceNotFound, v1alpha1.ConditionStalled, []string{"n1-nic", `"s" does not exist`}},
		{"held by a pin", match.Tally{Counts: match.Counts{Matched: 1, NotApplied: 1, Blocked: 1, Withheld: 1}, Blocks: blocked(v1alpha1.ReasonNoMatch)}, v1alpha1.ReasonNoMatch, v1alpha1.ConditionStalled, []string{"0 of 0 assigned devices", "1 device is blocked (first: n1-nic): The ", "matches no device"}},
		{"only validated", match.Tally{Counts: match.Counts{Matched: 1, NotApplied: 1, Mismatched: 1}}, v1alpha1.ReasonOutOfDate, v1alpha1.ConditionStalled, []string{"Validate"}},
		{"conflict", match.Tally{Counts: match.Counts{Matched: 1, Conflicting: 1}, Conflicts: conflicts}, v1alpha1.ReasonConflict, v1alpha1.ConditionStalled, []string{`"a" and rule "r" of FirmwareTemplate "b"`}},
		{"paused", match.Tally{Paused: true, Counts: match.Counts{Matched: 2, Applied: 1, Unassigned: 1}}, v1alpha1.ReasonPaused, "", []string{"1 matching device is not assigned", "Active"}},
		{"paused with work under way", match.Tally{Paused: true, Counts: match.Counts{Matched: 1, NotApplied: 1, Pending: 1}}, v1alpha1.ReasonProgressing, v1alpha1.ConditionReconciling, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.tally.Generation = 4
			got := Template("t", tt.tally, []metav1.Condition{{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionTrue}}, assignmentTime)
			c := meta.FindStatusCondition(got, v1alpha1.ConditionReady)
			require.NotNil(t, c)
			assert.Equal(t, tt.reason, c.Reason)
			assert.Equal(t, tt.with == "", c.Status == metav1.ConditionTrue)
			assert.Equal(t, int64(4), c.ObservedGeneration)
			for _, m := range tt.message {
				assert.Contains(t, c.Message, m)
			}
			for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
				assert.Equal(t, kind == tt.with, meta.FindStatusCondition(got, kind) != nil, kind)
			}
			assert.Equal(t, tt.tally.Conflicting > 0, meta.FindStatusCondition(got, v1alpha1.ConditionConflict) != nil)
		})
	}
}
