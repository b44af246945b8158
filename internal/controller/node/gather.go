package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// facts are the Node and the other objects that bear one node's name.
type facts struct {
	name string
	// node is nil when the API server says that there is none.
	node *corev1.Node
	// firmware is nil when there is none.
	firmware *v1alpha1.NodeFirmware
	// left says that something may be left of a Node that is gone, and that devices and jobs were read.
	left    bool
	devices []v1alpha1.NodeDevice
	jobs    []v1alpha1.FirmwareJob
}

// gather reads the cache first: for a Node that exists and has its NodeFirmware that is all.
func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f, err := read(ctx, r.cached, name)
	if err != nil || f.node != nil && (f.firmware == nil || !foreign(f.firmware, f.node)) {
		return f, err
	}
	if f, err = read(ctx, r.direct, name); err != nil {
		return f, err
	}
	f.left = f.node == nil || f.firmware != nil && foreign(f.firmware, f.node)
	if !f.left {
		return f, nil
	}
	ofNode := client.MatchingFields{"spec.nodeName": name}
	var devices v1alpha1.NodeDeviceList
	if err := r.direct.List(ctx, &devices, ofNode); err != nil {
		return f, fmt.Errorf("list node devices of node %s: %w", name, err)
	}
	var jobs v1alpha1.FirmwareJobList
	if err := r.direct.List(ctx, &jobs, ofNode); err != nil {
		return f, fmt.Errorf("list firmware jobs of node %s: %w", name, err)
	}
	f.devices, f.jobs = devices.Items, jobs.Items
	return f, nil
}

func read(ctx context.Context, from client.Reader, name string) (facts, error) {
	f := facts{name: name, node: &corev1.Node{}, firmware: &v1alpha1.NodeFirmware{}}
	key := client.ObjectKey{Name: name}
	if err := from.Get(ctx, key, f.node); apierrors.IsNotFound(err) {
		f.node = nil
	} else if err != nil {
		return f, fmt.Errorf("read node %s: %w", name, err)
	}
	if err := from.Get(ctx, key, f.firmware); apierrors.IsNotFound(err) {
		f.firmware = nil
	} else if err != nil {
		return f, fmt.Errorf("read node firmware %s: %w", name, err)
	}
	return f, nil
}

// ownerOf is the uid of the Node that owns an object; empty when none does.
func ownerOf(o metav1.Object) types.UID {
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "Node" && owner.APIVersion == "v1" {
			return owner.UID
		}
	}
	return ""
}

// foreign reports whether an object is owned by an earlier Node of the same name.
func foreign(o metav1.Object, n *corev1.Node) bool {
	owner := ownerOf(o)
	return owner != "" && owner != n.UID
}
