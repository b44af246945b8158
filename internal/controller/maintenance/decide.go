package maintenance

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/drain"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// facts is what was read about the maintenance of one node.
type facts struct {
	// request of the daemon and the last answer to one; nil when there is none.
	request *v1alpha1.MaintenanceRequest
	answer  *v1alpha1.MaintenanceAnswer
	// node is nil when there is no such Node.
	node *corev1.Node
	// admitted says that the node has an admitted job that has not given its place back.
	admitted bool
	// lease is the Lease of the Node; nil where the product agrees with nobody by Leases.
	lease *lease
	// left is what the round of eviction of this pass has left; nil when there was none.
	left *drain.Left
}

// decision is what is done next. At most one of cordon, uncordon, disown and evict is set.
type decision struct {
	// cordon writes this id into the annotation of the Node and makes it unschedulable; uncordon undoes that.
	cordon   string
	uncordon bool
	// disown removes the annotation of a Node whose cordon is not the operator's any more: somebody has uncordoned it, or cordoned it
	// again. Whether it is cordoned stays as it is.
	disown bool
	// evict does one round of eviction, after which is decided again.
	evict bool
	// answer is what the operator says when that is done; nil for nothing new.
	answer *v1alpha1.MaintenanceAnswer
	// take takes or renews the Lease of the Node, before anything is done to it; giveBack deletes it, after everything is.
	take, giveBack bool
	// exclude has medik8s leave the Node alone; include undoes that. renew says that the Lease must be looked at in time.
	exclude, include, renew bool
	// again says that the node must be looked at again soon.
	again bool
}

// decide is what is done next, for the node and for those who share it.
func decide(f facts) decision { return agree(f, drains(f)) }

// drains believes a daemon only as far as the rollout admitted its node. What is evicted is decided anew in each round: the daemon
// can write the answer too, and the job may end in the middle of the drain.
func drains(f facts) decision {
	switch {
	case f.request == nil:
		return decision{} // a request that was lost returns no node
	case f.request.Type == v1alpha1.MaintenanceRelease:
		return release(f)
	case f.node == nil:
		return say(f, v1alpha1.MaintenanceRefused, "there is no Node of that name; nothing was done")
	case f.drained():
		return drained(f)
	case !f.admitted:
		return say(f, v1alpha1.MaintenanceRefused, "the node has no admitted FirmwareJob; it is not taken out of service")
	case !f.begun() && taken(f.node) != "":
		return say(f, v1alpha1.MaintenanceRefused, taken(f.node))
	case !f.begun() && f.lease.taken(f.node.Name) != "":
		return say(f, v1alpha1.MaintenanceRefused, f.lease.taken(f.node.Name))
	case !f.begun():
		return begin(f)
	case !f.node.Spec.Unschedulable: // what is evicted could be scheduled there again
		d := say(f, v1alpha1.MaintenanceDraining, neighbour.Somebody(f.node)+" uncordoned the node; no pod is evicted until it is cordoned again")
		d.disown = f.uncordoned()
		return d
	case f.left == nil:
		return decision{evict: true}
	case f.left.Done():
		return say(f, v1alpha1.MaintenanceDrained, f.too())
	}
	return say(f, v1alpha1.MaintenanceDraining, strings.TrimSuffix(waitsFor(*f.left)+"; "+f.too(), "; "))
}

// drained names who has taken the Lease of a drained node: an operator that is down for long enough loses it. Of another Node by that name
// nothing is said.
func drained(f facts) decision {
	d := decision{}
	if (f.lease == nil || f.lease.refused == "") && f.answer.NodeUID == string(f.node.UID) {
		d = say(f, v1alpha1.MaintenanceDrained, f.too())
	}
	d.disown = f.uncordoned()
	return d
}

// too says who has the Lease of a node that is out of service; empty for nobody else.
func (f facts) too() string {
	others := f.lease.signs()
	switch {
	case len(others) == 0:
		return ""
	case f.node.Spec.Unschedulable && isOurs(f.node):
		return neighbour.Keeps(f.node, others...)
	}
	return neighbour.Names(others) + " has the node too"
}

// kept reports whether the operator's own cordon stays, at the end of a job, because somebody else has the node.
func (f facts) kept() bool {
	return f.request.Type == v1alpha1.MaintenanceRelease && f.node != nil && f.node.Spec.Unschedulable && isOurs(f.node) &&
		neighbour.Keeps(f.node, f.lease.signs()...) != ""
}

