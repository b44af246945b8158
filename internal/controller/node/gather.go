package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// facts are the Node and the other objects that bear one node's name.
type facts struct {
	name string
	// joined says that the Node joined while its name was looked at; nothing else is known then.
	joined bool
	// node is nil when the API server says that there is none.
	node *corev1.Node
	// firmware is nil when there is none.
	firmware *v1alpha1.NodeFirmware
	// silence is why the daemon does not report; nil where no report is overdue, or its pod is ready.
	silence *status.Silence
	// goneSince is when this process first saw that the Node is gone, and retention how long its history is kept then. The
	// devices and jobs are those that are left of it.
	goneSince time.Time
	now       time.Time
	retention time.Duration
	devices   []v1alpha1.NodeDevice
	jobs      []v1alpha1.FirmwareJob
}

// gather reads the cache first: for a Node that exists and has its NodeFirmware that is all.
func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f, err := read(ctx, r.cached, name)
	if err == nil && f.node == nil {
		f, err = read(ctx, r.direct, name)
	}
	if err != nil {
		return f, err
	}
	f.now, f.retention = r.now(), r.retention
	f.goneSince = r.since(f)
	if f.node != nil {
		if f.firmware != nil && overdue(f.firmware, f.now) >= 0 {
			f.silence, err = r.silence(ctx, f.node, f.firmware)
		}
		return f, err
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
	// What is listed may be of a Node that joined after it was looked for. Its event brings it here again.
	switch err := r.direct.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{}); {
	case err == nil:
		return facts{name: name, joined: true}, nil
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("read node %s again: %w", name, err)
	}
	f.devices, f.jobs = devices.Items, jobs.Items
	if f.firmware == nil && len(f.devices) == 0 && len(f.jobs) == 0 {
		r.forget(name)
	}
	return f, nil
}

// since is when this process first saw that the Node is gone; zero while it exists.
func (r *Reconciler) since(f facts) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.node != nil {
		delete(r.gone, f.name)
		return time.Time{}
	}
	if _, known := r.gone[f.name]; !known {
		r.gone[f.name] = f.now
	}
	return r.gone[f.name]
}

// forget drops what is remembered of a Node that is gone, when nothing of it is left: its name may never return.
func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gone, name)
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
