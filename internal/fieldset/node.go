package fieldset

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// FieldOwnerAssignment is the field manager of what templates and pins assign: origin and firmware in the spec of a NodeDevice, its
// conditions Conflict and Blocked, the condition PinsUnmatched of a NodeFirmware, and the status of templates.
const FieldOwnerAssignment = v1alpha1.FieldOwnerOperator + "-assignment"

// ApplyNode writes the status of a NodeFirmware without its maintenance, which has field managers of its own, and without what
// ApplyProvenance, ApplyPins and ApplyPinned write, which is the operator's. The daemon of the node does so, or the pod that stands in for it.
func ApplyNode(ctx context.Context, c client.Client, name string, s v1alpha1.NodeFirmwareStatus) error {
	s.MaintenanceRequest, s.Maintenance = nil, nil
	s.PinnedMachine, s.Requests.Adopt = "", ""
	s.Obsolete, s.Conditions = nil, only(s.Conditions, status.NodeConditions...)
	return apply(ctx, c, v1alpha1.FieldOwnerDaemon, &v1alpha1.NodeFirmware{ObjectMeta: named(name), Status: s}, "status of node firmware "+name)
}

// ApplyObservation writes the status of a device without the conditions Conflict and Blocked, which are the operator's. The
// daemon of the node does so, or the pod that stands in for it.
func ApplyObservation(ctx context.Context, c client.Client, name string, s v1alpha1.NodeDeviceStatus) error {
	s.Conditions = only(s.Conditions, status.DeviceConditions...)
	return apply(ctx, c, v1alpha1.FieldOwnerDaemon, &v1alpha1.NodeDevice{ObjectMeta: named(name), Status: s}, "status of node device "+name)
}

// ApplyDesired writes spec.origin, spec.firmware and spec.configuration of a device, or removes what is not desired, and returns the
// version it left. The template controller of the operator does so. It fails with a conflict when the device has another uid, which keeps it from
// creating a device that is gone.
func ApplyDesired(ctx context.Context, c client.Client, d *v1alpha1.NodeDevice, desired v1alpha1.NodeDeviceSpec) (string, error) {
	desired.NodeName = "" // the daemon's
	part := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: d.Name, UID: d.UID}, Spec: desired}
	body, err := Configuration(c, part)
	if err == nil {
		err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner(FieldOwnerAssignment), client.ForceOwnership)
	}
	if err != nil {
		return "", fmt.Errorf("apply desired state of node device %s: %w", d.Name, conflictOfUID(err, d.Name))
	}
	return body.GetResourceVersion(), nil
}

// conflictOfUID turns the refusal of an immutable uid into the conflict it means.
func conflictOfUID(err error, device string) error {
	var refused apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &refused) || refused.Status().Details == nil {
		return err
	}
	for _, c := range refused.Status().Details.Causes {
		if c.Field == "metadata.uid" {
			return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodedevices").GroupResource(), device, err)
		}
	}
	return err
}

// ApplyAssignment writes the conditions Conflict and Blocked of a device in the given version, and returns the version it
// left. The template controller of the operator does so. It fails with a conflict when the device is in another version.
func ApplyAssignment(ctx context.Context, c client.Client, d *v1alpha1.NodeDevice, version string, all []metav1.Condition) (string, error) {
	part := &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, ResourceVersion: version},
		Status:     v1alpha1.NodeDeviceStatus{Conditions: only(all, status.AssignmentConditions...)},
	}
	err := apply(ctx, c, FieldOwnerAssignment, part, "conditions of node device "+d.Name)
	return part.ResourceVersion, err
}

// ApplyPins writes the condition PinsUnmatched of a NodeFirmware, and returns the version it left. The template controller of the
// operator does so.
func ApplyPins(ctx context.Context, c client.Client, name string, all []metav1.Condition) (string, error) {
	part := &v1alpha1.NodeFirmware{ObjectMeta: named(name), Status: v1alpha1.NodeFirmwareStatus{Conditions: only(all, status.PinConditions...)}}
	err := apply(ctx, c, FieldOwnerAssignment, part, "pins of node firmware "+name)
	return part.ResourceVersion, err
}

// FieldOwnerNode is the field manager of what the operator says of the daemon of a node.
const FieldOwnerNode = v1alpha1.FieldOwnerOperator + "-node"

