package fieldset

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
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
	part := &v1alpha1.NodeFirmware{ObjectMeta: named(node), Status: v1alpha1.NodeFirmwareStatus{MaintenanceRequest: &r}}
	return apply(ctx, c, FieldOwnerMaintenanceRequest, part, "maintenance request of node firmware "+node)
}

// ApplyMaintenance writes status.maintenance of a NodeFirmware. The maintenance controller of the operator does so.
func ApplyMaintenance(ctx context.Context, c client.Client, node string, a v1alpha1.MaintenanceAnswer) error {
	part := &v1alpha1.NodeFirmware{ObjectMeta: named(node), Status: v1alpha1.NodeFirmwareStatus{Maintenance: &a}}
	return apply(ctx, c, FieldOwnerMaintenance, part, "maintenance of node firmware "+node)
}
