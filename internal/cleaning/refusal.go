package cleaning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Refusal says why the steps of a job that names a CleaningPolicy must not run, that nothing was done, and what to do; empty where they may.
// Policy, node and firmware are nil where there is none, and devices are those of the node. The daemon asks before the first step: an operator that was taken over makes any job, but
// it can write none of what is decided by here, the policy, the node's spec.service and the taint of a new node.
func Refusal(job *v1alpha1.FirmwareJob, policy *v1alpha1.CleaningPolicy, node *corev1.Node, firmware *v1alpha1.NodeFirmware, devices []v1alpha1.NodeDevice) string {
	name := fmt.Sprintf("CleaningPolicy %q", job.Spec.Task.CleaningPolicyRef.Name)
	refuse := func(todo, format string, args ...any) string {
		return fmt.Sprintf(format, args...) + "; nothing was done. " + todo
	}
	const another = "Create the policy again, or run the steps by a FirmwareJob of your own, without cleaningPolicyRef"
	switch {
	case policy == nil:
		return refuse(another, "%s, whose steps these are, does not exist", name)
	case policy.DeletionTimestamp != nil:
		return refuse(another, "%s, whose steps these are, is being deleted", name)
	case cmp.Or(policy.Spec.State, v1alpha1.CleaningActive) != v1alpha1.CleaningActive:
		return refuse("Set its spec.state to Active to have its steps run", "%s is %s", name, policy.Spec.State)
	case node == nil:
		return refuse("Once the node is registered again, a new job can be made", "there is no Node %s", job.Spec.NodeName)
	}
	switch selector, err := Selector(policy); {
	case err != nil:
		return refuse("Correct it", "%s is invalid: %v", name, err)
	case !selector.Matches(labels.Set(node.Labels)):
		return refuse("Correct its spec.nodeSelector or the labels of the Node", "%s does not select node %s", name, node.Name)
	}
	now, err := Steps(policy, devices)
	if err != nil {
		return refuse("Correct it, or the devices of the node", "%s is not for the devices of this node: %v", name, err)
	}
	if why := differs(job.Spec.Task.Steps, now); why != "" {
		return refuse("A new job takes the steps that the policy has now", "the steps of the job are not those of %s: %s", name, why)
	}
	if !slices.ContainsFunc(policy.Spec.When, func(t v1alpha1.CleaningTime) bool { return isTime(t, node, firmware) }) {
		todo := fmt.Sprintf("To have them run, set spec.service of NodeFirmware %s to %s", node.Name, v1alpha1.NodeOutOfService)
		if !policy.Runs(v1alpha1.CleaningOutOfService) {
			todo = "A node gets that taint when it registers; to run the steps now, make a FirmwareJob of your own, without cleaningPolicyRef"
		}
		return refuse(todo, "the steps of %s are for a node that %s, and node %s is not such", name, times(policy), node.Name)
	}
	return ""
}

// Selector selects the nodes that the policy is for. One without a selector is for none, and so is one whose selector is invalid: the error says
// how.
func Selector(policy *v1alpha1.CleaningPolicy) (labels.Selector, error) {
	by := policy.Spec.NodeSelector
	if by == nil || len(by.MatchLabels)+len(by.MatchExpressions) == 0 {
		return labels.Nothing(), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("spec.nodeSelector: %w", err)
	}
	return selector, nil
}

// isTime reports whether it is that time for the node.
func isTime(t v1alpha1.CleaningTime, node *corev1.Node, firmware *v1alpha1.NodeFirmware) bool {
	switch t {
	case v1alpha1.CleaningNewNode:
		return isNew(node)
	case v1alpha1.CleaningOutOfService:
		return firmware != nil && firmware.Spec.Service == v1alpha1.NodeOutOfService
	}
	return false
}

// isNew reports whether the node bears the taint of a node that is to be proven first.
func isNew(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.UnverifiedTaint })
}

// times says which nodes the policy runs its steps on, for people.
func times(policy *v1alpha1.CleaningPolicy) string {
	var out []string
	for _, t := range policy.Spec.When {
		switch t {
		case v1alpha1.CleaningNewNode:
			out = append(out, "bears the taint "+v1alpha1.UnverifiedTaint)
		case v1alpha1.CleaningOutOfService:
			out = append(out, "is "+string(v1alpha1.NodeOutOfService))
		}
	}
	return strings.Join(out, " or ")
}

// every is what a step without a device is for.
const every = "every device"

// differs says how the steps of a job differ from those that the policy has now; empty where they do not.
func differs(job, now []v1alpha1.RequestedStep) string {
	same := func(a, b v1alpha1.RequestedStep) bool { return a.Name == b.Name }
	if !slices.EqualFunc(job, now, same) {
		return fmt.Sprintf("the job has %s, and the policy has %s", list(job), list(now))
	}
	for i := range job {
		switch {
		case job[i].Device != now[i].Device:
			return fmt.Sprintf("the job has %s for %s, and the policy for %s", job[i].Name, cmp.Or(job[i].Device, every), cmp.Or(now[i].Device, every))
		case !equality.Semantic.DeepEqual(job[i], now[i]):
			return "the policy has other arguments, another deadline or other expected devices for " + job[i].Name
		}
	}
	return ""
}

// list names the steps in their order.
func list(steps []v1alpha1.RequestedStep) string {
	if len(steps) == 0 {
		return "none"
	}
	var names []string
	for _, s := range steps {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}
