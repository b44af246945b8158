package maintenance

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// fieldOwner is the field manager of the operator's cordons.
const fieldOwner = v1alpha1.FieldOwnerOperator + "-maintenance"

// isOurs reports whether the cordon of a Node is the operator's: the annotation says so, and the API server does not name somebody
// else who made the Node unschedulable. It does where a person uncordoned the Node and cordoned it again, or applies a manifest that
// cordons it. A kubectl cordon of a Node that is cordoned already changes nothing in the API, so it goes unnoticed: to keep
// such a Node cordoned, remove the annotation.
func isOurs(n *corev1.Node) bool {
	if _, marked := n.Annotations[v1alpha1.CordonedAnnotation]; !marked {
		return false
	}
	for _, m := range n.ManagedFields {
		if m.Manager == fieldOwner || m.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue // the annotation alone is known then
		}
		if _, cordons := fields.Spec["f:unschedulable"]; cordons {
			return false
		}
	}
	return true
}
