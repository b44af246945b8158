package nodemaintenance

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

const nodeNameField = "spec.nodeName"

// found is the relevant NodeMaintenance of the node: our own, else the one we joined, else one we could join, else any other.
type found struct {
	object *mo.NodeMaintenance
	// owned says that we requested it, joined that additionalRequestors names us, and joinable that it may be joined.
	owned, joined, joinable bool
}

func (n *Node) find(ctx context.Context) (found, error) {
	var list mo.NodeMaintenanceList
	err := n.Client.List(ctx, &list, client.InNamespace(n.Namespace), client.MatchingFields{nodeNameField: n.NodeName})
	if apierrors.IsNotFound(err) {
		return found{}, &meta.NoKindMatchError{GroupKind: mo.GroupVersion.WithKind("NodeMaintenance").GroupKind()}
	}
	if err != nil {
		return found{}, fmt.Errorf("list node maintenances of node %s: %w", n.NodeName, err)
	}
	var all []found
	for i := range list.Items {
		o := &list.Items[i]
		all = append(all, found{
			object:   o,
			owned:    o.Spec.RequestorID == v1alpha1.MaintenanceRequestorID,
			joined:   slices.Contains(o.Spec.AdditionalRequestors, v1alpha1.MaintenanceRequestorID),
			joinable: n.joinable(o),
		})
	}
	if len(all) == 0 {
		return found{}, nil
	}
	return slices.MinFunc(all, func(a, b found) int {
		return cmp.Or(-cmp.Compare(a.rank(), b.rank()), -cmp.Compare(progress(a.object), progress(b.object)), cmp.Compare(a.object.Name, b.object.Name))
	}), nil
}

func (f found) rank() int {
	switch {
	case f.owned:
		return 3
	case f.joined:
		return 2
	case f.joinable:
		return 1
	}
	return 0
}

// progress is how far the maintenance-operator has taken the node out of service.
func progress(o *mo.NodeMaintenance) int {
	return slices.Index([]string{
		mo.ConditionReasonUninitialized, mo.ConditionReasonPending, mo.ConditionReasonScheduled, mo.ConditionReasonCordon,
		mo.ConditionReasonWaitForPodCompletion, mo.ConditionReasonDraining, mo.ConditionReasonReady,
	}, reason(o))
}

// joinable reports whether a maintenance may be joined: it lasts, and it takes every pod away that ours would. The
// maintenance-operator does what its owner asked for and calls the result ready, also where nothing is drained.
func (n *Node) joinable(o *mo.NodeMaintenance) bool {
	drain := o.Spec.DrainSpec
	if o.DeletionTimestamp != nil || failed(o) || reason(o) == mo.ConditionReasonRequestorFailed || !o.Spec.Cordon || drain == nil {
		return false
	}
	spares := ""
	if n.Drain != nil {
		spares = n.Drain.PodSelector
	}
	return drain.Force && drain.DeleteEmptyDir && len(drain.PodEvictionFilters) == 0 && (drain.PodSelector == "" || drain.PodSelector == spares)
}

type membership int

const (
	join membership = iota
	leave
)

// setRequestor adds us to the additional requestors, or takes us out of them.
func (n *Node) setRequestor(ctx context.Context, o *mo.NodeMaintenance, is membership) error {
	old := o.DeepCopy()
	o.Spec.AdditionalRequestors = slices.DeleteFunc(o.Spec.AdditionalRequestors, func(id string) bool {
		return id == v1alpha1.MaintenanceRequestorID
	})
	if is == join {
		o.Spec.AdditionalRequestors = append(o.Spec.AdditionalRequestors, v1alpha1.MaintenanceRequestorID)
	}
	return n.patch(ctx, o, old)
}

// others are the additional requestors besides us.
func others(o *mo.NodeMaintenance) []string {
	return slices.DeleteFunc(slices.Clone(o.Spec.AdditionalRequestors), func(id string) bool { return id == v1alpha1.MaintenanceRequestorID })
}

// reason is what the maintenance-operator does with the maintenance.
func reason(o *mo.NodeMaintenance) string {
	if ready := meta.FindStatusCondition(o.Status.Conditions, mo.ConditionTypeReady); ready != nil {
		return ready.Reason
	}
	return mo.ConditionReasonUninitialized
}

// drained reports whether the maintenance-operator has cordoned and drained the node for this maintenance. That its requestor
// failed returns nothing to service; and once the maintenance is deleted, that reason stays for as long as somebody is named in it.
func drained(o *mo.NodeMaintenance) bool {
	return slices.Contains([]string{mo.ConditionReasonReady, mo.ConditionReasonRequestorFailed}, reason(o))
}

// failed reports whether the requestor of the maintenance has declared that it failed.
func failed(o *mo.NodeMaintenance) bool {
	return meta.IsStatusConditionTrue(o.Status.Conditions, mo.ConditionTypeRequestorFailed)
}
