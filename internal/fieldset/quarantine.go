package fieldset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// FieldOwnerQuarantine is the field manager of the operator for quarantines.
const FieldOwnerQuarantine = v1alpha1.FieldOwnerOperator + "-quarantine"

// CreateQuarantine creates the quarantine of an image and a model with these alone, so that a person owns the state. It changes nothing
// of one that exists.
func CreateQuarantine(ctx context.Context, c client.Client, d v1alpha1.Digest, model string) error {
	name := v1alpha1.QuarantineName(d, model)
	body, err := Configuration(c, &v1alpha1.FirmwareQuarantine{ObjectMeta: named(name), Spec: v1alpha1.FirmwareQuarantineSpec{Digest: d, Model: model}})
	if err == nil {
		err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner(FieldOwnerQuarantine))
	}
	if err != nil {
		return fmt.Errorf("create firmware quarantine %s: %w", name, err)
	}
	return nil
}

// ApplyQuarantine writes the status of a quarantine. The quarantine controller of the operator does so. The status follows from the one
// that was there, so it fails with a conflict when the quarantine is not in the version that was read.
func ApplyQuarantine(ctx context.Context, c client.Client, q *v1alpha1.FirmwareQuarantine) error {
	part := &v1alpha1.FirmwareQuarantine{ObjectMeta: metav1.ObjectMeta{Name: q.Name, UID: q.UID, ResourceVersion: q.ResourceVersion}, Status: q.Status}
	part.Status.Conditions = only(q.Status.Conditions, status.QuarantineConditions...)
	return apply(ctx, c, FieldOwnerQuarantine, part, "status of firmware quarantine "+q.Name)
}
