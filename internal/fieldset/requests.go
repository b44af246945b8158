package fieldset

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

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
