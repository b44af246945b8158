package template

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
)

// StatusInterval is the least time between two writes of one template's status; see pace.
const StatusInterval = time.Second

const (
	// resync is how often each device and template is compared with its decision although no event asks for it, plus up to a quarter
	// of that, different for each.
	resync = 10 * time.Minute
	// workers is the number of devices written at once.
	workers = 8
)

// key is an item of the queue: a device to bring to its decision, a template whose status may be out of date, or a NodeFirmware
// whose pins may match other devices.
type key struct {
	kind kind
	name string
}

// isTemplate reports whether the item is a template of either kind.
func (k key) isTemplate() bool { return k.kind == template || k.kind == configuration }

type kind byte

const (
	device kind = iota
	template
	configuration
	pins
	// filled stands for no object. No item of the queue is taken before the index is filled, so this one says that it is.
	filled
)

// Reconciler keeps the index of the fleet and acts on its decisions.
//
// Every event changes the index at once, in the informer's handler, and puts what it affects into the queue. No decision
// is acted on before every Node, NodeFirmware, FirmwareTemplate, ConfigurationTemplate, RolloutPolicy, FirmwareSource, FirmwareQuarantine and NodeDevice
// that existed at the start is in the index: the controller runs no worker until each of its handlers has processed its whole
// first list. A half-filled index would treat templates that it does not hold yet as deleted.
type Reconciler struct {
	reader   client.Reader
	writer   Writer
	recorder events.EventRecorder
	now      func() time.Time
	// interval is StatusInterval.
	interval time.Duration

	// statuses are the templates whose status may be out of date, when they have a controller of their own.
	statuses *statusQueue

	// mu guards index, versions and paces.
	mu    sync.Mutex
	index *match.Index
	// versions are the resource versions of our own last writes, until the cache has them. While the cache shows an older
	// version of an object, nothing is written to it: the decision was acted on already.
	versions map[key]string
	// paces are how often the status of each template is written.
	paces map[key]pace
}

// New returns a reconciler that reads objects from reader, which may be a cache.
func New(reader client.Reader, writer Writer, recorder events.EventRecorder, now func() time.Time, interval time.Duration) *Reconciler {
	return &Reconciler{
		reader: reader, writer: writer, recorder: recorder, now: now, interval: interval, index: match.NewIndex(),
		versions: map[key]string{}, paces: map[key]pace{},
	}
}

