package nodemaintenance

import (
	"context"
	"fmt"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

const (
	// InitialStateAnnotation is where the maintenance-operator notes whether the node was unschedulable before: at the end of the
	// maintenance it uncordons the node where this says "false".
	InitialStateAnnotation = "maintenance.nvidia.com/node-initial-state.unschedulable"

	// IgnoreGCAnnotation keeps the maintenance-operator from ending a maintenance that takes a long time: a node must
	// never be returned to service by a timeout while a device is written.
	IgnoreGCAnnotation = "maintenance.nvidia.com/garbage-collector.ignore"

	namePrefix       = "node-firmware-"
	failedMessageMax = 1024
)

// Node is the maintenance of one Node by a NodeMaintenance of the maintenance-operator. When another requestor already
// has one for the Node in the same namespace that drains it as ours would, the product shares it by adding itself to
// additionalRequestors. It names itself there in its own as well: the maintenance-operator returns a node to service as soon as
// somebody deletes its maintenance, unless somebody is named there.
type Node struct {
	// Client must read from the API server and not from a cache.
	Client    client.Client
	Namespace string
	NodeName  string
	// Drain says how pods are evicted; nil for DrainAll.
	Drain *mo.DrainSpec
	// Was is the cordon of the maintenance that the job had, in case that one was taken away; nil where nobody remembers.
	Was func() (maintenance.Cordon, error)
}

// DrainAll evicts all pods, including those with emptyDir volumes or without a controller. The API turns its timeout of zero into
// 300 s, after which the maintenance-operator begins the drain again: a node with a pod that cannot be evicted is never flashed.
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

// Nodes are the nodes that a maintenance cordons, whoever requested it.
func Nodes(ctx context.Context, c client.Reader, namespace string) (map[string]bool, error) {
	var list mo.NodeMaintenanceList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list node maintenances: %w", err)
	}
	out := map[string]bool{}
	for i := range list.Items {
		if list.Items[i].Spec.Cordon {
			out[list.Items[i].Spec.NodeName] = true
		}
	}
	return out, nil
}

// Schedule requests the maintenance: it joins an existing one, clears an earlier failure of its own, or creates one. It leaves a node
// alone that somebody else has; State says who.
func (n *Node) Schedule(ctx context.Context) error {
	held, err := n.find(ctx)
	switch {
	case meta.IsNoMatchError(err):
		return nil // State reports it and says what to install
	case err != nil:
		return err
	case held.owned && (held.joined || held.object.DeletionTimestamp == nil):
		return n.renew(ctx, held)
	case held.owned || held.joined:
		return nil // what ends must be gone before another can be created
	case held.joinable:
		return n.setRequestor(ctx, held.object, join)
	}
	node, err := n.node(ctx)
	if err != nil {
		return err
	}
	whose, err := n.whose(node)
	shared := held.object != nil && held.object.Spec.Cordon
	if err != nil || node != nil && (neighbour.Has(node) != "" && !(shared && neighbour.MayShare(node)) ||
		!shared && whose != ours && neighbour.Cordoned(node) != "") {
		return err
	}
	return n.create(ctx, whose)
}

// renew takes up a maintenance of our own. One under which the node is in service again is deleted, so that another one cordons
// and drains the node.
func (n *Node) renew(ctx context.Context, held found) error {
	o := held.object
	if drained(o) {
		node, err := n.node(ctx)
		switch {
		case err != nil:
			return err
		case ready(o, node).Phase == step.MaintenanceBroken:
			return n.end(ctx, held)
		}
	}
	if o.DeletionTimestamp != nil && !drained(o) {
		return nil // it ends, whoever is named in it
	}
	return n.resume(ctx, held)
}

