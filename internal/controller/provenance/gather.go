package provenance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
)

func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{objects: map[id]object{}, now: r.now()}
	var devices v1alpha1.NodeDeviceList
	if err := r.client.List(ctx, &devices, client.MatchingFields{index.NodeName: name}, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list node devices of %s: %w", name, err)
	}
	f.devices = devices.Items
	ids := map[id]struct{}{}
	for i := range f.devices {
		if applied := f.devices[i].Status.Applied; applied != nil {
			for _, o := range applied.Origin {
				if o.Kind != v1alpha1.OriginPin {
					ids[id{o.Kind, o.Name}] = struct{}{}
				}
			}
		}
	}
	r.users.note(name, ids)
	for i := range ids {
		if err := r.read(ctx, i, f.objects); err != nil {
			return f, err
		}
	}
	firmware := &v1alpha1.NodeFirmware{}
	switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, firmware, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		return f, nil
	case err != nil:
		return f, fmt.Errorf("read node firmware %s: %w", name, err)
	}
	if firmware.DeletionTimestamp == nil {
		f.firmware = firmware
		f.objects[id{v1alpha1.OriginPin, name}] = pinsObject(firmware)
	}
	return f, nil
}

// read adds a template or a source to the objects if there is one. One that is being deleted counts as deleted.
func (r *Reconciler) read(ctx context.Context, i id, into map[id]object) error {
	var o client.Object = &v1alpha1.FirmwareTemplate{}
	switch i.kind { //nolint:exhaustive // pins are with their NodeFirmware
	case v1alpha1.OriginSource:
		o = &v1alpha1.FirmwareSource{}
	case v1alpha1.OriginConfiguration:
		o = &v1alpha1.ConfigurationTemplate{}
	}
	err := r.client.Get(ctx, client.ObjectKey{Name: i.name}, o, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) || err == nil && o.GetDeletionTimestamp() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s %s: %w", i.kind, i.name, err)
	}
	switch o := o.(type) {
	case *v1alpha1.FirmwareTemplate:
		into[i] = templateObject(o)
	case *v1alpha1.ConfigurationTemplate:
		into[i] = configurationObject(o)
	case *v1alpha1.FirmwareSource:
		into[i] = sourceObject(o)
	}
	return nil
}

// users knows which nodes have devices that refer to a template or a source, so that a change of that wakes these nodes and no
// other. A node with only references to itself takes no room.
type users struct {
	mu     sync.Mutex
	nodes  map[id]map[string]struct{}
	byNode map[string][]id
}

func newUsers() *users {
	return &users{nodes: map[id]map[string]struct{}{}, byNode: map[string][]id{}}
}

// note replaces what the node refers to. It must be called before the objects are read: a change that comes between would
// otherwise find no node to wake.
func (u *users) note(node string, ids map[id]struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, i := range u.byNode[node] {
		if _, still := ids[i]; !still {
			delete(u.nodes[i], node)
			if len(u.nodes[i]) == 0 {
				delete(u.nodes, i)
			}
		}
	}
	for i := range ids {
		if u.nodes[i] == nil {
			u.nodes[i] = map[string]struct{}{}
		}
		u.nodes[i][node] = struct{}{}
	}
	delete(u.byNode, node)
	if len(ids) > 0 {
		u.byNode[node] = slices.Collect(maps.Keys(ids))
	}
}

func (u *users) of(i id) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.nodes[i]))
}
