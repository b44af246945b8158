package fieldset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apply sends the part of a status that owner writes. Force is right because no other manager may own a field of it.
func apply(ctx context.Context, c client.Client, owner client.FieldOwner, body runtime.ApplyConfiguration) error {
	return c.Status().Apply(ctx, body, owner, client.ForceOwnership)
}

// configure fills an apply configuration with a status. Both have the same JSON, so that a field the status leaves out is
// absent from the request too.
func configure[C any](status any, into *C) (*C, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", status, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return nil, fmt.Errorf("decode %T: %w", into, err)
	}
	return into, nil
}

// conditions configures the conditions of the given types.
func conditions(all []metav1.Condition, types ...string) ([]*metav1ac.ConditionApplyConfiguration, error) {
	out, err := configure(only(all, types...), &[]*metav1ac.ConditionApplyConfiguration{})
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// only leaves the conditions of the given types.
func only(all []metav1.Condition, types ...string) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return !slices.Contains(types, c.Type) })
}
