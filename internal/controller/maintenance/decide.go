package maintenance

import (
	"fmt"
	"slices"

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
	// again says that the node must be looked at again soon.
	again bool
}

// decide believes a daemon only as far as the rollout admitted its node. What is evicted is decided anew in each round: the daemon
// can write the answer too, and the job may end in the middle of the drain.
func decide(f facts) decision {
	switch {
	case f.request == nil:
		return decision{} // a request that was lost returns no node
	case f.request.Type == v1alpha1.MaintenanceRelease:
		return release(f)
	case f.node == nil:
		return say(f, v1alpha1.MaintenanceRefused, "there is no Node of that name; nothing was done")
	case f.drained():
		return decision{disown: f.uncordoned()}
	case !f.admitted:
		return say(f, v1alpha1.MaintenanceRefused, "the node has no admitted FirmwareJob; it is not taken out of service")
	case !f.begun() && taken(f.node) != "":
		return say(f, v1alpha1.MaintenanceRefused, taken(f.node))
	case !f.begun():
		return begin(f)
	case !f.node.Spec.Unschedulable: // what is evicted could be scheduled there again
		d := say(f, v1alpha1.MaintenanceDraining, neighbour.Somebody(f.node)+" uncordoned the node; no pod is evicted until it is cordoned again")
		d.disown = f.uncordoned()
		return d
	case f.left == nil:
		return decision{evict: true}
	case f.left.Done():
		return say(f, v1alpha1.MaintenanceDrained, "")
	}
	return say(f, v1alpha1.MaintenanceDraining, waitsFor(*f.left))
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

// release returns the node to service where the operator has taken it out.
func release(f facts) decision {
	if f.answered() && f.answer.State == v1alpha1.MaintenanceReleased {
		return decision{}
	}
	if f.node == nil {
		d := say(f, v1alpha1.MaintenanceReleased, "there is no Node of that name any more")
		d.again = false
		return d
	}
	signs := neighbour.Signs(f.node) // none when it was cordoned
	ours := isOurs(f.node) && len(signs) == 0
	message := ""
	switch {
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
