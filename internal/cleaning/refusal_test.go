package cleaning_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/cleaning"
)

// disks expects so many drives.
func disks(n int32) []v1alpha1.ExpectedDevices {
	return []v1alpha1.ExpectedDevices{{Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Vendor: "144d"}, Count: &n}}
}

// facts are a job of the operator that may run, and all that this depends on.
type facts struct {
	job      v1alpha1.FirmwareJob
	policy   *v1alpha1.CleaningPolicy
	node     *corev1.Node
	firmware *v1alpha1.NodeFirmware
	devices  []v1alpha1.NodeDevice
}

func newFacts() *facts {
	return &facts{
		job: v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{NodeName: "n1", Task: v1alpha1.JobTask{
			Type: v1alpha1.JobTypeSteps, CleaningPolicyRef: &v1alpha1.CleaningPolicyReference{Name: "storage"},
			Steps: []v1alpha1.RequestedStep{{Name: "verify-inventory", Expect: disks(8)}, {Name: "verify-firmware"}},
		}}},
		policy: &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: "storage"}, Spec: v1alpha1.CleaningPolicySpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "storage"}}, State: v1alpha1.CleaningActive,
			When: []v1alpha1.CleaningTime{v1alpha1.CleaningNewNode, v1alpha1.CleaningOutOfService},
			Steps: []v1alpha1.CleaningStep{
				{Name: "verify-firmware", Priority: new(int32(1))}, {Name: "reset-bios-settings", Priority: new(int32(0))},
				{Name: "verify-inventory", Priority: new(int32(10)), Expect: disks(8)},
			},
		}},
		node:     &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"pool": "storage"}}},
		firmware: &v1alpha1.NodeFirmware{Spec: v1alpha1.NodeFirmwareSpec{Service: v1alpha1.NodeOutOfService}},
	}
}

// erases has the policy erase the two drives of the vendor, and the job do so.
func (f *facts) erases() {
	for _, d := range []struct{ name, vendor string }{{"n1-disk-b", "144d"}, {"n1-disk-a", "144d"}, {"n1-disk-c", "1c5c"}} {
		o := v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: d.name}}
		o.Status.Class, o.Status.Vendor, o.Status.SerialNumber = v1alpha1.ClassDisk, d.vendor, strings.TrimPrefix(d.name, "n1-disk-")
		f.devices = append(f.devices, o)
	}
	f.policy.Spec.Consent, f.policy.Spec.When = "storage", []v1alpha1.CleaningTime{v1alpha1.CleaningOutOfService}
	method := v1alpha1.StepArgument{Name: "method", Value: "Block"}
	f.policy.Spec.Steps = []v1alpha1.CleaningStep{{
		Name: "erase", Priority: new(int32(5)), Expect: disks(2), Deadline: "12h", Arguments: []v1alpha1.StepArgument{method},
	}}
	f.job.Spec.Task.Steps = nil
	for _, serial := range []string{"a", "b"} {
		f.job.Spec.Task.Steps = append(f.job.Spec.Task.Steps, v1alpha1.RequestedStep{
			Name: "erase", Device: "n1-disk-" + serial, Deadline: "12h", Arguments: []v1alpha1.StepArgument{{Name: "serialNumber", Value: serial}, method},
		})
	}
}

func (f *facts) isNew() {
	f.firmware.Spec.Service = v1alpha1.NodeInService
	f.node.Spec.Taints = []corev1.Taint{{Key: v1alpha1.UnverifiedTaint, Effect: corev1.TaintEffectNoSchedule}}
}

