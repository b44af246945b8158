package job_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/cleaning"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// cleaned is a daemon whose node a policy cleans.
type cleaned struct {
	*daemon
	policy   *v1alpha1.CleaningPolicy
	node     *corev1.Node
	firmware *v1alpha1.NodeFirmware
	// finds is what a step finds wrong; empty where it finds nothing. Ran counts them.
	finds string
	ran   int
}

// Check implements engine.Tasks.
func (*cleaned) Check(context.Context, step.Step, journal.Update) *step.Failure { return nil }

// Run implements engine.Tasks.
func (c *cleaned) Run(_ context.Context, s step.Step, _ journal.RequestedStep, _ journal.Update) (*step.Returned, *engine.Underway) {
	c.ran++
	assert.Equal(c.T, step.MaintenanceReady, c.Window.Phase)
	if c.finds != "" {
		return &step.Returned{Failure: &step.Failure{Reason: step.StepFailed, Step: s.Kind, Message: c.finds}}, nil
	}
	return &step.Returned{Message: "as expected"}, nil
}

func newCleaned(t *testing.T) *cleaned {
	t.Helper()
	c := &cleaned{
		daemon: newDaemon(t),
		policy: &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: "storage"}, Spec: v1alpha1.CleaningPolicySpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "storage"}}, State: v1alpha1.CleaningActive,
			When: []v1alpha1.CleaningTime{v1alpha1.CleaningNewNode, v1alpha1.CleaningOutOfService},
			Steps: []v1alpha1.CleaningStep{{Name: "verify-firmware", Priority: new(int32(10))}, {
				Name: "verify-inventory", Priority: new(int32(20)),
				Expect: []v1alpha1.ExpectedDevices{{Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Vendor: "144d"}, Count: new(int32(1))}},
			}},
		}},
		node:     &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{"pool": "storage"}}},
		firmware: &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: v1alpha1.NodeFirmwareSpec{Service: v1alpha1.NodeOutOfService}},
	}
	c.Tasks = c
	c.Engine = c.NewEngine(c.journal)
	c.r.Engine, c.r.Catalog = c.Engine, plan.DefaultCatalog()
	c.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	c.device(c.Job("d", c.IDs...).Updates[0])
	for _, o := range []client.Object{c.policy, c.node, c.firmware} {
		require.NoError(t, c.env.Client.Create(t.Context(), o))
	}
	return c
}

// change is what somebody does to an object after the job was made.
func (c *cleaned) change(o client.Object, edit func()) {
	c.T.Helper()
	require.NoError(c.T, c.env.Client.Get(c.T.Context(), client.ObjectKeyFromObject(o), o))
	edit()
	require.NoError(c.T, c.env.Client.Update(c.T.Context(), o))
}

// plan makes the job of the operator, with the steps as the policy has them now.
func (c *cleaned) plan(name string) {
	c.T.Helper()
	var devices v1alpha1.NodeDeviceList
	require.NoError(c.T, c.env.Client.List(c.T.Context(), &devices))
	steps, err := cleaning.Steps(c.policy, devices.Items)
	require.NoError(c.T, err)
	require.NoError(c.T, c.env.Client.Create(c.T.Context(), &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: nodeName, Task: v1alpha1.JobTask{
			Type: v1alpha1.JobTypeSteps, Steps: steps, HealthyFor: "0s",
			CleaningPolicyRef: &v1alpha1.CleaningPolicyReference{Name: c.policy.Name},
		},
	}}))
	c.admit(name)
}

func (c *cleaned) inService() { c.firmware.Spec.Service = v1alpha1.NodeInService }
func (c *cleaned) unverified() {
	c.node.Spec.Taints = append(c.node.Spec.Taints, corev1.Taint{Key: v1alpha1.UnverifiedTaint, Effect: corev1.TaintEffectNoSchedule})
}

