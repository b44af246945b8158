package template

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
)

// Writer writes what was decided. Each method changes only what the operator owns, never creates an object, and returns
// the new resource version. The error is a conflict or not-found of the API when the object is not the one that the
// decision is about.
type Writer interface {
	// ApplyFirmware sets spec.origin and spec.firmware of a device, or removes them when nothing is assigned. It refuses a device with
	// another uid.
	ApplyFirmware(ctx context.Context, d *v1alpha1.NodeDevice, next *match.Assigned) (version string, err error)
	// ApplyConditions sets the operator's conditions of a device to those of the given list. It refuses a device in
	// another version than that given.
	ApplyConditions(ctx context.Context, d *v1alpha1.NodeDevice, version string, all []metav1.Condition) (next string, err error)
	// ApplyPins sets the condition of a NodeFirmware about its pins to that of the given list.
	ApplyPins(ctx context.Context, n *v1alpha1.NodeFirmware, all []metav1.Condition) (version string, err error)
	// ApplyTemplateStatus sets the status of a template. It refuses a template in another version.
	ApplyTemplateStatus(ctx context.Context, t *v1alpha1.FirmwareTemplate, s v1alpha1.FirmwareTemplateStatus) (version string, err error)
}

// Applier is the Writer that uses server-side apply.
type Applier struct{ Client client.Client }

// ApplyFirmware is the Writer's.
func (a *Applier) ApplyFirmware(ctx context.Context, d *v1alpha1.NodeDevice, next *match.Assigned) (string, error) {
	if next == nil {
		return fieldset.ApplyDesired(ctx, a.Client, d, nil, nil)
	}
	return fieldset.ApplyDesired(ctx, a.Client, d, next.Origin, &next.DesiredFirmware)
}

// ApplyConditions is the Writer's.
func (a *Applier) ApplyConditions(ctx context.Context, d *v1alpha1.NodeDevice, version string, all []metav1.Condition) (string, error) {
	return fieldset.ApplyAssignment(ctx, a.Client, d, version, all)
}

// ApplyPins is the Writer's.
func (a *Applier) ApplyPins(ctx context.Context, n *v1alpha1.NodeFirmware, all []metav1.Condition) (string, error) {
	return fieldset.ApplyPins(ctx, a.Client, n.Name, all)
}

// ApplyTemplateStatus is the Writer's.
func (a *Applier) ApplyTemplateStatus(ctx context.Context, t *v1alpha1.FirmwareTemplate, s v1alpha1.FirmwareTemplateStatus) (string, error) {
	return fieldset.ApplyTemplate(ctx, a.Client, t, s)
}
