package template

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Trim is a cache transform for the operator. It drops what no reconciler reads and what makes up most of an object's
// size: the managed fields of every object, and the image and volume lists of a Node.
func Trim(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
	}
	if n, ok := o.(*corev1.Node); ok {
		n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached = nil, nil, nil
	}
	return o, nil
}
