package nodemaintenance

import (
	"context"
	"fmt"
	"slices"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/maintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

const (
	// IgnoreGCAnnotation keeps the maintenance-operator from ending a maintenance that takes a long time: a node must
	// never be returned to service by a timeout while a device is written.
	IgnoreGCAnnotation = "maintenance.nvidia.com/garbage-collector.ignore"

	namePrefix        = "node-firmware-"
	nodeNameField     = "spec.nodeName"
	failedMessageMax  = 1024
	notInstalledGuide = "the cluster has no NodeMaintenance API; install the maintenance-operator, nothing is done without it"
)

// Node is the maintenance of one Node by a NodeMaintenance of the maintenance-operator. When another requestor already
// has one for the Node in the same namespace, the product shares it by adding itself to additionalRequestors.
type Node struct {
	// Client must read from the API server and not from a cache.
	Client    client.Client
	Namespace string
	NodeName  string
	// Drain says how pods are evicted; nil for DrainAll.
	Drain *mo.DrainSpec
}

// DrainAll evicts all pods, including those with emptyDir volumes or without a controller, and never gives up: a node with
// a pod that cannot be evicted is not flashed.
func DrainAll() *mo.DrainSpec { return &mo.DrainSpec{Force: true, DeleteEmptyDir: true} }

// DrainAllButJobs is DrainAll without the pods that execute jobs: such a pod waits for the drain to end. Where jobs are
// executed by pods, an admission policy keeps the label from everybody else's pods.
func DrainAllButJobs() *mo.DrainSpec {
	drain := DrainAll()
	drain.PodSelector = "!" + v1alpha1.JobPodLabel
	return drain
}

// Name is the name of the NodeMaintenance the product creates for a node.
func Name(node string) string { return namePrefix + node }

// Schedule requests the maintenance: it joins an existing one, clears an earlier failure of its own, or creates one.
func (n *Node) Schedule(ctx context.Context) error {
	held, err := n.find(ctx)
	switch {
	case meta.IsNoMatchError(err):
		return nil // State reports it and says what to install
	case err != nil:
		return err
	case held.object == nil:
		return n.create(ctx)
	case held.object.DeletionTimestamp != nil:
		return nil // it must be gone before another can be created
	case held.owned:
		return n.renew(ctx, held.object)
	case !held.joined:
		return n.join(ctx, held.object)
	}
	return nil
}

// State reads the state of the maintenance.
func (n *Node) State(ctx context.Context) (maintenance.State, error) {
	held, err := n.find(ctx)
	if meta.IsNoMatchError(err) {
		return maintenance.State{Phase: step.MaintenanceNotInstalled, Message: notInstalledGuide}, nil
	}
	if err != nil {
		return maintenance.State{}, err
	}
	o := held.object
	switch {
	case o == nil || !held.owned && !held.joined && o.DeletionTimestamp == nil:
		return maintenance.State{Phase: step.MaintenanceNone}, nil
	case o.DeletionTimestamp != nil && held.owned && len(o.Spec.AdditionalRequestors) > 0:
		// Only our part has to end: the other requestors return the node when they are done.
		return stateOf(step.MaintenanceNone, "node maintenance %s is no longer needed by this product but still held by %v", o.Name, o.Spec.AdditionalRequestors), nil
	case o.DeletionTimestamp != nil && !held.owned && !held.joined:
		return stateOf(step.MaintenanceNone, "node maintenance %s of %s is ending", o.Name, o.Spec.RequestorID), nil
	case o.DeletionTimestamp != nil && held.owned:
		return stateOf(step.MaintenanceEnding, "node maintenance %s is being deleted", o.Name), nil
	}
	// A maintenance we joined stays until we leave it, even after its owner deleted it.
	ready := meta.FindStatusCondition(o.Status.Conditions, mo.ConditionTypeReady)
	switch {
	case ready == nil:
		return stateOf(step.MaintenanceRequested, "node maintenance %s is not seen by the maintenance-operator yet; is it running?", o.Name), nil
	case ready.Status == metav1.ConditionTrue && (!held.owned || !failed(o)):
		return n.ready(ctx, o)
	}
	return stateOf(step.MaintenanceRequested, "node maintenance %s: %s %s", o.Name, ready.Reason, ready.Message), nil
}

// ready looks at the Node itself. The maintenance-operator cordons and drains it once and does not look again: a Node that
// somebody uncordoned, or that was registered again, takes workloads under a maintenance that is ready.
func (n *Node) ready(ctx context.Context, o *mo.NodeMaintenance) (maintenance.State, error) {
	var node corev1.Node
	switch err := n.Client.Get(ctx, client.ObjectKey{Name: n.NodeName}, &node); {
	case apierrors.IsNotFound(err):
		return stateOf(step.MaintenanceBroken, "node maintenance %s is ready, but the Node %s does not exist", o.Name, n.NodeName), nil
	case err != nil:
		return maintenance.State{}, fmt.Errorf("get node %s: %w", n.NodeName, err)
	case !node.Spec.Unschedulable:
		return stateOf(step.MaintenanceBroken, "node maintenance %s is ready, but the Node %s is not cordoned; somebody uncordoned it or "+
			"it was registered again, and workloads may run there", o.Name, n.NodeName), nil
	}
	state := stateOf(step.MaintenanceReady, "node maintenance %s is ready", o.Name)
	state.Node = string(node.UID)
	return state, nil
}

func stateOf(phase step.Maintenance, format string, args ...any) maintenance.State {
	return maintenance.State{Phase: phase, Message: fmt.Sprintf(format, args...)}
}

// Fail sets the condition RequestorFailed on a NodeMaintenance of our own. On a shared one, the entry in
// additionalRequestors keeps the node out of service, and the owner's work is not marked as failed.
func (n *Node) Fail(ctx context.Context, message string) error {
	held, err := n.find(ctx)
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil || held.object == nil || !held.owned || failed(held.object) {
		return err
	}
	return n.setFailed(ctx, held.object, metav1.ConditionTrue, message)
}

// Release ends our part: it deletes a NodeMaintenance of our own, and removes us from one of somebody else.
func (n *Node) Release(ctx context.Context) error {
	held, err := n.find(ctx)
	switch {
	case meta.IsNoMatchError(err):
		return nil
	case err != nil || held.object == nil:
		return err
	case held.joined:
		return n.leave(ctx, held.object)
	case !held.owned || held.object.DeletionTimestamp != nil:
		return nil
	}
	return n.delete(ctx, held.object)
}

func (n *Node) delete(ctx context.Context, o *mo.NodeMaintenance) error {
	uid := o.UID
	err := n.Client.Delete(ctx, o, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node maintenance %s: %w", o.Name, err)
	}
	return nil
}

// found is the relevant NodeMaintenance: our own, else the one we joined, else one we could join.
type found struct {
	object *mo.NodeMaintenance
	owned  bool
	joined bool
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
	var best found
	for i := range list.Items {
		o := &list.Items[i]
		f := found{
			object: o,
			owned:  o.Spec.RequestorID == v1alpha1.MaintenanceRequestorID,
			joined: slices.Contains(o.Spec.AdditionalRequestors, v1alpha1.MaintenanceRequestorID),
		}
		if best.object == nil || f.rank() > best.rank() {
			best = f
		}
	}
	return best, nil
}

func (f found) rank() int {
	switch {
	case f.owned:
		return 3
	case f.joined:
		return 2
	case f.object.DeletionTimestamp == nil:
		return 1
	}
	return 0
}

func (n *Node) create(ctx context.Context) error {
	drain := n.Drain
	if drain == nil {
		drain = DrainAll()
	}
	o := &mo.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(n.NodeName), Namespace: n.Namespace, Annotations: map[string]string{IgnoreGCAnnotation: "true"},
		},
		Spec: mo.NodeMaintenanceSpec{
			RequestorID: v1alpha1.MaintenanceRequestorID, NodeName: n.NodeName, Cordon: true, DrainSpec: drain,
		},
	}
	if err := n.Client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create node maintenance %s: %w", o.Name, err)
	}
	return nil
}

