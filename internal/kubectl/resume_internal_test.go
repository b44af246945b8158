package kubectl

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// What a stop has done is undone while it is the stop alone that keeps it so.
func TestAResumeUndoesOnlyTheStop(t *testing.T) {
	for name, c := range map[string]struct {
		managers []string
		want     v1alpha1.RolloutState
	}{
		"by a stop":                       {[]string{stopper}, v1alpha1.RolloutActive},
		"by a person":                     {[]string{writer}, v1alpha1.RolloutPaused},
		"by a stop, and declared as well": {[]string{stopper, "flux"}, v1alpha1.RolloutPaused},
		"by nobody who is known":          {nil, v1alpha1.RolloutPaused},
	} {
		p := policyNamed("gpu", v1alpha1.RolloutPaused)
		owned(p, "state", c.managers...)
		p.SetManagedFields(append(p.GetManagedFields(), metav1.ManagedFieldsEntry{Manager: "operator", Operation: metav1.ManagedFieldsOperationApply, Subresource: "status",
			APIVersion: v1alpha1.GroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:state":{}}}`)}))
		assert.Equal(t, c.want == v1alpha1.RolloutActive, isStopped(p), name)
		_, err := pause(p)
		require.ErrorContains(t, err, "policy/gpu is Paused already")
		assert.Equal(t, isStopped(p), strings.Contains(err.Error(), "by a stop"), name)
	}
}

// stoppedNode is a node of which a stop cancelled the job before it wrote.
func stoppedNode() *nodeFacts {
	f := heldNode()
	f.node.Status.HeldBy, f.devices[0].Status.Failure = "", nil
	j := &f.jobs[0]
	j.Spec.Cancel = &v1alpha1.JobCancel{}
	j.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCancelled}}
	j.Status.Steps = nil
	owned(j, "cancel", stopper)
	return f
}

func TestAResumeRetriesOnlyWhatTheStopCancelled(t *testing.T) {
	another := func(reason string) func(f *nodeFacts) {
		return func(f *nodeFacts) {
			j := *f.jobs[0].DeepCopy()
			j.Name, j.ManagedFields, j.CreationTimestamp = "k", nil, metav1.NewTime(anna.now)
			j.Status.Conditions[0].Reason = reason
			f.jobs = append(f.jobs, j)
		}
	}
	for name, c := range map[string]struct {
		change        func(f *nodeFacts)
		retried       bool
		refusal, will string
	}{
		"what the stop cancelled":     {func(*nodeFacts) {}, true, "", "What failed on node n is tried again: n-nic."},
		"hurried by a person":         {func(f *nodeFacts) { owned(&f.jobs[0], "cancel", writer) }, true, "", ""},
		"tried again since":           {func(f *nodeFacts) { f.retries("r") }, false, "", ""},
		"not desired any more":        {func(f *nodeFacts) { f.devices[0].Spec.Firmware = nil }, false, "", ""},
		"cancelled by a person":       {func(f *nodeFacts) { f.jobs[0].ManagedFields = nil }, false, "", ""},
		"another failure too":         {another(v1alpha1.ReasonWriteFailed), false, "more to be tried again than what the stop cancelled: job k", ""},
		"another that passes":         {another(v1alpha1.ReasonImageUnavailable), true, "", ""},
		"a person cancelled the next": {another(v1alpha1.ReasonCancelled), false, "than what the stop cancelled: job k", ""},
		"tried again, and then a person cancelled": {func(f *nodeFacts) {
			another(v1alpha1.ReasonCancelled)(f)
			f.retries("r")
			f.jobs[1].Spec.Task.Request = new("r")
		}, false, "", ""},
		"held by another job": {func(f *nodeFacts) { f.node.Status.HeldBy = "x" }, false, "than what the stop cancelled: job x", ""},
		"held by it": {func(f *nodeFacts) {
			f.node.Status.HeldBy = "j"
			f.jobs[0].Status.Conditions = append(f.jobs[0].Status.Conditions, yes(v1alpha1.ConditionHeld))
		}, true, "", "A new job takes the node over from job j"},
		"its policy, which is active by then": {func(f *nodeFacts) { f.policy.Spec.State = v1alpha1.RolloutPaused; f.activated([]string{"gpu"}) }, true, "", "n-nic."},
	} {
		t.Run(name, func(t *testing.T) {
			f := stoppedNode()
			c.change(f)
			one, err := f.retryStopped(anna)
			if c.refusal != "" {
				require.ErrorContains(t, err, c.refusal)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.retried, one != nil)
			if one != nil {
				assert.Contains(t, one.will, c.will)
				assert.NotContains(t, one.will, "It waits while policy")
			}
		})
	}
}

// The policy is read again before it is activated: somebody may have paused it meanwhile.
func TestAResumeLooksAgainBeforeItActivates(t *testing.T) {
	p := policyNamed("gpu", v1alpha1.RolloutPaused)
	owned(p, "state", stopper)
	meanwhile := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		err := c.Get(ctx, key, o, options...)
		if p, is := o.(*v1alpha1.RolloutPolicy); is {
			p.SetManagedFields(nil)
			owned(p, "state", "kubectl-edit")
		}
		return err
	}}
	out, said, err := types(t.Context(), world(t, meanwhile, p), "resume", "--yes")
	require.NoError(t, err)
	assert.Empty(t, out)
	assert.Contains(t, said, "Nothing is to be done.")
}
