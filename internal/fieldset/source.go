package fieldset

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	applyv1alpha1 "github.com/nodefirmware/node-firmware-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// FieldOwnerQuarantine is the field manager of what a FirmwareSource says about its quarantine. The operator has another
// one for what is in store, because an apply removes what its field manager wrote before and leaves out now.
const FieldOwnerQuarantine = v1alpha1.FieldOwnerOperator + "-quarantine"

// ApplyStore writes the status of a source without what concerns its quarantine. The source controller of the operator
// does so.
func ApplyStore(ctx context.Context, c client.Client, src *v1alpha1.FirmwareSource, s v1alpha1.FirmwareSourceStatus) error {
	s.Quarantine, s.Conditions = nil, only(s.Conditions, status.SourceConditions...)
	ac, err := configure(s, applyv1alpha1.FirmwareSourceStatus())
	body := applyv1alpha1.FirmwareSource(src.Name).WithStatus(ac)
	return apply(ctx, c, v1alpha1.FieldOwnerOperator, body, err, "store of firmware source "+src.Name)
}

// ApplyQuarantine writes status.quarantine and the condition Quarantined of a source. The quarantine controller of the
// operator does so. The entries follow from those that were there, so it fails with a conflict when the source is not in
// the version that was read.
func ApplyQuarantine(ctx context.Context, c client.Client, src *v1alpha1.FirmwareSource, s v1alpha1.FirmwareSourceStatus) error {
	s = v1alpha1.FirmwareSourceStatus{Quarantine: s.Quarantine, Conditions: only(s.Conditions, v1alpha1.ConditionQuarantined)}
	ac, err := configure(s, applyv1alpha1.FirmwareSourceStatus())
	body := applyv1alpha1.FirmwareSource(src.Name).WithUID(src.UID).WithResourceVersion(src.ResourceVersion).WithStatus(ac)
	return apply(ctx, c, FieldOwnerQuarantine, body, err, "quarantine of firmware source "+src.Name)
}