// resume makes sure that a maintenance of our own is kept from deletion and garbage collection, and clears an earlier failure.
func (n *Node) resume(ctx context.Context, held found) error {
	o := held.object
	if !held.joined {
		if err := n.setRequestor(ctx, o, join); err != nil {
			return err
		}
	}
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

// Fail sets the condition RequestorFailed on a NodeMaintenance of our own. On a shared one, the entry in
// additionalRequestors keeps the node out of service, and the owner's work is not marked as failed. Where no maintenance is left,
// because somebody forced it away or the Node was registered again, it requests another one: the node takes workloads meanwhile.
func (n *Node) Fail(ctx context.Context, message string) error {
	held, err := n.find(ctx)
	switch {
	case meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return err
	case !held.owned && !held.joined:
		return n.Schedule(ctx)
	case !held.owned || failed(held.object):
		return nil
	}
	return n.setFailed(ctx, held.object, metav1.ConditionTrue, message)
}

// Release ends our part: it deletes a NodeMaintenance of our own, and removes us from one of somebody else. Where ours was taken away and
// left its cordon on the node, it requests another one, with which the cordon ends. A maintenance that cordoned a node which somebody else has
// by now stays until that ends; State says who it is.
func (n *Node) Release(ctx context.Context) error {
	held, err := n.find(ctx)
	switch {
	case meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return err
	case held.joined && !held.owned:
		return n.setRequestor(ctx, held.object, leave)
	}
	node, err := n.node(ctx)
	if err != nil {
		return err
	}
	whose, err := n.whose(node)
	switch {
	case err != nil:
		return err
	case held.owned:
		return n.giveBack(ctx, held, node, whose)
	case held.object == nil && whose == ours && neighbour.Has(node) == "":
		return n.create(ctx, whose)
	}
	return nil
}

// giveBack ends a maintenance of our own. The maintenance-operator is told to leave a cordon that others need, and one that returns
// what another maintenance left must have begun before it is deleted, or it ends without that.
func (n *Node) giveBack(ctx context.Context, held found, node *corev1.Node, whose cordon) error {
	o := held.object
	switch {
	case whose != others && keeps(o, node) != "":
		return nil // our cordon ends when they are done
	case whose == ours && o.DeletionTimestamp == nil && !drained(o) && progress(o) < progressOf(mo.ConditionReasonCordon):
		return nil
	case whose == others && o.Annotations[InitialStateAnnotation] == "false":
		old := o.DeepCopy()
		o.Annotations[InitialStateAnnotation] = "true"
		if err := n.patch(ctx, o, old); err != nil {
			return err
		}
	}
	return n.end(ctx, held)
}

// end deletes a maintenance of our own. We leave it first: one that is deleted and still names us was deleted by somebody else.
func (n *Node) end(ctx context.Context, held found) error {
	o := held.object
	if held.joined {
		if err := n.setRequestor(ctx, o, leave); err != nil {
			return err
		}
	}
	if o.DeletionTimestamp != nil {
		return nil
	}
	uid := o.UID
	err := n.Client.Delete(ctx, o, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node maintenance %s: %w", o.Name, err)
	}
	return nil
}

// create requests a maintenance of our own. The maintenance-operator would take a cordon that is ours for one from before, and leave it.
func (n *Node) create(ctx context.Context, whose cordon) error {
	drain := n.Drain
	if drain == nil {
		drain = DrainAll()
	}
	o := &mo.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(n.NodeName), Namespace: n.Namespace, Annotations: map[string]string{IgnoreGCAnnotation: "true"},
		},
		Spec: mo.NodeMaintenanceSpec{
			RequestorID: v1alpha1.MaintenanceRequestorID, AdditionalRequestors: []string{v1alpha1.MaintenanceRequestorID},
			NodeName: n.NodeName, Cordon: true, DrainSpec: drain,
		},
	}
	if whose == ours {
		o.Annotations[InitialStateAnnotation] = "false"
	}
	switch err := n.Client.Create(ctx, o); {
	case apierrors.IsAlreadyExists(err):
		return n.taken(ctx, o.Name)
	case err != nil:
		return fmt.Errorf("create node maintenance %s: %w", o.Name, err)
	}
	return nil
}

// taken returns an error if the name of our maintenance belongs to something else.
func (n *Node) taken(ctx context.Context, name string) error {
	var o mo.NodeMaintenance
	if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Namespace, Name: name}, &o); err != nil {
		return fmt.Errorf("get node maintenance %s: %w", name, client.IgnoreNotFound(err))
	}
	if o.Spec.RequestorID == v1alpha1.MaintenanceRequestorID && o.Spec.NodeName == n.NodeName {
		return nil // another process of ours created it meanwhile
	}
	return fmt.Errorf("node maintenance %s exists already and belongs to requestor %s for node %s; node %s is not taken out of service; "+
		"delete it, or have its requestor choose another name", name, o.Spec.RequestorID, o.Spec.NodeName, n.NodeName)
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
