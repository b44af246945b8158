package status_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// A new node is told nothing of a stay out of service, and nobody is told that a policy is paused or selects nothing where that is not so.
func TestWhatIsSaidOfANodeIsTrue(t *testing.T) {
	job := func(conditions ...metav1.Condition) *v1alpha1.FirmwareJob {
		return &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Status: v1alpha1.FirmwareJobStatus{Conditions: conditions}}
	}
	one, isNew := []string{"storage"}, v1alpha1.CleaningNewNode
	for name, c := range map[string]struct {
		facts status.CleaningFacts
		says  string
	}{
		"new, waits": {status.CleaningFacts{When: isNew, Policies: one, Waits: status.NewNodeWaits("OutOfDate", "Not at its target.")},
			"False OutOfDate: Not at its target."},
		"new, steps succeeded": {status.CleaningFacts{When: isNew, Policies: one, Proven: true, Job: job(metav1.Condition{Type: "Complete", Status: "True"})},
			"True Succeeded: The node is at its target and healthy, and every step of CleaningPolicy storage succeeded in job j."},
		"new, no policy": {status.CleaningFacts{When: isNew, Proven: true}, "True Succeeded: The node is at its target and healthy, and no CleaningPolicy has steps for it."},
		"new, paused": {status.CleaningFacts{When: isNew, Policies: one, Proven: true, Paused: true},
			"True Succeeded: The node is at its target and healthy, and CleaningPolicy storage is paused, so its steps did not run."},
		"new, off": {status.CleaningFacts{When: isNew, Policies: one, Proven: true, Off: true},
			"True Succeeded: The node is at its target and healthy, and every step of CleaningPolicy storage has the priority 0, so none ran."},
		"new, invalid": {status.CleaningFacts{When: isNew, Proven: true, Invalid: one},
			"True Succeeded: The node is at its target and healthy, and no CleaningPolicy is known to have steps for it: the nodeSelector of CleaningPolicy storage is invalid. " +
				"To correct it: kubectl edit clp storage"},
		"new, held": {status.CleaningFacts{Node: "n1", When: isNew, Policies: one, HeldBy: "u"},
			"False NodeBusy: The steps of CleaningPolicy storage begin once job u, which failed, holds the node no more. " +
				`To release it: kubectl patch nfw n1 --type merge -p "{\"spec\":{\"requests\":{\"release\":\"$(date -u +%FT%TZ)\"}}}"`},
		"out, no policy": {status.CleaningFacts{Node: "n1", When: v1alpha1.CleaningOutOfService},
			"Unknown NoMatch: No CleaningPolicy selects the node for OutOfService, so it is not cleaned. It gets no new work. " +
				`To return it: kubectl patch nfw n1 --type merge -p '{"spec":{"service":"InService"}}'`},
		"out, off": {status.CleaningFacts{Node: "n1", When: v1alpha1.CleaningOutOfService, Policies: one, Off: true},
			"Unknown Paused: Every step of CleaningPolicy storage has the priority 0, so the node is not cleaned. It gets no new work. " +
				`To have one run: kubectl edit clp storage  To return it: kubectl patch nfw n1 --type merge -p '{"spec":{"service":"InService"}}'`},
		"out, invalid": {status.CleaningFacts{Node: "n1", When: v1alpha1.CleaningOutOfService, Invalid: one},
			"Unknown InvalidSpec: No CleaningPolicy is known to select the node for OutOfService, so it is not cleaned: the nodeSelector of CleaningPolicy storage is invalid. " +
				"It gets no new work. To correct the selector: kubectl edit clp storage  " +
				`To return the node: kubectl patch nfw n1 --type merge -p '{"spec":{"service":"InService"}}'`},
		"its job has not failed": {status.CleaningFacts{Policies: one, Job: job(metav1.Condition{Type: "Failed", Status: "False"})},
			"False Pending: Job j, which runs the steps of CleaningPolicy storage, waits for its turn. To see for what: kubectl firmware why j"},
		"its job failed": {status.CleaningFacts{Node: "n1", When: isNew, Policies: one, Job: job(metav1.Condition{Type: "Failed", Status: "True", Message: "a drive is missing"})},
			"False StepFailed: Job j of CleaningPolicy storage failed: A drive is missing. " +
				`To try again: kubectl patch nfw n1 --type merge -p "{\"spec\":{\"requests\":{\"retry\":\"$(date -u +%FT%TZ)\"}}}"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := status.Clean(&c.facts, nil, 1, time.Unix(0, 0))
			require.Len(t, got, 1)
			assert.Equal(t, c.says, string(got[0].Status)+" "+got[0].Reason+": "+got[0].Message)
		})
	}
}