// An operator that was taken over makes whatever job it likes, and writes no policy, no spec.service and no taint: steps run only where people
// said so, on a node that is new (R003-2) or that one of them took out of service.
func TestStepsRunOnlyWhereThePolicySaysSo(t *testing.T) {
	const nothing = "; nothing was done. "
	for name, c := range map[string]struct {
		change func(*facts)
		want   string
	}{
		"out of service":                       {},
		"new":                                  {change: (*facts).isNew},
		"new, and nothing else is known of it": {change: func(f *facts) { f.isNew(); f.firmware = nil }},
		"a state that nothing defaulted":       {change: func(f *facts) { f.policy.Spec.State = "" }},
		"no policy": {func(f *facts) { f.policy = nil }, `CleaningPolicy "storage", whose steps these are, does not exist` + nothing +
			"Create the policy again, or run the steps by a FirmwareJob of your own, without cleaningPolicyRef"},
		"a policy that goes": {func(f *facts) { f.policy.DeletionTimestamp = &metav1.Time{} }, `CleaningPolicy "storage", whose steps these are, is being deleted` + nothing +
			"Create the policy again, or run the steps by a FirmwareJob of your own, without cleaningPolicyRef"},
		"paused": {func(f *facts) { f.policy.Spec.State = v1alpha1.CleaningPaused }, `CleaningPolicy "storage" is Paused` + nothing +
			"Set its spec.state to Active to have its steps run"},
		"no node": {func(f *facts) { f.node = nil }, "there is no Node n1" + nothing + "Once the node is registered again, a new job can be made"},
		"of another pool": {func(f *facts) { f.node.Labels["pool"] = "gpu" }, `CleaningPolicy "storage" does not select node n1` + nothing +
			"Correct its spec.nodeSelector or the labels of the Node"},
		"a selector of every node": {func(f *facts) { f.policy.Spec.NodeSelector = &metav1.LabelSelector{} }, `CleaningPolicy "storage" does not select node n1` + nothing +
			"Correct its spec.nodeSelector or the labels of the Node"},
		"no selector": {func(f *facts) { f.policy.Spec.NodeSelector = nil }, `CleaningPolicy "storage" does not select node n1` + nothing +
			"Correct its spec.nodeSelector or the labels of the Node"},
		"a selector that is none": {func(f *facts) {
			f.policy.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
		}, `CleaningPolicy "storage" is invalid: spec.nodeSelector: "Near" is not a valid label selector operator` + nothing + "Correct it"},
		"a step more": {func(f *facts) {
			f.job.Spec.Task.Steps = append(f.job.Spec.Task.Steps, v1alpha1.RequestedStep{Name: "erase"})
		},
			`the steps of the job are not those of CleaningPolicy "storage": the job has verify-inventory, verify-firmware, erase, and the policy has ` +
				"verify-inventory, verify-firmware" + nothing + "A new job takes the steps that the policy has now"},
		"a step less": {func(f *facts) { f.job.Spec.Task.Steps = f.job.Spec.Task.Steps[1:] },
			`the steps of the job are not those of CleaningPolicy "storage": the job has verify-firmware, and the policy has verify-inventory, verify-firmware` +
				nothing + "A new job takes the steps that the policy has now"},
		"another order": {func(f *facts) { f.policy.Spec.Steps[0].Priority = new(int32(11)) },
			`the steps of the job are not those of CleaningPolicy "storage": the job has verify-inventory, verify-firmware, and the policy has ` +
				"verify-firmware, verify-inventory" + nothing + "A new job takes the steps that the policy has now"},
		"all switched off": {func(f *facts) {
			for i := range f.policy.Spec.Steps {
				f.policy.Spec.Steps[i].Priority = new(int32(0))
			}
		}, `the steps of the job are not those of CleaningPolicy "storage": the job has verify-inventory, verify-firmware, and the policy has none` +
			nothing + "A new job takes the steps that the policy has now"},
		"one device only": {func(f *facts) { f.job.Spec.Task.Steps[1].Device = "n1-disk" },
			`the steps of the job are not those of CleaningPolicy "storage": the job has verify-firmware for n1-disk, and the policy for every device` + nothing +
				"A new job takes the steps that the policy has now"},
		"another number": {func(f *facts) { f.job.Spec.Task.Steps[0].Expect = disks(7) },
			`the steps of the job are not those of CleaningPolicy "storage": the policy has other arguments, another deadline or other expected devices for verify-inventory` + nothing +
				"A new job takes the steps that the policy has now"},
		"nothing expected": {func(f *facts) { f.job.Spec.Task.Steps[0].Expect = nil },
			`the steps of the job are not those of CleaningPolicy "storage": the policy has other arguments, another deadline or other expected devices for verify-inventory` + nothing +
				"A new job takes the steps that the policy has now"},
		"another drive": {func(f *facts) { f.erases(); f.job.Spec.Task.Steps[0].Device = "n1-disk-c" },
			`the steps of the job are not those of CleaningPolicy "storage": the job has erase for n1-disk-c, and the policy for n1-disk-a` + nothing +
				"A new job takes the steps that the policy has now"},
		"another serial number": {func(f *facts) { f.erases(); f.job.Spec.Task.Steps[0].Arguments[0].Value = "c" },
			`the steps of the job are not those of CleaningPolicy "storage": the policy has other arguments, another deadline or other expected devices for erase` + nothing +
				"A new job takes the steps that the policy has now"},
		"a drive fewer by now": {func(f *facts) { f.erases(); f.devices = f.devices[1:] },
			`CleaningPolicy "storage" is not for the devices of this node: expect[0] of its step erase names 2 drives, and the node has 1 such` + nothing +
				"Correct it, or the devices of the node"},
		"consent that was taken back": {func(f *facts) { f.erases(); f.policy.Spec.Consent = "" },
			`CleaningPolicy "storage" is not for the devices of this node: it erases drives, and its spec.consent is "" instead of its own name` + nothing +
				"Correct it, or the devices of the node"},
		"drives": {change: (*facts).erases},
		"in service": {func(f *facts) { f.firmware.Spec.Service = v1alpha1.NodeInService },
			`the steps of CleaningPolicy "storage" are for a node that bears the taint nodefirmware.io/unverified or is OutOfService, and node n1 is not such` + nothing +
				"To have them run, set spec.service of NodeFirmware n1 to OutOfService"},
		"of a service that nobody set": {func(f *facts) { f.firmware = nil; f.policy.Spec.When = f.policy.Spec.When[1:] },
			`the steps of CleaningPolicy "storage" are for a node that is OutOfService, and node n1 is not such` + nothing +
				"To have them run, set spec.service of NodeFirmware n1 to OutOfService"},
		"new, and the policy is for the end": {func(f *facts) { f.isNew(); f.policy.Spec.When = f.policy.Spec.When[1:] },
			`the steps of CleaningPolicy "storage" are for a node that is OutOfService, and node n1 is not such` + nothing +
				"To have them run, set spec.service of NodeFirmware n1 to OutOfService"},
		"at its end, and the policy is for new ones": {func(f *facts) { f.policy.Spec.When = f.policy.Spec.When[:1] },
			`the steps of CleaningPolicy "storage" are for a node that bears the taint nodefirmware.io/unverified, and node n1 is not such` + nothing +
				"A node gets that taint when it registers; to run the steps now, make a FirmwareJob of your own, without cleaningPolicyRef"},
		"another taint": {func(f *facts) {
			f.isNew()
			f.node.Spec.Taints[0].Key = v1alpha1.OutOfServiceTaint
			f.policy.Spec.When = f.policy.Spec.When[:1]
		}, `the steps of CleaningPolicy "storage" are for a node that bears the taint nodefirmware.io/unverified, and node n1 is not such` + nothing +
			"A node gets that taint when it registers; to run the steps now, make a FirmwareJob of your own, without cleaningPolicyRef"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacts()
			if c.change != nil {
				c.change(f)
			}
			assert.Equal(t, c.want, cleaning.Refusal(&f.job, f.policy, f.node, f.firmware, f.devices))
		})
	}
}

