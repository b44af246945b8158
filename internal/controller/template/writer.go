package template

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	apply "github.com/nodefirmware/node-firmware-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// Writer writes what was decided. Each method touches only what the operator owns, refuses an object with another uid
// than the given one's, never creates one, and returns the resource version it left.
type Writer interface {
	// ApplyFirmware sets spec.firmware of a device, or removes it when the firmware is nil.
	ApplyFirmware(ctx context.Context, d *v1alpha1.NodeDevice, f *v1alpha1.DesiredFirmware) (version string, err error)
	// ApplyConditions sets the operator's conditions of a device to those of the given list.
	ApplyConditions(ctx context.Context, d *v1alpha1.NodeDevice, all []metav1.Condition) (version string, err error)
	// ApplyTemplateStatus sets the status of a template.
	ApplyTemplateStatus(ctx context.Context, t *v1alpha1.FirmwareTemplate, s v1alpha1.FirmwareTemplateStatus) (version string, err error)
}

// Applier is the Writer that uses server-side apply. It sends the uid of the object it decided upon: the API server
// answers with a conflict when the object is gone or is another one, and so never brings a deleted device back.
type Applier struct{ Client client.Client }

// ApplyFirmware sends spec.firmware alone: applying it without removes it, and spec.nodeName is the daemon's.
func (a *Applier) ApplyFirmware(ctx context.Context, d *v1alpha1.NodeDevice, f *v1alpha1.DesiredFirmware) (string, error) {
	body := apply.NodeDevice(d.Name).WithUID(d.UID)
	if f != nil {
		body.WithSpec(apply.NodeDeviceSpec().WithFirmware(firmwareOf(f)))
	}
	if err := a.Client.Apply(ctx, body, client.FieldOwner(v1alpha1.FieldOwnerOperator), client.ForceOwnership); err != nil {
		return "", fmt.Errorf("apply firmware of node device %s: %w", d.Name, err)
	}
	return ptr.Deref(body.ResourceVersion, ""), nil
}

func firmwareOf(f *v1alpha1.DesiredFirmware) *apply.DesiredFirmwareApplyConfiguration {
	origin := apply.Origin().WithKind(f.Origin.Kind).WithName(f.Origin.Name).WithRule(f.Origin.Rule)
	if f.Origin.UID != "" {
		origin.WithUID(f.Origin.UID)
	}
	if f.Origin.Generation != nil {
		origin.WithGeneration(*f.Origin.Generation)
	}
	out := apply.DesiredFirmware().WithVersion(f.Version).WithUpdatePolicy(f.UpdatePolicy).WithDowngrade(f.Downgrade).
		WithSourceRef(apply.SourceReference().WithName(f.SourceRef.Name)).WithOrigin(origin)
	if f.Digest != "" {
		out.WithDigest(f.Digest)
	}
	return out
}

// ApplyConditions sends the operator's conditions alone; the others are the daemon's.
func (a *Applier) ApplyConditions(ctx context.Context, d *v1alpha1.NodeDevice, all []metav1.Condition) (string, error) {
	body := apply.NodeDevice(d.Name).WithUID(d.UID).WithStatus(
		apply.NodeDeviceStatus().WithConditions(status.ForApply(all, status.AssignmentConditions...)...))
	if err := a.Client.Status().Apply(ctx, body, client.FieldOwner(v1alpha1.FieldOwnerOperator), client.ForceOwnership); err != nil {
		return "", fmt.Errorf("apply conditions of node device %s: %w", d.Name, err)
	}
	return ptr.Deref(body.ResourceVersion, ""), nil
}

// ApplyTemplateStatus sends the whole status.
func (a *Applier) ApplyTemplateStatus(ctx context.Context, t *v1alpha1.FirmwareTemplate, s v1alpha1.FirmwareTemplateStatus) (string, error) {
	body := apply.FirmwareTemplate(t.Name).WithUID(t.UID).WithStatus(apply.FirmwareTemplateStatus().
		WithObservedGeneration(s.ObservedGeneration).
		WithConditions(status.ForApply(s.Conditions, status.TemplateConditions...)...).
		WithServersInGroup(s.ServersInGroup).WithUpdatesApplied(s.UpdatesApplied).WithUpdatesNotApplied(s.UpdatesNotApplied).
		WithDevicesMatched(s.DevicesMatched).WithDevicesPending(s.DevicesPending).WithDevicesUpdating(s.DevicesUpdating).
		WithDevicesFailed(s.DevicesFailed).WithDevicesConflicting(s.DevicesConflicting).WithDevicesBlocked(s.DevicesBlocked).
		WithDevices(s.Devices...))
	if err := a.Client.Status().Apply(ctx, body, client.FieldOwner(v1alpha1.FieldOwnerOperator), client.ForceOwnership); err != nil {
		return "", fmt.Errorf("apply status of firmware template %s: %w", t.Name, err)
	}
	return ptr.Deref(body.ResourceVersion, ""), nil
}
