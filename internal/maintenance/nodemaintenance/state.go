package nodemaintenance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

const notInstalledGuide = "the cluster has no NodeMaintenance API; install the maintenance-operator, nothing is done without it"

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
	case !held.owned && !held.joined:
		return n.none(ctx, o)
	case o.DeletionTimestamp != nil && !held.joined && len(o.Spec.AdditionalRequestors) > 0:
		return n.none(ctx, o) // the others return the node when they are done
	case o.DeletionTimestamp != nil && !(held.joined && drained(o)):
		return stateOf(step.MaintenanceEnding, "node maintenance %s is being deleted", o.Name), nil
	}
	node, err := n.node(ctx)
	if err != nil {
		return maintenance.State{}, err
	}
	state := stateOf(step.MaintenanceRequested, "node maintenance %s %s", o.Name, held.waitsFor())
	switch {
	case drained(o) && len(leftBehind(o)) > 0:
		state.Message = fmt.Sprintf("node maintenance %s is ready, but its drain left pods on the node: %s; if they stay, delete them "+
			"and the node maintenance", o.Name, text.Some(leftBehind(o), namedPods))
	case drained(o):
		state = ready(o, node)
		if held.owned && failed(o) && state.Phase == step.MaintenanceReady {
			state.Phase, state.Message = step.MaintenanceRequested, fmt.Sprintf("node maintenance %s keeps the node out of service after a failure", o.Name)
		}
	}
	state.Message += keeps(o, node)
	return state, nil
}

// keeps says, to be added to what is said of a maintenance, who else has a Node that one of our own cordoned; empty for nobody. Node may be nil.
func keeps(o *mo.NodeMaintenance, node *corev1.Node) string {
	if node == nil || !node.Spec.Unschedulable || o.Spec.RequestorID != v1alpha1.MaintenanceRequestorID || o.Annotations[InitialStateAnnotation] != "false" ||
		neighbour.Has(node) == "" {
		return ""
	}
	return "; " + neighbour.Keeps(node)
}

// waitsFor says what the maintenance-operator waits for. Its condition has no message.
func (f found) waitsFor() string {
	o := f.object
	switch r := reason(o); r {
	case mo.ConditionReasonUninitialized:
		return "has not been picked up by the maintenance-operator yet; check that it is running"
	case mo.ConditionReasonPending:
		if first := f.first; first != nil {
			return fmt.Sprintf("is queued behind node maintenance %s of %s, which is in the state %s; the maintenance-operator does one of a node at a time",
				first.Name, first.Spec.RequestorID, reason(first))
		}
		return "is queued: no slot of the maintenance-operator is free; maxParallelOperations (1 by default) and maxUnavailable of its " +
			"MaintenanceOperatorConfig limit how many nodes are in maintenance"
	case mo.ConditionReasonWaitForPodCompletion:
		return "waits for pods to complete: " + text.Some(o.Status.WaitForCompletion, namedPods)
	case mo.ConditionReasonDraining:
		if o.Status.Drain == nil || len(o.Status.Drain.WaitForEviction) == 0 {
			return "is draining the node"
		}
		pods := o.Status.Drain.WaitForEviction
		return fmt.Sprintf("is draining the node: %d pods are still to be evicted: %s; if they stay, look at their PodDisruptionBudgets",
			len(pods), text.Some(pods, namedPods))
	default:
		return "is not ready: " + r
	}
}

// leftBehind are the pods that the maintenance-operator found to be taken away when its drain had ended.
func leftBehind(o *mo.NodeMaintenance) []string {
	if o.Status.Drain == nil {
		return nil
	}
	return o.Status.Drain.WaitForEviction
}

// namedPods bounds how many pods a message names.
const namedPods = 5

// ready looks at the Node itself. The maintenance-operator cordons and drains it once and does not look again: a Node that
// somebody uncordoned, or that was registered again, takes workloads under a maintenance that is ready.
func ready(o *mo.NodeMaintenance, node *corev1.Node) maintenance.State {
	switch {
	case node == nil:
		return stateOf(step.MaintenanceBroken, "node maintenance %s is ready, but the Node %s does not exist", o.Name, o.Spec.NodeName)
	case !node.Spec.Unschedulable:
		return stateOf(step.MaintenanceBroken, "node maintenance %s is ready, but the Node %s is not cordoned; %s uncordoned it or "+
			"it was registered again, and workloads may run there", o.Name, o.Spec.NodeName, neighbour.Somebody(node))
	}
	state := stateOf(step.MaintenanceReady, "node maintenance %s is ready", o.Name)
	if o.DeletionTimestamp != nil {
		state.Message = fmt.Sprintf("node maintenance %s was deleted by someone else and is kept until this product has finished", o.Name)
	}
	state.Node = string(node.UID)
	if o.Annotations[InitialStateAnnotation] == "false" {
		state.Cordon = cordonOf(node)
	}
	return state
}

// cordon says whose the cordon of a Node is.
type cordon int

const (
	// unknown: the Node is not cordoned, or there is no telling.
	unknown cordon = iota
	// ours: a maintenance of the product made it.
	ours
	// others: somebody else has cordoned the Node since.
	others
)

