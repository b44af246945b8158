package fieldset

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// FieldOwnerQuarantine is the field manager of what a FirmwareSource says about its quarantine. The operator has another
// one for what is in store, because an apply removes what its field manager wrote before and leaves out now.
const FieldOwnerQuarantine = v1alpha1.FieldOwnerOperator + "-quarantine"

// ApplyStore writes the status of a source without what concerns its quarantine. The source controller of the operator
// does so.
func ApplyStore(ctx context.Context, c client.Client, src *v1alpha1.FirmwareSource, s v1alpha1.FirmwareSourceStatus) error {
	s.Quarantine, s.Conditions = nil, only(s.Conditions, status.SourceConditions...)
	return apply(ctx, c, v1alpha1.FieldOwnerOperator, &v1alpha1.FirmwareSource{ObjectMeta: named(src.Name), Status: s}, "store of firmware source "+src.Name)
}

// ApplyQuarantine writes status.quarantine and the condition Quarantined of a source. The quarantine controller of the
// operator does so. The entries follow from those that were there, so it fails with a conflict when the source is not in
// the version that was read.
func ApplyQuarantine(ctx context.Context, c client.Client, src *v1alpha1.FirmwareSource, s v1alpha1.FirmwareSourceStatus) error {
	part := &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: src.Name, UID: src.UID, ResourceVersion: src.ResourceVersion},
		Status:     v1alpha1.FirmwareSourceStatus{Quarantine: s.Quarantine, Conditions: only(s.Conditions, v1alpha1.ConditionQuarantined)},
	}
	return apply(ctx, c, FieldOwnerQuarantine, part, "quarantine of firmware source "+src.Name)
}
