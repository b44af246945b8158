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

// apply sends the part of a status that owner writes, unless it could not be configured. Force is right because no other
// manager may own a field of it. What names the part and the object in errors.
func apply(ctx context.Context, c client.Client, owner client.FieldOwner, body runtime.ApplyConfiguration, configured error, what string) error {
	err := configured
	if err == nil {
		err = c.Status().Apply(ctx, body, owner, client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", what, err)
	}
	return nil
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

func conditions(all []metav1.Condition, types ...string) ([]*metav1ac.ConditionApplyConfiguration, error) {
	out, err := configure(only(all, types...), &[]*metav1ac.ConditionApplyConfiguration{})
	if err != nil {
		return nil, err
	}
	return *out, nil
}

func only(all []metav1.Condition, types ...string) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return !slices.Contains(types, c.Type) })
}