// begun reports whether this very Node was cordoned for the request, which happens once: who uncordons it later is not overruled.
func (f facts) begun() bool {
	return f.answered() && f.answer.State == v1alpha1.MaintenanceDraining && f.answer.NodeUID == string(f.node.UID)
}

// drained reports whether the request was carried out. The daemon looks at the Node itself from then on.
func (f facts) drained() bool { return f.answered() && f.answer.State == v1alpha1.MaintenanceDrained }

// uncordoned reports whether somebody has uncordoned the Node that the operator cordoned. Who cordons it then keeps it cordoned.
func (f facts) uncordoned() bool {
	return f.node != nil && !f.node.Spec.Unschedulable && f.node.Annotations[v1alpha1.CordonedAnnotation] != ""
}

func (f facts) answered() bool { return f.answer != nil && f.answer.RequestID == f.request.ID }

// taken says who else has the node; empty for nobody. The node was free when its job was admitted.
func taken(n *corev1.Node) string {
	if has := neighbour.Has(n); has != "" || isOurs(n) {
		return has
	}
	return neighbour.Cordoned(n)
}

// begin takes the node out of service. A node that somebody else has cordoned, and lets be updated, stays theirs: it gets no annotation,
// and so is not uncordoned at the end.
func begin(f facts) decision {
	d := say(f, v1alpha1.MaintenanceDraining, "the node is cordoned; its pods are evicted next")
	if !f.node.Spec.Unschedulable || isOurs(f.node) {
		d.cordon = f.request.ID
	}
	return d
}

// release returns the node to service where the operator has taken it out. While somebody else has the node, by a sign or the Lease, the operator's cordon
// stays, and who has it is said: to uncordon it would return the node under their hands, and to leave the cordon to them for ever.
func release(f facts) decision {
	if f.answered() && f.answer.State == v1alpha1.MaintenanceReleased {
		return decision{}
	}
	if f.node == nil {
		d := say(f, v1alpha1.MaintenanceReleased, "there is no Node of that name any more")
		d.again = false
		return d
	}
	signs, ours, message := neighbour.Signs(f.node), isOurs(f.node), ""
	switch {
	case f.kept():
		d := say(f, v1alpha1.MaintenanceDrained, neighbour.Keeps(f.node, f.lease.signs()...))
		d.again = true
		return d
	case ours || !f.node.Spec.Unschedulable:
	case len(signs) > 0:
		message = fmt.Sprintf("the node stays cordoned for %s", neighbour.Names(signs))
	default:
		message = "the node stays cordoned: somebody else cordoned it"
	}
	d := say(f, v1alpha1.MaintenanceReleased, message)
	_, marked := f.node.Annotations[v1alpha1.CordonedAnnotation]
	d.uncordon, d.disown, d.again = ours, marked && !ours, false
	return d
}

// say answers, unless the same was said already. All that is said but the end needs another look.
func say(f facts, state v1alpha1.MaintenanceState, message string) decision {
	a := v1alpha1.MaintenanceAnswer{RequestID: f.request.ID, State: state, Message: text.Clip(message, maxMessage)}
	if f.node != nil {
		a.NodeUID = string(f.node.UID)
	}
	d := decision{again: state != v1alpha1.MaintenanceDrained}
	if f.answer == nil || *f.answer != a {
		d.answer = &a
	}
	return d
}

const (
	maxMessage = 1024
	// namedPods bounds how many pods a message names.
	namedPods = 5
)

func waitsFor(left drain.Left) string {
	message := fmt.Sprintf("pods are still on the node: %s", text.Some(left.Pods, namedPods))
	if len(left.Pods) == 0 {
		message = "a pod is still on the node"
	}
	if left.Refusal != "" {
		message += "; not evicted: " + left.Refusal
	}
	return message
}

// fieldOwner is the field manager of the operator's cordons.
const fieldOwner = v1alpha1.FieldOwnerOperator + "-maintenance"

// isOurs reports whether the cordon of a Node is the operator's: the annotation says so, and the API server does not name somebody
// else who made the Node unschedulable. It does where a person uncordoned the Node and cordoned it again, or applies a manifest that
// cordons it. A kubectl cordon of a Node that is cordoned already changes nothing in the API, so it goes unnoticed: to keep
// such a Node cordoned, remove the annotation.
func isOurs(n *corev1.Node) bool {
	if _, marked := n.Annotations[v1alpha1.CordonedAnnotation]; !marked {
		return false
	}
	return !slices.ContainsFunc(neighbour.CordonedBy(n), func(who string) bool { return who != fieldOwner })
}
