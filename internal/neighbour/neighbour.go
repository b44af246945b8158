package neighbour

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Sign is what somebody leaves on a Node while they have it. A cordon is none: it does not say whose it is.
type Sign struct {
	// Who it is, and What was left, for people.
	Who, What string
}

func (s Sign) String() string { return fmt.Sprintf("%s (%s)", s.Who, s.What) }

// annotations, taints and upgrading are what is looked for. A taint of a product whose key ends with a slash stands for all its keys.
// Taints of a node-readiness-controller are none of them: a rule about the firmware of a node would keep it from the very update
// that removes the taint.
var (
	annotations = []struct{ key, who string }{{"weave.works/kured-reboot-in-progress", "kured"}}
	taints      = []struct{ key, who string }{
		{"medik8s.io/", "medik8s"}, {"remediation.medik8s.io/", "medik8s"},
		{"ToBeDeletedByClusterAutoscaler", "the cluster-autoscaler"}, {"karpenter.sh/disrupted", "Karpenter"},
		{"node.kubernetes.io/out-of-service", "who declared it out of service"},
		{"node.cloudprovider.kubernetes.io/shutdown", "the cloud provider"},
	}
	upgrading = []string{
		"cordon-required", "wait-for-jobs-required", "pod-deletion-required", "drain-required", "pod-restart-required", "validation-required",
		"uncordon-required",
	}
)

// upgradePrefix and upgradeSuffix are around the name of the driver in the label by which the operators of NVIDIA upgrade one.
const upgradePrefix, upgradeSuffix = "nvidia.com/", "-driver-upgrade-state"

const upgrade = "the driver upgrade of an NVIDIA operator"

// Signs are those of everybody who has the Node.
func Signs(n *corev1.Node) []Sign {
	var out []Sign
	for _, a := range annotations {
		if _, is := n.Annotations[a.key]; is {
			out = append(out, Sign{a.who, "annotation " + a.key})
		}
	}
	for _, t := range n.Spec.Taints {
		if who := taintOf(t); who != "" {
			out = append(out, Sign{who, "taint " + t.Key})
		}
	}
	var labels []Sign
	for key, value := range n.Labels {
		if strings.HasPrefix(key, upgradePrefix) && strings.HasSuffix(key, upgradeSuffix) && slices.Contains(upgrading, value) {
			labels = append(labels, Sign{upgrade, fmt.Sprintf("label %s=%s", key, value)})
		}
	}
	slices.SortFunc(labels, func(a, b Sign) int { return strings.Compare(a.What, b.What) })
	return append(out, labels...)
}

func taintOf(t corev1.Taint) string {
	for _, known := range taints {
		if t.Key == known.key || strings.HasSuffix(known.key, "/") && strings.HasPrefix(t.Key, known.key) {
			return known.who
		}
	}
	return ""
}

// isOurs reports whether a taint is the product's own, which is nobody's sign.
func isOurs(t corev1.Taint) bool {
	return t.Key == v1alpha1.UnverifiedTaint || t.Key == v1alpha1.OutOfServiceTaint
}

// Trim removes the annotations and taints that nothing in this package looks at.
func Trim(n *corev1.Node) {
	kept := map[string]string{}
	for key, value := range n.Annotations {
		isSign := slices.ContainsFunc(annotations, func(a struct{ key, who string }) bool { return a.key == key })
		if isSign || key == v1alpha1.UpdateWhileCordonedAnnotation || key == v1alpha1.CordonedAnnotation || key == v1alpha1.CleaningAnnotation {
			kept[key] = value
		}
	}
	n.Annotations = kept
	if len(kept) == 0 {
		n.Annotations = nil
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return taintOf(t) == "" && !isOurs(t) })
}

// Has says in a sentence for people who else has the Node by their own signs; empty for nobody.
func Has(n *corev1.Node) string {
	signs := Signs(n)
	if len(signs) == 0 {
		return ""
	}
	return fmt.Sprintf("Somebody else has node %s: %s. Nothing is done to it until that ends.", n.Name, Names(signs))
}

// MayShare reports whether all who have the Node can have it by a NodeMaintenance, which the product shares: the operators of NVIDIA, who say
// so on the Node as well.
func MayShare(n *corev1.Node) bool {
	return !slices.ContainsFunc(Signs(n), func(s Sign) bool { return s.Who != upgrade })
}

// Keeps says in a sentence for people who else has a Node that the product has cordoned, and what that means for its return; empty for nobody.
// Others are signs that are not left on the Node.
func Keeps(n *corev1.Node, others ...Sign) string {
	signs := slices.Concat(Signs(n), others)
	if len(signs) == 0 {
		return ""
	}
	return fmt.Sprintf("%s has the node too: after the job it stays cordoned until that ends, or until you run: kubectl uncordon %s", Names(signs), n.Name)
}

// Names lists who left signs.
func Names(signs []Sign) string {
	var out []string
	for _, s := range signs {
		out = append(out, s.String())
	}
	return strings.Join(out, ", ")
}

// Somebody is who may have done to the Node what leaves no trace: those who have it, or nobody that is known.
func Somebody(n *corev1.Node) string {
	if signs := Signs(n); len(signs) > 0 {
		return Names(signs) + " or somebody else"
	}
	return "somebody"
}

// Cordoned says for people that the Node is cordoned and how they let it be updated; empty where it is not, or where they do let it.
// Whether the cordon is the product's the caller knows.
func Cordoned(n *corev1.Node) string {
	if !n.Spec.Unschedulable || n.Annotations[v1alpha1.UpdateWhileCordonedAnnotation] == "true" {
		return ""
	}
	return fmt.Sprintf("Node %s is cordoned, and not by this product. To have it updated, run: kubectl uncordon %s  To have it updated as it is: "+
		"kubectl annotate node %s %s=true", n.Name, n.Name, n.Name, v1alpha1.UpdateWhileCordonedAnnotation)
}

// CordonedBy are the field managers that made the Node unschedulable, in order; empty for a Node that is not, and where the API server does
// not say it. Who uncordons a Node and cordons it again is named in place of who cordoned it first. A kubectl cordon of a Node that is
// cordoned already changes nothing in the API, so it goes unnoticed.
func CordonedBy(n *corev1.Node) []string {
	var out []string
	for _, m := range n.ManagedFields {
		if m.FieldsV1 == nil || !n.Spec.Unschedulable {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue // who it was is not known then
		}
		if _, cordons := fields.Spec["f:unschedulable"]; cordons {
			out = append(out, m.Manager)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
