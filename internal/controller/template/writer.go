package template

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	apply "github.com/nodefirmware/node-firmware-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// Writer writes what was decided. Each method touches only what the operator owns, never creates an object, and
// returns the resource version it left. The error is a conflict or not-found of the API when the object is not the one
// that was decided upon.
type Writer interface {
	// ApplyFirmware sets spec.firmware of a device, or removes it when the firmware is nil. It refuses a device with
	// another uid.
	ApplyFirmware(ctx context.Context, d *v1alpha1.NodeDevice, f *v1alpha1.DesiredFirmware) (version string, err error)
	// ApplyConditions sets the operator's conditions of a device to those of the given list. It refuses a device in
	// another version than that given.
	ApplyConditions(ctx context.Context, d *v1alpha1.NodeDevice, version string, all []metav1.Condition) (next string, err error)
	// ApplyTemplateStatus sets the status of a template. It refuses a template in another version.
	ApplyTemplateStatus(ctx context.Context, t *v1alpha1.FirmwareTemplate, s v1alpha1.FirmwareTemplateStatus) (version string, err error)
}

// Applier is the Writer that uses server-side apply. Applying creates what is not there, so each request carries what
// the API server refuses on any other object than the one decided upon: the uid where it is looked at, and for a status,
// where the API server ignores the uid, the resource version.
type Applier struct{ Client client.Client }

// ApplyFirmware sends spec.firmware alone: applying it without removes it, and spec.nodeName is the daemon's.
func (a *Applier) ApplyFirmware(ctx context.Context, d *v1alpha1.NodeDevice, f *v1alpha1.DesiredFirmware) (string, error) {
	body := apply.NodeDevice(d.Name).WithUID(d.UID)
	if f != nil {
		body.WithSpec(apply.NodeDeviceSpec().WithFirmware(firmwareOf(f)))
	}
	if err := a.Client.Apply(ctx, body, client.FieldOwner(v1alpha1.FieldOwnerOperator), client.ForceOwnership); err != nil {
		return "", fmt.Errorf("apply firmware of node device %s: %w", d.Name, another(err, d.Name))
	}
	return ptr.Deref(body.ResourceVersion, ""), nil
}

// another turns the refusal of an immutable uid into the conflict it means.
func another(err error, name string) error {
	var refused apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &refused) || refused.Status().Details == nil {
		return err
	}
	for _, c := range refused.Status().Details.Causes {
		if c.Field == "metadata.uid" {
			return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodedevices").GroupResource(), name, err)
		}
	}
	return err
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
	if f.Path != nil {
		out.WithPath(pathOf(f.Path))
	}
	return out
}

func pathOf(p *v1alpha1.UpgradePath) *apply.UpgradePathApplyConfiguration {
	out := apply.UpgradePath().WithBlockedFrom(p.BlockedFrom...)
	if p.MinimumVersion != "" {
		out.WithMinimumVersion(p.MinimumVersion)
	}
	for _, h := range p.Hops {
		hop := apply.UpgradeHop().WithFrom(h.From...).WithVersion(h.Version).WithDigest(h.Digest).WithBlockedFrom(h.BlockedFrom...)
		if h.MinimumVersion != "" {
			hop.WithMinimumVersion(h.MinimumVersion)
		}
		out.WithHops(hop)
	}
	return out
}

// ApplyConditions sends the operator's conditions alone; the others are the daemon's.
func (a *Applier) ApplyConditions(ctx context.Context, d *v1alpha1.NodeDevice, version string, all []metav1.Condition) (string, error) {
	body := apply.NodeDevice(d.Name).WithResourceVersion(version).WithStatus(
		apply.NodeDeviceStatus().WithConditions(status.ForApply(all, status.AssignmentConditions...)...))
	if err := a.Client.Status().Apply(ctx, body, client.FieldOwner(v1alpha1.FieldOwnerOperator), client.ForceOwnership); err != nil {
		return "", fmt.Errorf("apply conditions of node device %s: %w", d.Name, err)
	}
	return ptr.Deref(body.ResourceVersion, ""), nil
}

// ApplyTemplateStatus sends the whole status.
func (a *Applier) ApplyTemplateStatus(ctx context.Context, t *v1alpha1.FirmwareTemplate, s v1alpha1.FirmwareTemplateStatus) (string, error) {
	body := apply.FirmwareTemplate(t.Name).WithResourceVersion(t.ResourceVersion).WithStatus(apply.FirmwareTemplateStatus().
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
