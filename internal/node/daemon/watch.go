package daemon

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
)

// AddDiscovery lets the manager run the publisher of a discovery and notify it of changed objects. Scans run outside
// the manager, because they need no API server.
func AddDiscovery(ctx context.Context, m ctrl.Manager, d *discovery.Discovery) error {
	if err := watchObjects(ctx, m.GetCache(), d); err != nil {
		return err
	}
	if err := m.Add(manager.RunnableFunc(d.RunPublisher)); err != nil {
		return fmt.Errorf("add publisher: %w", err)
	}
	return nil
}

// watchObjects notifies the discovery when an object of this node changes. A Node's heartbeats are ignored: only the
// existence of the Node matters.
func watchObjects(ctx context.Context, c cache.Cache, d *discovery.Discovery) error {
	changed := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { d.Changed() },
		UpdateFunc: func(any, any) { d.Changed() },
		DeleteFunc: func(any) { d.Changed() },
	}
	settings := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { follow(d, obj); d.Changed() },
		UpdateFunc: func(_, obj any) { follow(d, obj); d.Changed() },
		DeleteFunc: func(any) { d.Changed() },
	}
	for _, watch := range []struct {
		kind    client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&v1alpha1.NodeDevice{}, changed},
		{&v1alpha1.NodeFirmware{}, settings},
		{&corev1.Node{}, toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { d.Changed() }}},
	} {
		informer, err := c.GetInformer(ctx, watch.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", watch.kind, err)
		}
		if _, err := informer.AddEventHandler(watch.handler); err != nil {
			return fmt.Errorf("watch %T: %w", watch.kind, err)
		}
	}
	return nil
}

func follow(d *discovery.Discovery, obj any) {
	if nfw, ok := obj.(*v1alpha1.NodeFirmware); ok {
		d.Follow(nfw)
	}
}
