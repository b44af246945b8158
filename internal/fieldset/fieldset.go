package fieldset

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apply sends the part of a status that owner writes. The object has that part alone, and the uid and version that the write depends
// on; the version is the one it left afterwards. Force is right because no other manager may own a field of it. What names the part and
// the object in errors. Where fields are named, nothing but these is sent: the JSON of some statuses has a count though it is zero.
func apply(ctx context.Context, c client.Client, owner client.FieldOwner, part client.Object, what string, fields ...string) error {
	body, err := Configuration(c, part)
	if err == nil {
		if s, ok := body.Object["status"].(map[string]any); ok && len(fields) > 0 {
			maps.DeleteFunc(s, func(field string, _ any) bool { return !slices.Contains(fields, field) })
		}
		err = c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(body), owner, client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", what, err)
	}
	part.SetResourceVersion(body.GetResourceVersion())
	return nil
}

// Configuration is what a server-side apply sends for an object that has only the fields its manager owns: the fields that its JSON has.
func Configuration(c client.Client, o client.Object) (*unstructured.Unstructured, error) {
	kind, err := c.GroupVersionKindFor(o)
	if err != nil {
		return nil, fmt.Errorf("find kind of %T: %w", o, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", o, err)
	}
	body := &unstructured.Unstructured{Object: fields}
	body.SetGroupVersionKind(kind)
	return body, nil
}

func only(all []metav1.Condition, types ...string) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return !slices.Contains(types, c.Type) })
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