// The steps of a policy run on a node that is new (R003-2), and at the end of its service (R003-37): out of service, and it is returned.
func TestStepsOfAPolicyRunOnANewNodeAndAtTheEndOfService(t *testing.T) {
	for name, when := range map[string]func(*cleaned){
		"the end of service": func(*cleaned) {},
		"a new node":         func(c *cleaned) { c.change(c.firmware, c.inService); c.change(c.node, c.unverified) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCleaned(t)
			when(c)
			c.plan("j")
			require.NoError(t, c.reconcile("j"))
			got := c.get("j")
			var order []string
			for _, s := range got.Status.Steps {
				order = append(order, s.Name)
			}
			assert.Equal(t, []string{"preflight", "maintenance", "verify-inventory", "verify-firmware", "reboot", "health", "release"}, order)

			got = c.runs("j")
			require.True(t, meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionComplete), "%+v", got.Status)
			assert.Equal(t, "Every step was run.", condition(got, v1alpha1.ConditionReady).Message)
			assert.Equal(t, 2, c.ran)
			assert.Equal(t, 1, c.Window.Scheduled)
			assert.Equal(t, 1, c.Window.Released)
		})
	}
}

// R003-25: a step that fails holds the node with its error, until a person releases it.
func TestFailedStepOfAPolicyHoldsTheNode(t *testing.T) {
	c := newCleaned(t)
	c.finds = "1 of 2 drives is missing"
	c.plan("j")
	got := c.runs("j")
	require.True(t, got.Held(), "%+v", got.Status)
	held := condition(got, v1alpha1.ConditionHeld)
	assert.Equal(t, v1alpha1.ReasonStepFailed, held.Reason)
	assert.Equal(t, "Step verify-inventory failed: 1 of 2 drives is missing.", condition(got, v1alpha1.ConditionFailed).Message)
	assert.Contains(t, held.Message, "Node n1 stays out of service. Fix the cause.")
	assert.Empty(t, got.Status.Blamed, "it says nothing about an image")
	require.NoError(t, c.reconcile("j"))
	assert.Zero(t, c.Window.Released)

	c.change(c.firmware, func() { c.firmware.Spec.Requests.Release = "as it is" })
	got = c.runs("j")
	assert.False(t, got.Held())
	assert.Equal(t, 1, c.Window.Released)
}

// A job is believed only as far as people say the same when it is to begin, whatever they said when it was made. A new job may run then.
func TestStepsOfAPolicyThatChangedAreRefused(t *testing.T) {
	c := newCleaned(t)
	n := 0
	for says, edit := range map[string]struct{ change, back func() }{
		"the policy has other arguments, another deadline or other expected devices for verify-inventory": {
			func() { c.change(c.policy, func() { c.policy.Spec.Steps[1].Expect[0].Count = new(int32(2)) }) }, func() {},
		},
		"the job has verify-inventory, verify-firmware, and the policy has verify-firmware, verify-inventory": {
			func() { c.change(c.policy, func() { c.policy.Spec.Steps[0].Priority = new(int32(30)) }) },
			func() { c.change(c.policy, func() { c.policy.Spec.Steps[0].Priority = new(int32(10)) }) },
		},
		`CleaningPolicy "storage" is Paused`: {
			func() { c.change(c.policy, func() { c.policy.Spec.State = v1alpha1.CleaningPaused }) },
			func() { c.change(c.policy, func() { c.policy.Spec.State = v1alpha1.CleaningActive }) },
		},
		`CleaningPolicy "storage" does not select node n1`: {
			func() { c.change(c.node, func() { c.node.Labels["pool"] = "gpu" }) },
			func() { c.change(c.node, func() { c.node.Labels["pool"] = "storage" }) },
		},
		"are for a node that bears the taint nodefirmware.io/unverified or is OutOfService, and node n1 is not such": {
			func() { c.change(c.firmware, c.inService) },
			func() { c.change(c.firmware, func() { c.firmware.Spec.Service = v1alpha1.NodeOutOfService }) },
		},
		"are for a node that bears the taint nodefirmware.io/unverified, and node n1 is not such": {
			func() {
				c.change(c.node, c.unverified)
				c.change(c.policy, func() { c.policy.Spec.When = c.policy.Spec.When[:1] })
				c.change(c.node, func() { c.node.Spec.Taints = nil })
			},
			func() {
				c.change(c.policy, func() { c.policy.Spec.When = append(c.policy.Spec.When, v1alpha1.CleaningOutOfService) })
			},
		},
	} {
		t.Run(says, func(t *testing.T) {
			n++
			name := fmt.Sprint("j", n)
			c.plan(name)
			edit.change()
			c.requireRefused(name, v1alpha1.ReasonJobRejected)
			message := condition(c.get(name), v1alpha1.ConditionFailed).Message
			assert.Contains(t, message, says)
			assert.Contains(t, message, "; nothing was done. ")
			assert.Zero(t, c.ran)
			assert.Zero(t, c.Window.Scheduled)
			edit.back()
		})
	}
	c.plan("again")
	assert.True(t, meta.IsStatusConditionTrue(c.runs("again").Status.Conditions, v1alpha1.ConditionComplete))

	c.plan("orphan")
	require.NoError(t, c.env.Client.Delete(t.Context(), c.policy))
	c.requireRefused("orphan", v1alpha1.ReasonJobRejected)
	assert.Contains(t, condition(c.get("orphan"), v1alpha1.ConditionFailed).Message, "does not exist")
}

