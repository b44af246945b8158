package fieldset

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// FieldOwnerProvenance is the field manager of what a NodeFirmware says about obsolete references.
const FieldOwnerProvenance = v1alpha1.FieldOwnerOperator + "-provenance"

// ApplyProvenance writes status.obsolete and the condition Current of a NodeFirmware. The provenance
// controller of the operator does so.
func ApplyProvenance(ctx context.Context, c client.Client, name string, s v1alpha1.NodeFirmwareStatus) error {
	s = v1alpha1.NodeFirmwareStatus{Obsolete: s.Obsolete, Conditions: only(s.Conditions, status.ProvenanceConditions...)}
	return apply(ctx, c, FieldOwnerProvenance, &v1alpha1.NodeFirmware{ObjectMeta: named(name), Status: s}, "obsolete references of node firmware "+name)
}

// Label bodies of LabelObsolete. A null in a merge patch removes the label.
const (
	labelSet     = `{"metadata":{"labels":{"` + v1alpha1.ObsoleteLabel + `":"true"}}}`
	labelRemoved = `{"metadata":{"labels":{"` + v1alpha1.ObsoleteLabel + `":null}}}`
)

// SetObsoleteLabel sets the label nodefirmware.io/obsolete of a NodeFirmware. The provenance controller of the operator does so.
func SetObsoleteLabel(ctx context.Context, c client.Client, name string) error {
	return patchLabel(ctx, c, name, labelSet)
}

// RemoveObsoleteLabel removes the label nodefirmware.io/obsolete of a NodeFirmware. The provenance controller of the operator
// does so.
func RemoveObsoleteLabel(ctx context.Context, c client.Client, name string) error {
	return patchLabel(ctx, c, name, labelRemoved)
}

func patchLabel(ctx context.Context, c client.Client, name, body string) error {
	o := &v1alpha1.NodeFirmware{}
	o.Name = name
	if err := c.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(body)), client.FieldOwner(FieldOwnerProvenance)); err != nil {
		return fmt.Errorf("write label %s of node firmware %s: %w", v1alpha1.ObsoleteLabel, name, err)
	}
	return nil
}
