package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Each thing that is missing is an event, once, and the words of an ended job are none.
func TestProtectionEvents(t *testing.T) {
	recorder := events.NewFakeRecorder(9)
	job := &v1alpha1.FirmwareJob{}
	report := func(message string, ended bool) int {
		now := v1alpha1.FirmwareJobStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionProtected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWriteUnprotected, Message: message},
		}}
		if ended {
			now.CompletionTime = &metav1.Time{Time: time.Unix(1, 0)}
		}
		emitTransitions(recorder, job, now)
		job.Status = now
		return len(recorder.Events)
	}
	assert.Equal(t, 1, report("No scope.", false))
	assert.Equal(t, 1, report("No scope.", false))
	assert.Equal(t, 2, report("No scope; no guard.", false))
	assert.Equal(t, 2, report("No scope; there was no guard.", true))
}

func TestVerdictOfAJob(t *testing.T) {
	const before, after = plan.Clearance("for the last one"), plan.Clearance("as it is")
	admitted := []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue}}
	object := func(kind v1alpha1.JobType, conditions ...metav1.Condition) *v1alpha1.FirmwareJob {
		return &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Type: kind}}, Status: v1alpha1.FirmwareJobStatus{Conditions: conditions}}
	}
	cancelled := object(v1alpha1.JobTypeUpdate)
	cancelled.Spec.Cancel = &v1alpha1.JobCancel{}
	update := object(v1alpha1.JobTypeUpdate, admitted...)
	forced := cancelled.DeepCopy()
	forced.Spec.Cancel.Mode = v1alpha1.CancelForce
	deleted := object(v1alpha1.JobTypeUpdate, admitted...)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	superseded, withdrawn := object(v1alpha1.JobTypeUpdate), cancelled.DeepCopy()
	superseded.DeletionTimestamp, withdrawn.DeletionTimestamp = deleted.DeletionTimestamp, deleted.DeletionTimestamp
	running := &journal.Job{}
	held := &journal.Job{Release: before.InForce(), Reported: true, Record: step.Record{Outcome: step.Failed, Failure: &step.Failure{Held: true}}}
	unreported := &journal.Job{Record: step.Record{Outcome: step.Complete}}
	for name, c := range map[string]struct {
		facts state
		want  verdict
	}{
		"neither object nor job":                     {state{}, leave},
		"waits for its admission":                    {state{object: object(v1alpha1.JobTypeUpdate), mine: true}, queue},
		"admitted":                                   {state{object: update, mine: true}, submit},
		"admitted while another runs":                {state{object: update, mine: true, busy: "other"}, queue},
		"admitted, of another process":               {state{object: update}, queue},
		"cancelled before it began":                  {state{object: cancelled, mine: true}, cancelUnstarted},
		"cancelled while it runs":                    {state{object: cancelled, known: running}, cancel},
		"cancelled by force after it was cancelled":  {state{object: forced, known: &journal.Job{Cancel: new(string)}}, cancel},
		"cancelled by force, which is known":         {state{object: forced, known: &journal.Job{Cancel: new(string), CancelForce: true}}, follow},
		"deleted before it began":                    {state{object: deleted, mine: true}, cancelUnstarted},
		"deleted before it was admitted":             {state{object: superseded, mine: true}, leave},
		"cancelled and deleted before its admission": {state{object: withdrawn, mine: true}, cancelUnstarted},
		"deleted while it runs":                      {state{object: deleted, known: running}, cancel},
		"deleted, and cancelled already":             {state{object: deleted, known: &journal.Job{Cancel: new(string)}}, follow},
		"runs":                                       {state{object: update, known: running}, follow},
		"ended, not reported":                        {state{object: update, known: unreported}, conclude},
		"ended, not reported, object gone":           {state{known: unreported}, conclude},
		"holds the node":                             {state{object: update, known: held, holds: held, release: before}, follow},
		"holds the node, object gone":                {state{known: held, holds: held}, leave},
		"holds the node and is released":             {state{object: update, known: held, holds: held, release: after}, release},
		"holds the node under steps and is released": {state{object: update, known: held, holds: held, release: after, busy: "steps"}, follow},
		"a later job of its name waits":              {state{object: object(v1alpha1.JobTypeUpdate), holds: held, release: after}, release},
		"ended before the journal began": {
			state{object: object(v1alpha1.JobTypeUpdate, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue})}, leave,
		},
	} {
		assert.Equal(t, c.want, decide(c.facts), name)
	}
}

func TestAJobIsJournalledUnderTheTermsOfItsObject(t *testing.T) {
	r := &Reconciler{Catalog: plan.DefaultCatalog()}
	o := &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate}}}
	j := r.newJob(state{object: o})
	assert.False(t, j.ProtectionRequired)
	assert.False(t, j.Record.RollbackRequired)
	assert.Empty(t, j.TraceParent)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	o.Annotations = map[string]string{v1alpha1.TraceParentAnnotation: parent}
	assert.Equal(t, parent, r.newJob(state{object: o}).TraceParent)
	o.Annotations[v1alpha1.TraceParentAnnotation] = "a\nb-c-d-e" // by whoever made the job
	assert.Empty(t, r.newJob(state{object: o}).TraceParent)
	o.Spec.Task.Require = v1alpha1.Requirements{v1alpha1.RequireWriteProtection}
	j = r.newJob(state{object: o})
	assert.True(t, j.ProtectionRequired)
	assert.False(t, j.Record.RollbackRequired)
}
