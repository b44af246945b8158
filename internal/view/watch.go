package view

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// watched are the kinds that the picture is made from.
func watched() []kind {
	return []kind{
		{&corev1.Node{}, &corev1.NodeList{}}, {&v1alpha1.NodeFirmware{}, &v1alpha1.NodeFirmwareList{}}, {&v1alpha1.NodeDevice{}, &v1alpha1.NodeDeviceList{}},
		{&v1alpha1.FirmwareJob{}, &v1alpha1.FirmwareJobList{}}, {&v1alpha1.RolloutPolicy{}, &v1alpha1.RolloutPolicyList{}},
		{&v1alpha1.FirmwareTemplate{}, &v1alpha1.FirmwareTemplateList{}}, {&v1alpha1.ConfigurationTemplate{}, &v1alpha1.ConfigurationTemplateList{}},
		{&v1alpha1.FirmwareSource{}, &v1alpha1.FirmwareSourceList{}},
		{&v1alpha1.FirmwareCatalog{}, &v1alpha1.FirmwareCatalogList{}}, {&v1alpha1.FirmwareQuarantine{}, &v1alpha1.FirmwareQuarantineList{}},
	}
}

type kind struct {
	object client.Object
	list   client.ObjectList
}

// name of the kind, as in NodeDevice.
func (k kind) name() string { return strings.TrimPrefix(fmt.Sprintf("%T", k.object)[1:], "v1alpha1.") }

// cluster holds the objects of the API server as they are now.
type cluster struct {
	stores []cache.Store
	// changed has a token when anything changed that no picture was made from.
	changed chan struct{}
	// failed has the first error before everything was read once.
	failed chan error

	mu sync.Mutex
	// broken are the kinds that cannot be read now.
	broken map[string]error
	since  time.Time
	now    func() time.Time
}

// connect reads all objects and follows them until ctx ends. The first error ends it; later ones are told by outage.
func connect(ctx context.Context, api client.WithWatch, now func() time.Time) (*cluster, error) {
	c := &cluster{changed: make(chan struct{}, 1), failed: make(chan error, 1), broken: map[string]error{}, now: now}
	ctx = klog.NewContext(ctx, logr.Discard()) // what goes wrong is told to the person who looks
	var synced []cache.InformerSynced
	for _, k := range watched() {
		store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: c.reader(api, k), ObjectType: k.object, Transform: thin,
			Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(any) { c.touch() }, UpdateFunc: c.update, DeleteFunc: func(any) { c.touch() }},
		})
		c.stores = append(c.stores, store)
		synced = append(synced, informer.HasSynced)
		go informer.RunWithContext(ctx)
	}
	done := make(chan bool, 1)
	go func() { done <- cache.WaitForCacheSync(ctx.Done(), synced...) }()
	select {
	case err := <-c.failed:
		return nil, err
	case <-done:
		return c, ctx.Err()
	}
}

// reader lists and watches a kind, and notes whether that works.
func (c *cluster) reader(api client.WithWatch, k kind) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := k.list.DeepCopyObject().(client.ObjectList)
			err := api.List(ctx, list, &client.ListOptions{Raw: &o, Limit: o.Limit, Continue: o.Continue})
			c.note(ctx, k, err)
			if err != nil {
				return list, err
			}
			return list, meta.EachListItem(list, func(o runtime.Object) error { // before all pages are there
				_, err := thin(o)
				return err
			})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := api.Watch(ctx, k.list.DeepCopyObject().(client.ObjectList), &client.ListOptions{Raw: &o})
			if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // one without such watches is asked for a list next
				c.note(ctx, k, err)
			}
			return w, err
		},
	}, api)
}

// note remembers whether a kind can be read.
func (c *cluster) note(ctx context.Context, k kind, err error) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		if _, was := c.broken[k.name()]; was {
			delete(c.broken, k.name())
			c.touch()
		}
		return
	}
	select {
	case c.failed <- err:
	default:
	}
	if len(c.broken) == 0 {
		c.since = c.now()
	}
	c.broken[k.name()] = err
	c.touch()
}

// outage is since when objects cannot be read, and one of the errors; nil where all can.
func (c *cluster) outage() (since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range watched() {
		if err := c.broken[k.name()]; err != nil {
			return c.since, err
		}
	}
	return time.Time{}, nil
}

// update of an object. A kubelet writes its Node every few minutes, and of that the picture has the labels alone.
func (c *cluster) update(was, is any) {
	before, node := was.(*corev1.Node)
	if node && maps.Equal(before.Labels, is.(*corev1.Node).Labels) {
		return
	}
	c.touch()
}

func (c *cluster) touch() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// objects are those of now. They are shared, and nobody changes them.
func (c *cluster) objects() *Objects {
	out := &Objects{}
	for _, s := range c.stores {
		for _, o := range s.List() {
			switch o := o.(type) {
			case *corev1.Node:
				out.Nodes = append(out.Nodes, o)
			case *v1alpha1.NodeFirmware:
				out.Firmware = append(out.Firmware, o)
			case *v1alpha1.NodeDevice:
				out.Devices = append(out.Devices, o)
			case *v1alpha1.FirmwareJob:
				out.Jobs = append(out.Jobs, o)
			case *v1alpha1.RolloutPolicy:
				out.Policies = append(out.Policies, o)
			case *v1alpha1.FirmwareTemplate:
				out.Templates = append(out.Templates, o)
			case *v1alpha1.ConfigurationTemplate:
				out.Settings = append(out.Settings, o)
			case *v1alpha1.FirmwareSource:
				out.Sources = append(out.Sources, o)
			case *v1alpha1.FirmwareCatalog:
				out.Catalogs = append(out.Catalogs, o)
			case *v1alpha1.FirmwareQuarantine:
				out.Quarantines = append(out.Quarantines, o)
			}
		}
	}
	out.sort()
	return out
}
