package fieldset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// FieldOwnerRollout is the field manager of the status of RolloutPolicies, ledger and all.
const FieldOwnerRollout = v1alpha1.FieldOwnerOperator + "-rollout"

// ApplyRollout writes the status of a policy to the version of it that was read, and to no other: the ledger has one writer at a time.
// It fails with a conflict when the policy is in another version. The rollout controller of the operator does so.
func ApplyRollout(ctx context.Context, c client.Client, p *v1alpha1.RolloutPolicy) error {
	part := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}, Status: p.Status}
	return apply(ctx, c, FieldOwnerRollout, part, "status of rollout policy "+p.Name)
}

// EnsureDefaultPolicy makes the policy that takes every node no other one selects, as the API server's defaults have it. What a person
// wrote there stays. The label gives the operator a field to own: of an object without any field manager, the first apply to its status
// would make one that owns the defaults, and a person's apply would conflict.
func EnsureDefaultPolicy(ctx context.Context, c client.Client) error {
	body, err := Configuration(c, &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: v1alpha1.DefaultRolloutPolicy, Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldOwnerOperator},
	}})
	if err == nil {
		err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner(FieldOwnerRollout))
	}
	if err != nil {
		return fmt.Errorf("create rollout policy %s: %w", v1alpha1.DefaultRolloutPolicy, err)
	}
	return nil
}