// cordonOf is what identifies the cordon of the Node.
func cordonOf(node *corev1.Node) maintenance.Cordon {
	return maintenance.Cordon{Node: string(node.UID), By: strings.Join(neighbour.CordonedBy(node), ",")}
}

// whose compares the cordon of the Node with what is remembered. Node may be nil.
func (n *Node) whose(node *corev1.Node) (cordon, error) {
	switch {
	case node == nil || !node.Spec.Unschedulable:
		return unknown, nil
	case n.Was == nil:
		return unknown, nil
	}
	was, err := n.Was()
	switch is := cordonOf(node); {
	case err != nil:
		return unknown, fmt.Errorf("recall the cordon of node %s: %w", n.NodeName, err)
	case was.Node != is.Node || was.By == "" || is.By == "":
		return unknown, nil
	case was == is:
		return ours, nil
	}
	return others, nil
}

// none says why the node takes no workloads though the product has no maintenance of it; other is somebody else's, or nil. There is
// nothing to say about a node in service.
func (n *Node) none(ctx context.Context, other *mo.NodeMaintenance) (maintenance.State, error) {
	node, err := n.node(ctx)
	if err != nil {
		return maintenance.State{}, err
	}
	if other == nil {
		switch whose, err := n.whose(node); {
		case err != nil:
			return maintenance.State{}, err
		case whose == ours:
			state := stateOf(step.MaintenanceEnding, "the maintenance of node %s was removed by force and left the node cordoned", n.NodeName)
			if has := neighbour.Keeps(node); has != "" { // what ends the cordon is requested when they are done
				state.Message += "; " + has
			}
			return state, nil
		}
	}
	var is string
	switch {
	case node == nil:
		is = "does not exist"
	case !node.Spec.Unschedulable && neighbour.Has(node) == "":
		return maintenance.State{Phase: step.MaintenanceNone}, nil
	case neighbour.Has(node) != "":
		is = "is left to " + neighbour.Names(neighbour.Signs(node))
	case other != nil:
		is = fmt.Sprintf("stays cordoned by node maintenance %s of %s", other.Name, other.Spec.RequestorID)
		if more := besides(other); len(more) > 0 {
			is += " and " + text.Some(more, namedPods)
		}
	case neighbour.Cordoned(node) == "":
		is = "stays cordoned by somebody else"
	default:
		is = fmt.Sprintf("stays cordoned by somebody else; to return it to service, run: kubectl uncordon %s  To have it updated as it is: "+
			"kubectl annotate node %s %s=true", n.NodeName, n.NodeName, v1alpha1.UpdateWhileCordonedAnnotation)
	}
	return stateOf(step.MaintenanceNone, "the product has no maintenance of node %s, which %s", n.NodeName, is), nil
}

// node reads the Node; it is nil when there is none.
func (n *Node) node(ctx context.Context) (*corev1.Node, error) {
	var node corev1.Node
	err := n.Client.Get(ctx, client.ObjectKey{Name: n.NodeName}, &node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get node %s: %w", n.NodeName, err)
	}
	return &node, nil
}

func stateOf(phase step.Maintenance, format string, args ...any) maintenance.State {
	return maintenance.State{Phase: phase, Message: fmt.Sprintf(format, args...)}
}

const nodeNameField = "spec.nodeName"

// found is the relevant NodeMaintenance of the node: our own, else the one we joined, else one we could join, else any other.
type found struct {
	object *mo.NodeMaintenance
	// owned says that we requested it, joined that additionalRequestors names us, and joinable that it may be joined.
	owned, joined, joinable bool
	// first is another one of the node that the maintenance-operator does before it; nil for none.
	first *mo.NodeMaintenance
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
	out := slices.MinFunc(all, func(a, b found) int {
		return cmp.Or(-cmp.Compare(a.rank(), b.rank()), -cmp.Compare(progress(a.object), progress(b.object)), cmp.Compare(a.object.Name, b.object.Name))
	})
	for _, f := range all {
		if f.object.Name != out.object.Name && f.goesBefore(out) && (out.first == nil || f.goesBefore(found{object: out.first})) {
			out.first = f.object
		}
	}
	return out, nil
}

// goesBefore reports whether the maintenance-operator has begun the one and not the other, or would begin it sooner.
func (f found) goesBefore(other found) bool {
	begun := func(o *mo.NodeMaintenance) bool {
		return drained(o) || progress(o) > progressOf(mo.ConditionReasonPending)
	}
	if a, b := begun(f.object), begun(other.object); a != b {
		return a
	}
	return f.object.CreationTimestamp.Before(&other.object.CreationTimestamp)
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
func progress(o *mo.NodeMaintenance) int { return progressOf(reason(o)) }

func progressOf(reason string) int {
	return slices.Index([]string{
		mo.ConditionReasonUninitialized, mo.ConditionReasonPending, mo.ConditionReasonScheduled, mo.ConditionReasonCordon,
		mo.ConditionReasonWaitForPodCompletion, mo.ConditionReasonDraining, mo.ConditionReasonReady,
	}, reason)
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

// besides are the additional requestors besides us.
func besides(o *mo.NodeMaintenance) []string {
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
