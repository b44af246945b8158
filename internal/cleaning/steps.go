package cleaning

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// maxSteps bounds the steps of a FirmwareJob, as the API server does.
const maxSteps = 128

// Steps are those that the policy has for a node with these devices, in the order they run, as a FirmwareJob has them; those with the priority 0 are
// not among them. An erasure is one step for each drive that the policy names. The error says, for people, why there are none: nothing is erased
// where a person has not consented, or where the node has another number of such drives than the policy names.
func Steps(policy *v1alpha1.CleaningPolicy, devices []v1alpha1.NodeDevice) ([]v1alpha1.RequestedStep, error) {
	var out []v1alpha1.RequestedStep
	for _, s := range Enabled(policy) {
		if s.Name != string(plan.Erase) {
			out = append(out, v1alpha1.RequestedStep{Name: s.Name, Expect: s.Expect, Arguments: s.Arguments, Deadline: s.Deadline})
			continue
		}
		if policy.Spec.Consent != policy.Name {
			return nil, fmt.Errorf("it erases drives, and its spec.consent is %q instead of its own name", policy.Spec.Consent)
		}
		drives, err := drivesOf(s, devices)
		if err != nil {
			return nil, err
		}
		for _, d := range drives {
			named := v1alpha1.StepArgument{Name: plan.EraseSerialNumber, Value: d.Status.SerialNumber}
			out = append(out, v1alpha1.RequestedStep{Name: s.Name, Device: d.Name, Arguments: append([]v1alpha1.StepArgument{named}, s.Arguments...), Deadline: s.Deadline})
		}
	}
	if len(out) > maxSteps {
		return nil, fmt.Errorf("it has %d steps for this node, and at most %d fit into a job", len(out), maxSteps)
	}
	return out, nil
}

// Enabled are the steps of the policy itself, in the order they run, without their priorities.
func Enabled(policy *v1alpha1.CleaningPolicy) []v1alpha1.CleaningStep {
	steps := slices.DeleteFunc(slices.Clone(policy.Spec.Steps), func(s v1alpha1.CleaningStep) bool { return ptr.Deref(s.Priority, 0) == 0 })
	slices.SortStableFunc(steps, func(a, b v1alpha1.CleaningStep) int { return cmp.Compare(*b.Priority, *a.Priority) })
	for i := range steps {
		steps[i].Priority = nil
	}
	return steps
}

// drivesOf are the drives that the step names, in order of name.
func drivesOf(s v1alpha1.CleaningStep, devices []v1alpha1.NodeDevice) ([]v1alpha1.NodeDevice, error) {
	drives := map[string]v1alpha1.NodeDevice{}
	for i, e := range s.Expect {
		selector, n := match.NewSelector(e.Selector), int32(0)
		for _, d := range devices {
			if e.Selector.Class != v1alpha1.ClassDisk || !selector.Matches(match.DeviceOf(&d)) {
				continue
			}
			if n++; d.Status.SerialNumber == "" {
				return nil, fmt.Errorf("it names drive %s to erase, which has no serial number", d.Name)
			}
			drives[d.Name] = d
		}
		if want := ptr.Deref(e.Count, 0); n != want || n == 0 {
			return nil, fmt.Errorf("expect[%d] of its step %s names %d drives, and the node has %d such", i, s.Name, want, n)
		}
	}
	if len(drives) == 0 {
		return nil, fmt.Errorf("its step %s names no drive", s.Name)
	}
	return slices.SortedFunc(maps.Values(drives), func(a, b v1alpha1.NodeDevice) int { return cmp.Compare(a.Name, b.Name) }), nil
}
