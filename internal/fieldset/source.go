package fieldset

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// FieldOwnerSource is the field manager of the operator for sources.
const FieldOwnerSource = v1alpha1.FieldOwnerOperator + "-source"

// ApplyStore writes the status of a source. The source controller of the operator does so.
func ApplyStore(ctx context.Context, c client.Client, src *v1alpha1.FirmwareSource, s v1alpha1.FirmwareSourceStatus) error {
	s.Conditions = only(s.Conditions, status.SourceConditions...)
	return apply(ctx, c, FieldOwnerSource, &v1alpha1.FirmwareSource{ObjectMeta: named(src.Name), Status: s}, "store of firmware source "+src.Name)
}
