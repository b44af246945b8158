package fieldset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	applyv1alpha1 "github.com/nodefirmware/node-firmware-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// ApplyNode writes the status of a NodeFirmware. The daemon of the node does so, or the pod that stands in for it.
func ApplyNode(ctx context.Context, c client.Client, name string, s v1alpha1.NodeFirmwareStatus) error {
	ac, err := configure(s, applyv1alpha1.NodeFirmwareStatus())
	if err == nil {
		err = apply(ctx, c, v1alpha1.FieldOwnerDaemon, applyv1alpha1.NodeFirmware(name).WithStatus(ac))
	}
	if err != nil {
		return fmt.Errorf("apply status of node firmware %s: %w", name, err)
	}
	return nil
}

// ApplyObservation writes the status of a device without the conditions Conflict and Blocked, which are the operator's. The
// daemon of the node does so, or the pod that stands in for it.
func ApplyObservation(ctx context.Context, c client.Client, name string, s v1alpha1.NodeDeviceStatus) error {
	s.Conditions = only(s.Conditions, status.DeviceConditions...)
	ac, err := configure(s, applyv1alpha1.NodeDeviceStatus())
	if err == nil {
		err = apply(ctx, c, v1alpha1.FieldOwnerDaemon, applyv1alpha1.NodeDevice(name).WithStatus(ac))
	}
	if err != nil {
		return fmt.Errorf("apply status of node device %s: %w", name, err)
	}
	return nil
}

// ApplyAssignment writes the conditions Conflict and Blocked of a device in the given version, and returns the version it
// left. The template controller of the operator does so. It fails with a conflict when the device is in another version.
func ApplyAssignment(ctx context.Context, c client.Client, d *v1alpha1.NodeDevice, version string, all []metav1.Condition) (string, error) {
	assigned, err := conditions(all, status.AssignmentConditions...)
	body := applyv1alpha1.NodeDevice(d.Name).WithResourceVersion(version).WithStatus(
		applyv1alpha1.NodeDeviceStatus().WithConditions(assigned...))
	if err == nil {
		err = apply(ctx, c, v1alpha1.FieldOwnerOperator, body)
	}
	if err != nil {
		return "", fmt.Errorf("apply conditions of node device %s: %w", d.Name, err)
	}
	return ptr.Deref(body.ResourceVersion, ""), nil
}

// ApplyTemplate writes the status of a template, and returns the version it left. The template controller of the operator
// does so. It fails with a conflict when the template is not in the version that was read.
func ApplyTemplate(ctx context.Context, c client.Client, t *v1alpha1.FirmwareTemplate, s v1alpha1.FirmwareTemplateStatus) (string, error) {
	ac, err := configure(s, applyv1alpha1.FirmwareTemplateStatus())
	body := applyv1alpha1.FirmwareTemplate(t.Name).WithResourceVersion(t.ResourceVersion).WithStatus(ac)
	if err == nil {
		err = apply(ctx, c, v1alpha1.FieldOwnerOperator, body)
	}
	if err != nil {
		return "", fmt.Errorf("apply status of firmware template %s: %w", t.Name, err)
	}
	return ptr.Deref(body.ResourceVersion, ""), nil
}