func TestStepsOfAPolicyAreInOrder(t *testing.T) {
	f := newFacts()
	steps, err := cleaning.Steps(f.policy, nil)
	require.NoError(t, err)
	assert.Equal(t, f.job.Spec.Task.Steps, steps)
}

// R003-43: a policy erases the drives that it names, and none where the node is not as it says.
func TestAPolicyErasesTheDrivesThatItNames(t *testing.T) {
	f := newFacts()
	f.erases()
	verify := v1alpha1.CleaningStep{Name: "verify-firmware", Priority: new(int32(1))}
	f.policy.Spec.Steps = append(f.policy.Spec.Steps, verify)
	steps, err := cleaning.Steps(f.policy, f.devices)
	require.NoError(t, err)
	assert.Equal(t, append(f.job.Spec.Task.Steps, v1alpha1.RequestedStep{Name: "verify-firmware"}), steps)
	erase := &f.policy.Spec.Steps[0]
	erase.Expect = append(disks(2), v1alpha1.ExpectedDevices{Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Vendor: "any", SerialNumbers: []string{"a"}}, Count: new(int32(1))})
	steps, err = cleaning.Steps(f.policy, f.devices)
	require.NoError(t, err)
	assert.Len(t, steps, 3, "a drive that two selectors select is erased once")

	for want, change := range map[string]func(*facts){
		"expect[0] of its step erase names 3 drives, and the node has 2 such":       func(f *facts) { f.policy.Spec.Steps[0].Expect = disks(3) },
		"expect[0] of its step erase names 2 drives, and the node has 0 such":       func(f *facts) { f.devices = nil },
		"expect[0] of its step erase names 0 drives, and the node has 0 such":       func(f *facts) { f.devices, f.policy.Spec.Steps[0].Expect = nil, disks(0) },
		"it names drive n1-disk-b to erase, which has no serial number":             func(f *facts) { f.devices[0].Status.SerialNumber = "" },
		"its step erase names no drive":                                             func(f *facts) { f.policy.Spec.Steps[0].Expect = nil },
		`it erases drives, and its spec.consent is "other" instead of its own name`: func(f *facts) { f.policy.Spec.Consent = "other" },
		"it has 200 steps for this node, and at most 128 fit into a job": func(f *facts) {
			f.devices, f.policy.Spec.Steps[0].Expect = nil, disks(200)
			for i := range 200 {
				o := v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("d", i)}}
				o.Status.Class, o.Status.Vendor, o.Status.SerialNumber = v1alpha1.ClassDisk, "144d", fmt.Sprint(i)
				f.devices = append(f.devices, o)
			}
		},
	} {
		f := newFacts()
		f.erases()
		change(f)
		steps, err := cleaning.Steps(f.policy, f.devices)
		require.EqualError(t, err, want)
		assert.Empty(t, steps)
	}
}
