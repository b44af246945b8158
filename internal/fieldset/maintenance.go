package fieldset

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	applyv1alpha1 "github.com/nodefirmware/node-firmware-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// The field managers of a maintenance that the operator carries out. The daemon and the operator have others for the rest of a
// status, because an apply removes what its field manager wrote before and leaves out now.
const (
	FieldOwnerMaintenanceRequest = v1alpha1.FieldOwnerDaemon + "-maintenance"
	FieldOwnerMaintenance        = v1alpha1.FieldOwnerOperator + "-maintenance"
)

// ApplyMaintenanceRequest writes status.maintenanceRequest of a NodeFirmware. The daemon of the node does so, or the pod that
// stands in for it.
func ApplyMaintenanceRequest(ctx context.Context, c client.Client, node string, r v1alpha1.MaintenanceRequest) error {
	ac, err := configure(v1alpha1.NodeFirmwareStatus{MaintenanceRequest: &r}, applyv1alpha1.NodeFirmwareStatus())
	return apply(ctx, c, FieldOwnerMaintenanceRequest, applyv1alpha1.NodeFirmware(node).WithStatus(ac), err, "maintenance request of node firmware "+node)
}

// ApplyMaintenance writes status.maintenance of a NodeFirmware. The maintenance controller of the operator does so.
func ApplyMaintenance(ctx context.Context, c client.Client, node string, a v1alpha1.MaintenanceAnswer) error {
	ac, err := configure(v1alpha1.NodeFirmwareStatus{Maintenance: &a}, applyv1alpha1.NodeFirmwareStatus())
	return apply(ctx, c, FieldOwnerMaintenance, applyv1alpha1.NodeFirmware(node).WithStatus(ac), err, "maintenance of node firmware "+node)
}