// R003-43: who deletes the NodeDevice of a drive makes a policy name another one, or one less. While the node has drives without, nothing is erased.
func TestPolicyErasesNothingWhileADriveHasNoObject(t *testing.T) {
	c := newCleaned(t)
	first, second := c.Job("d", c.IDs...).Updates[0], c.Add(inventory.Disk, "disk1", inventory.ActivateNone)
	c.serial(first.Device, "S1")
	c.change(c.policy, func() {
		c.policy.Spec.Consent, c.policy.Spec.When = c.policy.Name, c.policy.Spec.When[1:]
		c.policy.Spec.Steps = []v1alpha1.CleaningStep{{Name: "erase", Priority: new(int32(1)), Expect: []v1alpha1.ExpectedDevices{{
			Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Vendor: v1alpha1.AnyVendor}, Count: new(int32(1)),
		}}}}
	})
	c.plan("j")
	c.requireRefused("j", v1alpha1.ReasonJobRejected)
	assert.Contains(t, condition(c.get("j"), v1alpha1.ConditionFailed).Message, "nothing was erased: this node has drives without a NodeDevice, so that it cannot be "+
		"told whether its policy names the right ones: disk1. The daemon makes them at its next scan; then request a retry")
	assert.Zero(t, c.ran)

	c.device(c.Job("d", second).Updates[0])
	c.change(c.policy, func() { c.policy.Spec.Steps[0].Expect[0].Count = new(int32(2)) })
	c.serial(c.Job("d", second).Updates[0].Device, "S2")
	c.plan("k")
	assert.True(t, meta.IsStatusConditionTrue(c.runs("k").Status.Conditions, v1alpha1.ConditionComplete))
	assert.Equal(t, 2, c.ran)
}

// serial is what the drive says of itself.
func (c *cleaned) serial(device, number string) {
	c.T.Helper()
	d := &v1alpha1.NodeDevice{}
	require.NoError(c.T, c.env.Client.Get(c.T.Context(), client.ObjectKey{Name: device}, d))
	d.Status.SerialNumber, d.Status.Vendor = number, "Samsung"
	require.NoError(c.T, c.env.Client.Status().Update(c.T.Context(), d))
}

// Without an answer the steps wait, and are not refused. A person's steps ask nobody.
func TestStepsOfAPolicyWaitForTheAnswerOfTheAPIServer(t *testing.T) {
	c := newCleaned(t)
	p := &people{Reader: c.env.Client, err: errors.New("no route to host")}
	c.r.Reader = p
	c.plan("j")
	require.ErrorContains(t, c.reconcile("j"), "no route to host")
	assert.Nil(t, condition(c.get("j"), v1alpha1.ConditionFailed))
	assert.Nil(t, c.get("j").Status.StartTime)
	p.reads, p.err = 0, nil
	assert.True(t, meta.IsStatusConditionTrue(c.runs("j").Status.Conditions, v1alpha1.ConditionComplete))
	require.NoError(t, c.reconcile("j"))
	assert.Equal(t, 3, p.reads, "the policy, the Node and its NodeFirmware, once")
}