// SetupWithManager adds two controllers to the manager: one writes devices, and the other the statuses of templates, which
// must not wait behind the devices of a whole fleet. Set trim.Object as the manager's cache.Options.DefaultTransform: the
// cache holds every NodeDevice and Node of the fleet. Set QPS to -1 in the manager's rest.Config so that the first
// assignment of a large fleet is limited by the API server's priority and fairness and not by the client.
func SetupWithManager(mgr manager.Manager, interval time.Duration) error {
	r := New(mgr.GetClient(), &Applier{Client: mgr.GetClient()}, mgr.GetEventRecorder(v1alpha1.FieldOwnerOperator), time.Now, interval)
	r.statuses = &statusQueue{held: map[key]struct{}{}}
	err := builder.TypedControllerManagedBy[key](mgr).Named("template-status").
		WatchesRawSource(source.TypedFunc[key](func(_ context.Context, q queue) error {
			r.statuses.open(q)
			return nil
		})).
		WithOptions(controller.TypedOptions[key]{MaxConcurrentReconciles: 2}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller of template statuses: %w", err)
	}
	return builder.TypedControllerManagedBy[key](mgr).Named("template").
		WatchesRawSource(source.TypedFunc[key](func(_ context.Context, q queue) error {
			q.Add(key{kind: filled})
			return nil
		})).
		Watches(&corev1.Node{}, intake(r, r.setNode, (*match.Index).DeleteNode)).
		Watches(&v1alpha1.NodeFirmware{}, intake(r, (*match.Index).SetNodeFirmware, (*match.Index).DeleteNodeFirmware)).
		Watches(&v1alpha1.FirmwareTemplate{}, intake(r, r.setTemplate, (*match.Index).DeleteTemplate)).
		Watches(&v1alpha1.ConfigurationTemplate{}, intake(r, r.setConfiguration, (*match.Index).DeleteConfigurationTemplate)).
		Watches(&v1alpha1.RolloutPolicy{}, intake(r, (*match.Index).SetPolicy, (*match.Index).DeletePolicy)).
		Watches(&v1alpha1.FirmwareSource{}, intake(r, (*match.Index).SetSource, (*match.Index).DeleteSource)).
		Watches(&v1alpha1.FirmwareQuarantine{}, intake(r, (*match.Index).SetQuarantine, (*match.Index).DeleteQuarantine)).
		Watches(&v1alpha1.NodeDevice{}, intake(r, (*match.Index).SetDevice, (*match.Index).DeleteDevice)).
		WithOptions(controller.TypedOptions[key]{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// setNode passes only the labels to the index, so that a heartbeat is no change.
func (r *Reconciler) setNode(ix *match.Index, n *corev1.Node) match.Affected {
	return ix.SetNode(n.Name, n.Labels)
}

// setTemplate enqueues the template after each change, those of its status included, in case another client wrote it.
func (r *Reconciler) setTemplate(ix *match.Index, t *v1alpha1.FirmwareTemplate) match.Affected {
	a := ix.SetTemplate(t)
	a.Templates = append(a.Templates, match.Ref{Kind: v1alpha1.OriginTemplate, Name: t.Name})
	return a
}

// setConfiguration is setTemplate for settings.
func (r *Reconciler) setConfiguration(ix *match.Index, t *v1alpha1.ConfigurationTemplate) match.Affected {
	a := ix.SetConfigurationTemplate(t)
	a.Templates = append(a.Templates, match.Ref{Kind: v1alpha1.OriginConfiguration, Name: t.Name})
	return a
}

type queue = workqueue.TypedRateLimitingInterface[key]

// intake makes the handler that applies the events of one kind to the index.
func intake[T client.Object](r *Reconciler, set func(*match.Index, T) match.Affected,
	remove func(*match.Index, string) match.Affected,
) handler.TypedEventHandler[client.Object, key] {
	put := func(o client.Object, q queue) {
		if t, ok := o.(T); ok {
			r.take(q, func() match.Affected { return set(r.index, t) })
		}
	}
	return handler.TypedFuncs[client.Object, key]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			put(e.Object, q)
			if k, ok := keyOf(e.Object); ok {
				r.enqueueAfter(q, k, restOf(k))
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { put(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.take(q, func() match.Affected { return remove(r.index, e.Object.GetName()) })
		},
	}
}

// keyOf is the item of an object that this controller writes.
func keyOf(o client.Object) (key, bool) {
	switch o.(type) {
	case *v1alpha1.NodeDevice:
		return key{device, o.GetName()}, true
	case *v1alpha1.FirmwareTemplate:
		return key{template, o.GetName()}, true
	case *v1alpha1.ConfigurationTemplate:
		return key{configuration, o.GetName()}, true
	case *v1alpha1.NodeFirmware:
		return key{pins, o.GetName()}, true
	}
	return key{}, false
}

// keyOfTemplate is the item of a template.
func keyOfTemplate(ref match.Ref) key {
	if ref.Kind == v1alpha1.OriginConfiguration {
		return key{configuration, ref.Name}
	}
	return key{template, ref.Name}
}

// restOf is how long an object that is up to date rests, unless an event asks for it. The time depends on the name, so that
// the objects of a fleet are not all compared at once.
func restOf(k key) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.name)) // a hash takes everything
	return resync + resync/4*time.Duration(h.Sum32()%256)/256
}

// rest is the result of a pass after which an object is up to date.
func (r *Reconciler) rest(k key) reconcile.Result {
	return reconcile.Result{RequeueAfter: restOf(k)}
}

func (r *Reconciler) take(q queue, change func() match.Affected) {
	r.mu.Lock()
	affected := change()
	r.mu.Unlock()
	if affected.Crowded != "" {
		node := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: affected.Crowded}}
		node.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeFirmware"))
		r.recorder.Eventf(node, nil, corev1.EventTypeWarning, v1alpha1.ReasonNotUpdatable, "Assign",
			"Node %s has more than %d NodeDevices; the operator assigns nothing to the others. Its daemon may be faulty or compromised: list them "+
				"with kubectl get ndev --field-selector spec.nodeName=%[1]s, and delete those that are not real hardware.", affected.Crowded, match.MaxDevices)
	}
	for _, name := range affected.Devices {
		q.Add(key{device, name})
	}
	for _, ref := range affected.Templates {
		r.enqueueAfter(q, keyOfTemplate(ref), 0)
	}
	for _, name := range affected.Nodes {
		r.enqueueAfter(q, key{pins, name}, settle)
	}
}

// enqueueAfter adds a template to the queue of the statuses, where there is one, and everything else to q.
func (r *Reconciler) enqueueAfter(q queue, k key, wait time.Duration) {
	switch {
	case k.isTemplate() && r.statuses != nil:
		r.statuses.addAfter(k, wait)
	case wait > 0:
		q.AddAfter(k, wait)
	default:
		q.Add(k)
	}
}

// Reconcile brings one device to its decision or one template's status up to date.
func (r *Reconciler) Reconcile(ctx context.Context, k key) (reconcile.Result, error) {
	switch k.kind {
	case template:
		return reconcileTemplate(ctx, r, k, &v1alpha1.FirmwareTemplate{}, firmwareTemplates)
	case configuration:
		return reconcileTemplate(ctx, r, k, &v1alpha1.ConfigurationTemplate{}, configurationTemplates)
	case pins:
		return r.reconcilePins(ctx, k)
	case filled:
		r.statuses.release()
		return reconcile.Result{}, nil
	case device:
	}
	return r.reconcileDevice(ctx, k)
}
