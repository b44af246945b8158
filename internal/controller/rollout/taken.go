package rollout

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// SharingIn says in which namespace NodeMaintenances are shared: a node that one of them cordons is not taken.
func (r *Reconciler) SharingIn(namespace string) *Reconciler {
	r.namespace = namespace
	return r
}

// taken says who else has the nodes with a queued job on which no job of the product is at work. A node that a shared maintenance or one of
// the product cordons is nobody else's. Only while another cordoned node has a queued job the maintenances are listed, and a
// cordon that is seen for the first time is read from the API server: the cache may not know yet that the product's own has ended. A node
// of which that cannot be read is left alone; the error is for who asks for the next pass.
func (r *Reconciler) taken(ctx context.Context, f facts) (map[string]string, error) {
	placed := map[string]bool{}
	for _, p := range f.policies {
		for _, e := range p.Status.Admitted {
			placed[e.Node] = true
		}
	}
	out, unclear, cordoned := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, j := range f.jobs {
		n := f.nodes[j.Spec.NodeName]
		if n == nil || r.state(j) != schedule.Queued || placed[n.Name] || runs(f.reports[n.Name]) != "" || heldBy(f.reports[n.Name]) != "" {
			continue
		}
		if has := neighbour.Has(n); has != "" && !neighbour.MayShare(n) {
			out[n.Name] = has
		} else if has != "" || isTaken(n) {
			unclear[n.Name] = true
		}
	}
	var shared map[string]bool
	var listed error
	if len(unclear) > 0 {
		shared, listed = nodemaintenance.Nodes(ctx, r.direct, r.namespace)
	}
	failed := listed
	for name := range unclear {
		n, has, err := f.nodes[name], neighbour.Has(f.nodes[name]), listed
		if has == "" && err == nil && !shared[name] && !r.cordoned[name] {
			n, err = r.afresh(ctx, name)
			failed = errors.Join(failed, err)
		}
		switch {
		case shared[name] || n == nil && err == nil:
		case has != "":
			out[name] = has
		case err != nil:
			out[name] = fmt.Sprintf("Node %s is cordoned, and it is not known whether a NodeMaintenance does that: they cannot be read, which the operator's "+
				"log explains. Nothing is done to the node until that is known.", name)
		case isTaken(n):
			out[name], cordoned[name] = neighbour.Cordoned(n), true
		}
	}
	r.cordoned = cordoned
	return out, failed
}

// afresh reads a Node from the API server; it is nil when there is none.
func (r *Reconciler) afresh(ctx context.Context, name string) (*corev1.Node, error) {
	n := &corev1.Node{}
	err := r.direct.Get(ctx, types.NamespacedName{Name: name}, n)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return n, nil
}

// isTaken reports whether the node has a cordon that is not the operator's and under which people do not let it be updated.
func isTaken(n *corev1.Node) bool {
	return neighbour.Cordoned(n) != "" && n.Annotations[v1alpha1.CordonedAnnotation] == ""
}