// ApplyDaemonReady writes the condition DaemonReady of a NodeFirmware in the version that was read: a report that came since is the end
// of a silence. The node controller of the operator does so. It fails with a conflict when the object is in another version.
func ApplyDaemonReady(ctx context.Context, c client.Client, o *v1alpha1.NodeFirmware, all []metav1.Condition) error {
	return apply(ctx, c, FieldOwnerNode, &v1alpha1.NodeFirmware{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, ResourceVersion: o.ResourceVersion},
		Status:     v1alpha1.NodeFirmwareStatus{Conditions: only(all, status.DaemonConditions...)},
	}, "daemon of node firmware "+o.Name)
}

// FieldOwnerConditions is the field manager of the conditions that the operator writes on Nodes.
const FieldOwnerConditions = v1alpha1.FieldOwnerOperator + "-conditions"

// ApplyNodeConditions writes the operator's conditions of a Node, and removes those that it wrote before and that are missing now. The
// controller of these conditions does so.
func ApplyNodeConditions(ctx context.Context, c client.Client, name string, all []corev1.NodeCondition) error {
	part := &corev1.Node{ObjectMeta: named(name), Status: corev1.NodeStatus{Conditions: all}}
	return apply(ctx, c, FieldOwnerConditions, part, "conditions of node "+name, "conditions")
}

// ApplyTemplate writes the status of a template, and returns the version it left. The template controller of the operator
// does so. It fails with a conflict when the template is not in the version that was read.
func ApplyTemplate(ctx context.Context, c client.Client, t client.Object, s v1alpha1.TemplateStatus) (string, error) {
	is := metav1.ObjectMeta{Name: t.GetName(), ResourceVersion: t.GetResourceVersion()}
	var part client.Object = &v1alpha1.FirmwareTemplate{ObjectMeta: is, Status: s}
	what := "status of firmware template "
	if _, settings := t.(*v1alpha1.ConfigurationTemplate); settings {
		part, what = &v1alpha1.ConfigurationTemplate{ObjectMeta: is, Status: s}, "status of configuration template "
	}
	err := apply(ctx, c, FieldOwnerAssignment, part, what+t.GetName())
	return part.GetResourceVersion(), err
}

// The field managers of a maintenance that the operator carries out. The daemon and the operator have others for the rest of a
// status, because an apply removes what its field manager wrote before and leaves out now.
const (
	FieldOwnerMaintenanceRequest = v1alpha1.FieldOwnerDaemon + "-maintenance"
	FieldOwnerMaintenance        = v1alpha1.FieldOwnerOperator + "-maintenance"
)

// ApplyMaintenanceRequest writes status.maintenanceRequest of a NodeFirmware. The daemon of the node does so, or the pod that
// stands in for it.
func ApplyMaintenanceRequest(ctx context.Context, c client.Client, node string, r v1alpha1.MaintenanceRequest) error {
	part := &v1alpha1.NodeFirmware{ObjectMeta: named(node), Status: v1alpha1.NodeFirmwareStatus{MaintenanceRequest: &r}}
	return apply(ctx, c, FieldOwnerMaintenanceRequest, part, "maintenance request of node firmware "+node)
}

// ApplyMaintenance writes status.maintenance of a NodeFirmware. The maintenance controller of the operator does so.
func ApplyMaintenance(ctx context.Context, c client.Client, node string, a v1alpha1.MaintenanceAnswer) error {
	part := &v1alpha1.NodeFirmware{ObjectMeta: named(node), Status: v1alpha1.NodeFirmwareStatus{Maintenance: &a}}
	return apply(ctx, c, FieldOwnerMaintenance, part, "maintenance of node firmware "+node)
}

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

// FieldOwnerRequests is the field manager of what the operator, and not the daemon, answers of the requests for a node.
const FieldOwnerRequests = v1alpha1.FieldOwnerOperator + "-requests"

// ApplyPinned writes status.pinnedMachine and status.requests.adopt of a NodeFirmware in the version that was read. The node controller
// of the operator does so. It fails with a conflict when the object is in another version.
func ApplyPinned(ctx context.Context, c client.Client, o *v1alpha1.NodeFirmware, machine, adopt string) error {
	return apply(ctx, c, FieldOwnerRequests, &v1alpha1.NodeFirmware{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, ResourceVersion: o.ResourceVersion},
		Status:     v1alpha1.NodeFirmwareStatus{PinnedMachine: machine, Requests: v1alpha1.NodeRequests{Adopt: adopt}},
	}, "pinned machine of node firmware "+o.Name)
}
