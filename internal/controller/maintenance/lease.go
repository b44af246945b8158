package maintenance

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
)

// The products of medik8s agree by a Lease on who has a Node, node-NAME in a namespace of theirs. Who has it renews it, and deletes it at the
// end; one that has run out is for whoever comes first. They leave Nodes with the label alone that would be remedied otherwise.
const (
	// holder is the product in such a Lease, leased how long it is asked for, and renewed how long one is left alone: an operator that is
	// down for less than the difference loses none.
	holder          = v1alpha1.FieldOwnerOperator
	leased, renewed = time.Hour, 20 * time.Minute

	excludeLabel, excluded = "remediation.medik8s.io/exclude-from-remediation", "true"
)

// lease is what was read of the Lease of a Node.
type lease struct {
	// object is nil where nobody has the Node.
	object *coordinationv1.Lease
	now    time.Time
	// refused says why the Lease cannot be read or written; empty where it can. Only a right that is missing counts, and not an error that
	// passes.
	refused string
}

// expires is when the Lease runs out; never was is the zero time.
func (l *lease) expires() time.Time {
	s := l.object.Spec
	if s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second)
}

func (l *lease) isOurs() bool {
	return l.object != nil && ptr.Deref(l.object.Spec.HolderIdentity, "") == holder
}

// heldBy is who else has the Node; empty for nobody.
func (l *lease) heldBy() string {
	if l == nil || l.object == nil || l.isOurs() || l.now.After(l.expires()) {
		return ""
	}
	return ptr.Deref(l.object.Spec.HolderIdentity, "somebody")
}

// signs says the same as others say it on the Node. When the Lease runs out is left out, which changes each time it is renewed.
func (l *lease) signs() []neighbour.Sign {
	if who := l.heldBy(); who != "" {
		return []neighbour.Sign{{Who: who, What: fmt.Sprintf("Lease %s/%s", l.object.Namespace, l.object.Name)}}
	}
	return nil
}

// isDue reports whether the Lease is to be taken or renewed now.
func (l *lease) isDue() bool {
	return l.refused == "" && l.heldBy() == "" && (!l.isOurs() || l.now.After(l.expires().Add(renewed-leased)))
}

// taken says why the Node cannot be had; empty where it can.
func (l *lease) taken(node string) string {
	switch who := l.heldBy(); {
	case who != "":
		return fmt.Sprintf("Somebody else has node %s: %s (Lease %s/%s, until %s). Nothing is done to it until that ends.",
			node, who, l.object.Namespace, l.object.Name, l.expires().UTC().Format(time.RFC3339))
	case l != nil && l.refused != "":
		return fmt.Sprintf("The Lease by which medik8s agrees on node %s cannot be taken: %s. Nothing is done to the node. Give the operator the "+
			"right to it, or unset --medik8s-lease-namespace.", node, l.refused)
	}
	return ""
}

// readLease reads the Lease of a Node; nil where the product agrees with nobody.
func (r *Reconciler) readLease(ctx context.Context, node string) (*lease, error) {
	if r.leases == "" {
		return nil, nil //nolint:nilnil // there is nothing to agree on
	}
	l, o := &lease{now: r.now()}, &coordinationv1.Lease{}
	switch err := r.direct.Get(ctx, client.ObjectKey{Namespace: r.leases, Name: "node-" + node}, o); {
	case err == nil:
		l.object = o
	case apierrors.IsForbidden(err):
		l.refused = err.Error()
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get lease of node %s: %w", node, err)
	}
	return l, nil
}

// take takes or renews the Lease in the version that was read. What the API server refuses for good is said in the facts.
func (r *Reconciler) take(ctx context.Context, l *lease, n *corev1.Node) error {
	at, was := metav1.NewMicroTime(l.now), l.object
	o := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.leases, Name: "node-" + n.Name}}
	if was != nil {
		o = was.DeepCopy()
	}
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
	if !l.isOurs() {
		o.Spec.AcquireTime, o.Spec.LeaseTransitions = &at, ptr.To(int32(0))
		if was != nil {
			o.Spec.LeaseTransitions = ptr.To(ptr.Deref(was.Spec.LeaseTransitions, 0) + 1)
		}
	}
	o.Spec.HolderIdentity, o.Spec.RenewTime, o.Spec.LeaseDurationSeconds = ptr.To(holder), &at, ptr.To(int32(leased.Seconds()))
	write := r.direct.Update
	if was == nil {
		write = func(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
			return r.direct.Create(ctx, o)
		}
	}
	switch err := write(ctx, o); {
	case apierrors.IsAlreadyExists(err): // somebody was quicker
		return apierrors.NewConflict(coordinationv1.Resource("leases"), o.Name, err)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err) && was == nil: // the namespace is missing
		l.refused = err.Error()
	case err != nil:
		return fmt.Errorf("take lease of node %s: %w", n.Name, err)
	}
	return nil
}

// giveBack deletes the Lease in the version that was read.
func (r *Reconciler) giveBack(ctx context.Context, l *lease) error {
	p := client.Preconditions{UID: &l.object.UID, ResourceVersion: &l.object.ResourceVersion}
	if err := client.IgnoreNotFound(r.direct.Delete(ctx, l.object, p)); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("give back lease %s: %w", l.object.Name, err)
	}
	return nil
}

// agree adds to a decision what the products of medik8s are to know: the Lease and the label while the node is out of service for a job, until
// it is returned, and neither before and afterwards, whatever became of the job meanwhile.
func agree(f facts, d decision) decision {
	if f.request == nil {
		return d
	}
	begins := d.answer != nil && d.answer.State == v1alpha1.MaintenanceDraining
	wanted := f.request.Type == v1alpha1.MaintenanceDrain && f.admitted && (f.begun() || f.drained() || begins)
	has := f.lease != nil && f.node != nil && (wanted || f.kept())
	d.take, d.giveBack = has && f.lease.isDue(), !has && f.lease != nil && f.lease.isOurs()
	if f.node != nil {
		_, labelled := f.node.Labels[excludeLabel]
		_, marked := f.node.Annotations[v1alpha1.ExcludedAnnotation]
		d.exclude, d.include = has && !labelled && !marked, !has && marked
	}
	d.renew = has
	return d
}
