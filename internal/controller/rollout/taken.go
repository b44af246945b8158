package rollout

import (
	"context"
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
// cordon that is seen for the first time is read from the API server: the cache may not know yet that the product's own has ended.
func (r *Reconciler) taken(ctx context.Context, f facts) (map[string]string, error) {
	placed := map[string]bool{}
	for _, p := range f.policies {
		for _, e := range p.Status.Admitted {
			placed[e.Node] = true
		}
	}
	out, cordoned := map[string]string{}, map[string]bool{}
	for _, j := range f.jobs {
		n := f.nodes[j.Spec.NodeName]
		if n == nil || r.state(j) != schedule.Queued || placed[n.Name] || runs(f.reports[n.Name]) != "" || isHeld(f.reports[n.Name]) {
			continue
		}
		if has := neighbour.Has(n); has != "" {
			out[n.Name] = has
		} else if isTaken(n) {
			cordoned[n.Name] = true
		}
	}
	was := r.cordoned
	r.cordoned = map[string]bool{}
	if len(cordoned) == 0 {
		return out, nil
	}
	shared, err := nodemaintenance.Nodes(ctx, r.direct, r.namespace)
	if err != nil {
		return nil, err
	}
	for name := range cordoned {
		n := f.nodes[name]
		if shared[name] {
			continue
		}
		if !was[name] {
			n = &corev1.Node{}
			if err := r.direct.Get(ctx, types.NamespacedName{Name: name}, n); apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return nil, fmt.Errorf("read node %s: %w", name, err)
			}
		}
		if isTaken(n) {
			out[name], r.cordoned[name] = neighbour.Cordoned(n), true
		}
	}
	return out, nil
}

// isTaken reports whether the node has a cordon that is not the operator's and under which people do not let it be updated.
func isTaken(n *corev1.Node) bool {
	return neighbour.Cordoned(n) != "" && n.Annotations[v1alpha1.CordonedAnnotation] == ""
}