// renew takes up a maintenance of our own. One under which the node is in service again is deleted, so that another one cordons
// and drains the node.
func (n *Node) renew(ctx context.Context, o *mo.NodeMaintenance) error {
	if meta.IsStatusConditionTrue(o.Status.Conditions, mo.ConditionTypeReady) {
		state, err := n.ready(ctx, o)
		switch {
		case err != nil:
			return err
		case state.Phase == step.MaintenanceBroken:
			return n.delete(ctx, o)
		}
	}
	return n.resume(ctx, o)
}

// resume makes sure that a maintenance of our own is not garbage-collected, and clears an earlier failure.
func (n *Node) resume(ctx context.Context, o *mo.NodeMaintenance) error {
	if o.Annotations[IgnoreGCAnnotation] != "true" {
		old := o.DeepCopy()
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, IgnoreGCAnnotation, "true")
		if err := n.patch(ctx, o, old); err != nil {
			return err
		}
	}
	if !failed(o) {
		return nil
	}
	return n.setFailed(ctx, o, metav1.ConditionFalse, "resumed by a newer job")
}

func (n *Node) join(ctx context.Context, o *mo.NodeMaintenance) error {
	old := o.DeepCopy()
	o.Spec.AdditionalRequestors = append(o.Spec.AdditionalRequestors, v1alpha1.MaintenanceRequestorID)
	return n.patch(ctx, o, old)
}

func (n *Node) leave(ctx context.Context, o *mo.NodeMaintenance) error {
	old := o.DeepCopy()
	o.Spec.AdditionalRequestors = slices.DeleteFunc(o.Spec.AdditionalRequestors, func(id string) bool {
		return id == v1alpha1.MaintenanceRequestorID
	})
	return n.patch(ctx, o, old)
}

// patch carries the resource version: a concurrent change of the list by somebody else is a conflict and not
// overwritten.
func (n *Node) patch(ctx context.Context, o, old *mo.NodeMaintenance) error {
	err := n.Client.Patch(ctx, o, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch node maintenance %s: %w", o.Name, err)
	}
	return nil
}

func (n *Node) setFailed(ctx context.Context, o *mo.NodeMaintenance, status metav1.ConditionStatus, message string) error {
	old := o.DeepCopy()
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{
		Type: mo.ConditionTypeRequestorFailed, Status: status, Reason: mo.ConditionReasonFailedMaintenance,
		Message: text.Clip(message, failedMessageMax),
	})
	err := n.Client.Status().Patch(ctx, o, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("set condition RequestorFailed of node maintenance %s: %w", o.Name, err)
	}
	return nil
}

func failed(o *mo.NodeMaintenance) bool {
	return meta.IsStatusConditionTrue(o.Status.Conditions, mo.ConditionTypeRequestorFailed)
}
