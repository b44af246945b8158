package v1alpha1_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func validCleaning() *v1alpha1.CleaningPolicy {
	return &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: "storage"}, Spec: v1alpha1.CleaningPolicySpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "storage"}},
		When:         []v1alpha1.CleaningTime{v1alpha1.CleaningNewNode, v1alpha1.CleaningOutOfService},
		Steps: []v1alpha1.CleaningStep{
			{Name: "verify-inventory", Priority: new(int32(30)), Expect: []v1alpha1.ExpectedDevices{{Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Vendor: "Samsung"}, Count: new(int32(8))}}},
			{Name: "verify-firmware", Priority: new(int32(20))},
		},
	}}
}

func TestCleaningPolicyValidation(t *testing.T) {
	const (
		expect  = "expect is required for the steps verify-inventory and erase and not allowed for any other"
		consent = "consent must be the name of this policy where a step erases drives, and absent where none does"
	)
	erases := func(change func(*v1alpha1.CleaningPolicy, *v1alpha1.CleaningStep)) func(*v1alpha1.CleaningPolicy) {
		return func(o *v1alpha1.CleaningPolicy) {
			o.Spec.Consent, o.Spec.When = o.Name, o.Spec.When[1:]
			s := &o.Spec.Steps[1]
			s.Name, s.Expect, s.Deadline, s.Arguments = "erase", o.Spec.Steps[0].Expect, "12h", []v1alpha1.StepArgument{{Name: "method", Value: "Crypto"}}
			change(o, s)
		}
	}
	step := func(change func(*v1alpha1.CleaningStep)) func(*v1alpha1.CleaningPolicy) {
		return func(o *v1alpha1.CleaningPolicy) { change(&o.Spec.Steps[1]) }
	}
	many := func(n int) func(*v1alpha1.CleaningPolicy) {
		return func(o *v1alpha1.CleaningPolicy) {
			o.Spec.Steps = nil
			for i := range n {
				o.Spec.Steps = append(o.Spec.Steps, v1alpha1.CleaningStep{Name: fmt.Sprint("test-", i), Priority: new(int32(i))})
			}
		}
	}
	checkCreate(t, validCleaning, []validation[*v1alpha1.CleaningPolicy]{
		{name: "a plain policy", change: func(*v1alpha1.CleaningPolicy) {}},
		{name: "no selector", change: func(o *v1alpha1.CleaningPolicy) { o.Spec.NodeSelector = nil }, field: "spec.nodeSelector", message: "Required"},
		{name: "a selector of every node", change: func(o *v1alpha1.CleaningPolicy) { o.Spec.NodeSelector = &metav1.LabelSelector{} },
			field: "spec.nodeSelector", message: "nodeSelector must not be empty: write what selects the nodes on purpose"},
		{name: "every node on purpose", change: func(o *v1alpha1.CleaningPolicy) {
			o.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: "Exists"}}}
		}},
		{name: "an unknown operator", change: func(o *v1alpha1.CleaningPolicy) {
			o.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Gt"}}
		}, field: "spec.nodeSelector", message: "operator must be In or NotIn, with values, or Exists or DoesNotExist, without"},
		{name: "never", change: func(o *v1alpha1.CleaningPolicy) { o.Spec.When = nil }, field: "spec.when", message: "Required"},
		{name: "at an unknown time", change: func(o *v1alpha1.CleaningPolicy) { o.Spec.When = []v1alpha1.CleaningTime{"Deprovision"} },
			field: "spec.when[0]", message: `supported values: "NewNode", "OutOfService"`},
		{name: "an unknown state", change: func(o *v1alpha1.CleaningPolicy) { o.Spec.State = "Off" }, field: "spec.state", message: `supported values: "Active", "Paused"`},
		{name: "no steps", change: many(0), field: "spec.steps", message: "Required"},
		{name: "32 steps", change: many(32)},
		{name: "33 steps", change: many(33), field: "spec.steps", message: "at most 32 items"},
		{name: "a step twice", change: step(func(s *v1alpha1.CleaningStep) { s.Name = "verify-inventory" }), field: "spec.steps[1]", message: "Duplicate value"},
		{name: "a step without a priority", change: step(func(s *v1alpha1.CleaningStep) { s.Priority = nil }), field: "spec.steps[1].priority", message: "Required"},
		{name: "a step that is off", change: step(func(s *v1alpha1.CleaningStep) { s.Priority = new(int32(0)) })},
		{name: "a priority too high", change: step(func(s *v1alpha1.CleaningStep) { s.Priority = new(int32(1001)) }), field: "spec.steps[1].priority", message: "less than or equal to 1000"},
		{name: "two steps of one priority", change: step(func(s *v1alpha1.CleaningStep) { s.Priority = new(int32(30)) }),
			field: "spec.steps", message: "two steps must not have the same priority; 0 switches a step off"},
		{name: "an inventory without what to expect", change: func(o *v1alpha1.CleaningPolicy) { o.Spec.Steps[0].Expect = nil }, field: "spec.steps[0].expect", message: expect},
		{name: "firmware with what to expect", change: func(o *v1alpha1.CleaningPolicy) { o.Spec.Steps[1].Expect = o.Spec.Steps[0].Expect },
			field: "spec.steps[1].expect", message: expect},
		{name: "an erasure", change: erases(func(*v1alpha1.CleaningPolicy, *v1alpha1.CleaningStep) {})},
		{name: "an erasure that nobody consented to", change: erases(func(o *v1alpha1.CleaningPolicy, _ *v1alpha1.CleaningStep) { o.Spec.Consent = "" }),
			field: "spec.consent", message: consent},
		{name: "an erasure by the consent to another policy", change: erases(func(o *v1alpha1.CleaningPolicy, _ *v1alpha1.CleaningStep) { o.Spec.Consent = "other" }),
			field: "spec.consent", message: consent},
		{name: "consent to nothing", change: func(o *v1alpha1.CleaningPolicy) { o.Spec.Consent = o.Name }, field: "spec.consent", message: consent},
		{name: "an erasure of new nodes", change: erases(func(o *v1alpha1.CleaningPolicy, _ *v1alpha1.CleaningStep) { o.Spec.When[0] = v1alpha1.CleaningNewNode }),
			field: "spec.when", message: "a policy that erases drives is for OutOfService alone: a node that registers again would lose its data"},
		{name: "an erasure of whatever there is", change: erases(func(_ *v1alpha1.CleaningPolicy, s *v1alpha1.CleaningStep) { s.Expect = nil }),
			field: "spec.steps[1].expect", message: expect},
		{name: "an erasure of nothing", change: erases(func(_ *v1alpha1.CleaningPolicy, s *v1alpha1.CleaningStep) {
			s.Expect = []v1alpha1.ExpectedDevices{{Selector: s.Expect[0].Selector, Count: new(int32(0))}}
		}), field: "spec.steps[1].expect", message: "erase is for drives: each class must be Disk, and each count more than 0"},
		{name: "an erasure of adapters", change: erases(func(_ *v1alpha1.CleaningPolicy, s *v1alpha1.CleaningStep) {
			s.Expect = []v1alpha1.ExpectedDevices{{Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, Count: new(int32(1))}}
		}), field: "spec.steps[1].expect", message: "erase is for drives: each class must be Disk, and each count more than 0"},
		{name: "an erasure by another method", change: erases(func(_ *v1alpha1.CleaningPolicy, s *v1alpha1.CleaningStep) { s.Arguments[0].Value = "Format" }),
			field: "spec.steps[1].arguments", message: "erase takes the argument method, which is Crypto, Block or Overwrite"},
		{name: "an erasure of a serial number", change: erases(func(_ *v1alpha1.CleaningPolicy, s *v1alpha1.CleaningStep) { s.Arguments[0].Name = "serialNumber" }),
			field: "spec.steps[1].arguments", message: "erase takes the argument method, which is Crypto, Block or Overwrite"},
		{name: "an argument for the inventory", change: func(o *v1alpha1.CleaningPolicy) {
			o.Spec.Steps[0].Arguments = []v1alpha1.StepArgument{{Name: "level", Value: "full"}}
		}, field: "spec.steps[0].arguments", message: "this step takes no arguments"},
		{name: "no time at all", change: step(func(s *v1alpha1.CleaningStep) { s.Deadline = "1s" }), field: "spec.steps[1].deadline", message: "deadline must be a duration from 1m to 168h, such as 12h"},
	})
}

