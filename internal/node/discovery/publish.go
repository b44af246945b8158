package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
)

// Publish brings the objects of this node up to date with the last scan and the journal. It writes only what differs. Each
// object is written on its own, so that one that the API server refuses does not keep another out of date.
func (d *Discovery) Publish(ctx context.Context) error {
	d.publishing.Lock()
	defer d.publishing.Unlock()
	snapshot, ok := d.Snapshot()
	if !ok {
		return nil
	}
	now, done, err := d.turn()
	if errors.Is(err, ErrBusy) {
		return nil // the process that has the turn publishes; a scan follows
	}
	if err != nil {
		return err
	}
	defer done()
	if d.outdated(now) {
		d.Request()
		return nil
	}
	f, err := d.gather(ctx, snapshot)
	if err != nil {
		return err
	}
	if d.declare(f) {
		d.Request()
	}
	return d.act(ctx, f, decide(f, time.Now()))
}

// gather reads the objects of this node from the cache, and the journal.
func (d *Discovery) gather(ctx context.Context, snapshot Snapshot) (facts, error) {
	f := facts{node: d.config.Node, snapshot: snapshot, settings: d.config.Settings != nil, steps: d.config.Steps, tools: d.config.Tools}
	var err error
	if f.records, err = d.records(); err != nil {
		return f, err
	}
	if f.records.held != nil && d.config.Held != nil {
		f.records.held.Look = d.config.Held()
	}
	var node corev1.Node
	switch err := d.config.Client.Get(ctx, types.NamespacedName{Name: d.config.Node}, &node); {
	case err == nil:
		f.nodeUID = node.UID
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("get Node %s: %w", d.config.Node, err)
	}
	var nfw v1alpha1.NodeFirmware
	switch err := d.config.Client.Get(ctx, types.NamespacedName{Name: d.config.Node}, &nfw); {
	case err == nil:
		f.nodeFirmware = &nfw
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("get NodeFirmware %s: %w", d.config.Node, err)
	}
	var devices v1alpha1.NodeDeviceList
	if err := d.config.Client.List(ctx, &devices); err != nil {
		return f, fmt.Errorf("list NodeDevices: %w", err)
	}
	f.devices = slices.DeleteFunc(devices.Items, func(o v1alpha1.NodeDevice) bool { return o.Spec.NodeName != d.config.Node })
	return f, nil
}

// act writes the changes and returns every failure.
func (d *Discovery) act(ctx context.Context, f facts, c changes) error {
	var failures []error
	for _, obj := range c.create {
		err := d.config.Client.Create(ctx, &obj, client.FieldOwner(v1alpha1.FieldOwnerDaemon))
		switch s := c.update[obj.Name]; {
		case apierrors.IsAlreadyExists(err): // the cache is behind, and its event brings the next pass; or it has only objects of this node
			failures = append(failures, d.taken(ctx, obj.Name))
			delete(c.update, obj.Name)
		case err != nil:
			failures = append(failures, fmt.Errorf("create NodeDevice %s: %w", obj.Name, err))
			delete(c.update, obj.Name)
		default:
			d.config.Log.Info("Found a device", "device", obj.Name)
			s.ObservedGeneration = obj.Generation
			for i := range s.Conditions {
				s.Conditions[i].ObservedGeneration = obj.Generation
			}
			c.update[obj.Name] = s
		}
	}
	// The machine comes before its devices: pins of another machine of this name must not be taken for theirs.
	if c.node != nil {
		first := *c.node
		if f.answers(c) {
			first.Requests.Scan = f.nodeFirmware.Status.Requests.Scan
		}
		err := fieldset.ApplyNode(ctx, d.config.Client, d.config.Node, first)
		failures = append(failures, client.IgnoreNotFound(err))
	}
	for _, name := range slices.Sorted(maps.Keys(c.update)) {
		err := fieldset.ApplyObservation(ctx, d.config.Client, name, c.update[name])
		failures = append(failures, client.IgnoreNotFound(err))
	}
	for _, obj := range c.remove {
		err := d.config.Client.Delete(ctx, &obj, client.Preconditions{UID: &obj.UID})
		if client.IgnoreNotFound(err) != nil {
			failures = append(failures, fmt.Errorf("delete NodeDevice %s: %w", obj.Name, err))
			continue
		}
		d.config.Log.Info("Removed a device that is gone", "device", obj.Name)
	}
	if err := errors.Join(failures...); err != nil || c.node == nil || !f.answers(c) {
		return err
	}
	return client.IgnoreNotFound(fieldset.ApplyNode(ctx, d.config.Client, d.config.Node, *c.node))
}

// taken returns an error where an object of another node has the name that a device of this one needs.
func (d *Discovery) taken(ctx context.Context, name string) error {
	var other v1alpha1.NodeDevice
	if err := d.config.Reader.Get(ctx, types.NamespacedName{Name: name}, &other); err != nil || other.Spec.NodeName == d.config.Node {
		return client.IgnoreNotFound(err)
	}
	return fmt.Errorf("create NodeDevice %s: an object of node %s has the name of a device of this node, which is not reported while it does; "+
		"find out who made it, then: kubectl delete nodedevice %[1]s", name, other.Spec.NodeName)
}

// answers reports whether the changes answer a request for a scan: that is said last, when the devices are as the scan found them.
func (f facts) answers(c changes) bool {
	return f.nodeFirmware != nil && c.node.Requests.Scan != f.nodeFirmware.Status.Requests.Scan && len(c.create)+len(c.update)+len(c.remove) > 0
}
