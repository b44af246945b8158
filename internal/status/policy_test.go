package status_test

import (
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func TestPolicyConditions(t *testing.T) {
	ledger := func(n int) []schedule.Entry { return make([]schedule.Entry, n) }
	queue := func(n int) []schedule.Waiting { return make([]schedule.Waiting, n) }
	opens := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	closed := window.State{Opens: opens, Next: opens}
	frozen := window.State{Denies: "audit", DeniedUntil: opens, Opens: opens, Next: opens}
	for name, c := range map[string]struct {
		facts           status.PolicyFacts
		reason, message string
		want            kstatus.Status
	}{
		"nothing waits": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 3, Budget: 1}},
			v1alpha1.ReasonSucceeded, "No job waits for one of the 3 nodes.", kstatus.CurrentStatus,
		},
		"nodes are admitted and wait": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 2, Unavailable: 2, Ledger: ledger(2), Queue: queue(1)}},
			v1alpha1.ReasonProgressing, "2 nodes are admitted, 1 job waits; 2 of 2 unavailable.", kstatus.InProgressStatus,
		},
		"a queue that is full": {
			status.PolicyFacts{Refused: 7, Outcome: schedule.Outcome{Nodes: 9, Budget: 1, Unavailable: 1, Ledger: ledger(1), Queue: queue(1)}},
			v1alpha1.ReasonProgressing, "1 job waits; 1 of 1 unavailable. 7 more nodes are refused until fewer than maxQueued wait.", kstatus.InProgressStatus,
		},
		"a budget of nothing": {
			status.PolicyFacts{MaxUnavailable: "0%", Outcome: schedule.Outcome{Nodes: 9, Queue: queue(4)}},
			v1alpha1.ReasonBudgetExhausted, "4 jobs wait, but maxUnavailable 0% admits no node. To continue: kubectl patch rp p --type merge -p '{\"spec\":{\"maxUnavailable\":1}}'", kstatus.FailedStatus,
		},
		"a paused policy is as its spec wants it": {
			status.PolicyFacts{Paused: true, Outcome: schedule.Outcome{Nodes: 9, Budget: 1, Ledger: ledger(1), Queue: queue(2)}},
			v1alpha1.ReasonPaused, "Paused: 2 jobs wait, 1 admitted node finishes. To continue: kubectl patch rp p --type merge -p '{\"spec\":{\"state\":\"Active\"}}'", kstatus.CurrentStatus,
		},
		"a paused policy says who is held": {
			status.PolicyFacts{Paused: true, Outcome: schedule.Outcome{Nodes: 9, Budget: 2, Ledger: ledger(2), Held: []string{"n1"}}},
			v1alpha1.ReasonPaused, "Paused, and 1 node is held after a failed job: n1. To return it to service as it is: kubectl patch nfw n1", kstatus.FailedStatus,
		},
		"an aborted policy says who is held": {
			status.PolicyFacts{Aborted: true, Outcome: schedule.Outcome{Nodes: 9, Budget: 2, Ledger: ledger(2), Held: []string{"n1"}}},
			v1alpha1.ReasonAborted, "Aborted, and 1 node is held after a failed job: n1. To return it to service as it is: kubectl patch nfw n1", kstatus.FailedStatus,
		},
		"a rack is the limit, and not the pool": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 3, Unavailable: 1, Ledger: ledger(1), Queue: []schedule.Waiting{
				{Entry: schedule.Entry{Node: "n2"}, Reason: schedule.BudgetExhausted, Message: "1 of 1 in rack r1 by policy p."},
			}}},
			v1alpha1.ReasonProgressing, "1 of 3 unavailable. Node n2 waits (BudgetExhausted): 1 of 1 in rack r1 by policy p.", kstatus.InProgressStatus,
		},
		"a halt is told before a wave that waits": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 2, Queue: queue(2), Rollouts: []schedule.RolloutState{
				{Waiting: 1, Reason: schedule.WaveEmpty, Message: "Wave canary selects nobody."},
				{Waiting: 1, Reason: schedule.RolloutHalted, Message: "The update is halted."},
			}}},
			v1alpha1.ReasonRolloutHalted, "0 nodes are admitted, 2 jobs wait. The update is halted.", kstatus.FailedStatus,
		},
		"a wave that soaks, while another update waits for nobody": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 2, Queue: queue(2), Rollouts: []schedule.RolloutState{
				{Reason: schedule.RolloutHalted, Message: "The update that no node waits for is halted."},
				{Waiting: 2, Soaks: opens, Message: "Wave canary soaks."},
			}}},
			v1alpha1.ReasonWaitingForWave, "0 nodes are admitted, 2 jobs wait. Wave canary soaks.", kstatus.InProgressStatus,
		},
		"nodes that are down use the budget up": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 1, Unavailable: 1, Queue: queue(2)}},
			v1alpha1.ReasonBudgetExhausted, "2 jobs wait; 1 node is not Ready or cordoned, which uses up the budget of 1. Repair or uncordon, or raise maxUnavailable.",
			kstatus.InProgressStatus,
		},
		"two policies choose a node": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 1, Conflict: &schedule.Conflict{With: []string{"gpu"}, Nodes: 2, Node: "n1"}}},
			v1alpha1.ReasonConflict, "2 nodes are also selected by gpu (first: n1)", kstatus.FailedStatus,
		},
		"a selector that chooses nothing": {
			status.PolicyFacts{Selects: true, Outcome: schedule.Outcome{Budget: 0}},
			v1alpha1.ReasonNoMatch, "spec.nodeSelector selects no node, so the policy does nothing yet.", kstatus.CurrentStatus,
		},
		"a default policy beside others that choose every node": {
			status.PolicyFacts{}, v1alpha1.ReasonSucceeded, "No job waits for one of the 0 nodes.", kstatus.CurrentStatus,
		},
		"an invalid selector": {
			status.PolicyFacts{Invalid: "spec.nodeSelector: no such operator"},
			v1alpha1.ReasonInvalidSpec, "spec.nodeSelector: no such operator. Until the spec is corrected", kstatus.FailedStatus,
		},
		"invalid windows": {
			status.PolicyFacts{Stopped: "spec.windows[1].schedule: no"},
			v1alpha1.ReasonInvalidSpec, "spec.windows[1].schedule: no. What runs finishes. Until the spec is corrected no job of the pool is admitted: kubectl edit rp p", kstatus.FailedStatus,
		},
		"no window is open": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 1, Unavailable: 1, Ledger: ledger(1), Queue: queue(2), Window: closed}},
			v1alpha1.ReasonOutsideWindow, "2 jobs wait: opens Sat 2026-11-21 22:00 UTC. 1 admitted node finishes.", kstatus.InProgressStatus,
		},
		"a freeze": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 1, Queue: queue(2), Window: frozen}},
			v1alpha1.ReasonOutsideWindow, "2 jobs wait: window audit admits no node; opens Sat 2026-11-21 22:00 UTC. 0 admitted nodes finish.", kstatus.InProgressStatus,
		},
		"no window is open and nothing waits": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 1, Window: closed}},
			v1alpha1.ReasonSucceeded, "No job waits", kstatus.CurrentStatus,
		},
		"no window ever opens": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 1, Window: window.State{Next: opens, Searched: 367 * 24 * time.Hour}}},
			v1alpha1.ReasonNeverOpens, "No window opens within a year. Until the windows are changed", kstatus.FailedStatus,
		},
		"no window is long enough": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 1, Queue: queue(1), Window: closed, TooLong: 5 * time.Hour}},
			v1alpha1.ReasonNeverOpens, "A waiting job is expected to take 5h0m0s, and none of the next windows is that long.", kstatus.FailedStatus,
		},
		"held nodes use the budget up": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 1, Unavailable: 1, Ledger: ledger(1), Held: []string{"n1"}, Queue: queue(2)}},
			v1alpha1.ReasonBudgetExhausted, "1 node is held after a failed job and 2 jobs wait: n1. To try again: kubectl patch nfw n1", kstatus.FailedStatus,
		},
		"a held node beside others that go on": {
			status.PolicyFacts{Outcome: schedule.Outcome{Nodes: 9, Budget: 2, Unavailable: 2, Ledger: ledger(2), Held: []string{"n1"}}},
			v1alpha1.ReasonProgressing, "2 nodes are admitted", kstatus.InProgressStatus,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.RolloutPolicy{}
			p.Generation, p.Status.ObservedGeneration = 3, 3
			c.facts.Name = "p"
			p.Status.Conditions = status.Policy(c.facts, nil, 3, time.Unix(0, 0))
			ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
			require.NotNil(t, ready)
			assert.Equal(t, c.reason, ready.Reason)
			assert.Contains(t, ready.Message, c.message)
			assert.Equal(t, c.facts.Outcome.Conflict != nil, meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionConflict))
			apitest.RequireStatus(t, p, c.want)
		})
	}
}