func TestTimesOfAPolicy(t *testing.T) {
	p := validCleaning()
	assert.True(t, p.Runs(v1alpha1.CleaningNewNode))
	p.Spec.When = p.Spec.When[1:]
	assert.False(t, p.Runs(v1alpha1.CleaningNewNode))
}

// R003-31, R003-32: while steps run, the node does not return to service; while a failed one holds it, it may, on purpose.
func TestServiceOfANode(t *testing.T) {
	const (
		running = "steps run on the node; it may return to InService when they have ended: wait, or cancel their job"
		unclean = "the node is not clean; the condition Clean says why. To return it to InService as it is, set a new requests.release with it"
	)
	env := apitest.New(t)
	n := validNodeFirmware()
	n.Spec.Service, n.Spec.Requests.Release = v1alpha1.NodeOutOfService, "earlier"
	require.NoError(t, env.Client.Create(t.Context(), n))
	returns := func(service v1alpha1.NodeService, release string) error {
		back := n.DeepCopy()
		back.Spec.Service, back.Spec.Requests.Release = service, release
		return env.Client.Update(t.Context(), back, client.DryRunAll)
	}
	says := func(is metav1.ConditionStatus, reason string) {
		t.Helper()
		n.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionClean, is, reason, "Said.")}
		require.NoError(t, env.Client.Status().Update(t.Context(), n))
	}
	require.NoError(t, returns(v1alpha1.NodeInService, "earlier"), "nothing was begun")
	says(metav1.ConditionFalse, v1alpha1.ReasonProgressing)
	for _, service := range []v1alpha1.NodeService{v1alpha1.NodeInService, ""} {
		require.ErrorContains(t, returns(service, "as it is"), running)
	}
	require.NoError(t, returns(v1alpha1.NodeOutOfService, "as it is"), "anything else may change")
	says(metav1.ConditionFalse, v1alpha1.ReasonStepFailed)
	for _, release := range []string{"earlier", ""} {
		require.ErrorContains(t, returns(v1alpha1.NodeInService, release), unclean)
		require.ErrorContains(t, returns("", release), unclean)
	}
	require.NoError(t, returns(v1alpha1.NodeInService, "as it is"))
	says(metav1.ConditionUnknown, v1alpha1.ReasonPaused)
	require.NoError(t, returns(v1alpha1.NodeInService, "earlier"))
	says(metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	require.NoError(t, returns("", "earlier"))
	bad := n.DeepCopy()
	bad.Spec.Service = "Retired"
	require.ErrorContains(t, env.Client.Update(t.Context(), bad, client.DryRunAll), `supported values: "InService", "OutOfService"`)
}