func TestAPolicyIsCompleteWhileNoJobWaitsOrIsAdmitted(t *testing.T) {
	waits := []schedule.Waiting{{Reason: schedule.Paused}, {Reason: schedule.BudgetExhausted}}
	for name, c := range map[string]struct {
		facts           status.PolicyFacts
		want            metav1.ConditionStatus
		reason, message string
	}{
		"at rest": {status.PolicyFacts{}, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "No job waits or is admitted."},
		"a paused policy is Ready, but not complete": {
			status.PolicyFacts{Paused: true, Outcome: schedule.Outcome{Queue: waits}}, metav1.ConditionFalse, "Paused", "0 nodes are admitted, 2 jobs wait.",
		},
		"jobs run": {
			status.PolicyFacts{Outcome: schedule.Outcome{Ledger: make([]schedule.Entry, 1), Queue: waits}},
			metav1.ConditionFalse, v1alpha1.ReasonProgressing, "1 node is admitted, 2 jobs wait.",
		},
		"an invalid policy": {
			status.PolicyFacts{Invalid: "spec.nodeSelector: bad"}, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec, "selects no node",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := meta.FindStatusCondition(status.Policy(c.facts, nil, 3, time.Unix(0, 0)), v1alpha1.ConditionComplete)
			require.NotNil(t, got)
			assert.Equal(t, c.want, got.Status)
			assert.Equal(t, c.reason, got.Reason)
			assert.Contains(t, got.Message, c.message)
		})
	}
}
