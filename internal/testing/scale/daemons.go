package scale

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// daemons play the daemons of all nodes: they report each node once, see each new spec of a device, and execute each admitted
// job. They write as daemons do and with the same field manager.
type daemons struct {
	client client.Client
	// cached has what the watches have shown; a daemon reads its objects from a cache, too.
	cached client.Reader
	seen   *seen
	// takes is how long a job takes from its start to its end.
	takes time.Duration
	queue workqueue.TypedRateLimitingInterface[task]
	// failed has the first error.
	failed chan error
}

// task is a node to report, a device whose spec changed, or a job that was admitted.
type task struct {
	kind kind
	name string
}

type kind int

const (
	node kind = iota
	device
	job
)

func newDaemons(c client.Client, cached client.Reader, s *seen, takes time.Duration) *daemons {
	return &daemons{
		client: c, cached: cached, seen: s, takes: takes, failed: make(chan error, 1),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[task]()),
	}
}

// watch makes the daemons and the statistics see all changes of all objects.
func (d *daemons) watch(ctx context.Context, objects ctrlcache.Cache) error {
	for _, o := range []client.Object{
		&v1alpha1.NodeFirmware{}, &v1alpha1.NodeDevice{}, &v1alpha1.FirmwareJob{}, &v1alpha1.RolloutPolicy{},
		&v1alpha1.FirmwareTemplate{}, &v1alpha1.FirmwareSource{}, &v1alpha1.FirmwareCatalog{}, &eventsv1.Event{},
	} {
		informer, err := objects.GetInformer(ctx, o)
		if err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
		changed := func(o any) {
			if o, ok := o.(client.Object); ok {
				d.seen.note(o)
				d.enqueue(o)
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: changed, UpdateFunc: func(_, o any) { changed(o) }, DeleteFunc: d.seen.forget,
		}); err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
	}
	return nil
}

func (d *daemons) enqueue(o client.Object) {
	switch o := o.(type) {
	case *v1alpha1.NodeFirmware:
		if o.Status.LastScanTime == nil {
			d.queue.Add(task{node, o.Name})
		}
	case *v1alpha1.NodeDevice:
		if o.Status.ObservedGeneration < o.Generation {
			d.queue.Add(task{device, o.Name})
		}
	case *v1alpha1.FirmwareJob:
		if o.Admitted() && !o.Ended() {
			d.queue.Add(task{job, o.Name})
		}
	}
}

// run executes what is enqueued until the context ends.
func (d *daemons) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range loaders {
		workers.Go(func() {
			for {
				t, down := d.queue.Get()
				if down {
					return
				}
				err := d.do(ctx, t)
				d.queue.Done(t)
				switch {
				case ctx.Err() != nil:
				case apierrors.IsConflict(err): // the cache is behind
					d.queue.AddAfter(t, 100*time.Millisecond)
				case client.IgnoreNotFound(err) != nil:
					select {
					case d.failed <- err:
					default:
					}
				}
			}
		})
	}
	<-ctx.Done()
	d.queue.ShutDown()
	workers.Wait()
}

func (d *daemons) do(ctx context.Context, t task) error {
	switch t.kind {
	case node:
		now := metav1.Now()
		return fieldset.ApplyNode(ctx, d.client, t.name, v1alpha1.NodeFirmwareStatus{
			LastScanTime: &now, BootID: "boot-of-" + t.name,
			Machine: &v1alpha1.Machine{Vendor: "Lenovo", Model: "7X21", SerialNumber: t.name},
		})
	case device:
		return d.observe(ctx, t.name, "")
	case job:
	}
	return d.execute(ctx, t.name)
}

// observe reports a device as it is, or with the version that a job brought to run.
func (d *daemons) observe(ctx context.Context, name, running string) error {
	o := &v1alpha1.NodeDevice{}
	if err := d.cached.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
		return err
	}
	if running == "" {
		running = o.Status.Firmware.Running
	}
	nr, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return fmt.Errorf("number of device %s: %w", name, err)
	}
	return fieldset.ApplyObservation(ctx, d.client, name, observed(name, nr, o.Generation, running))
}

// execute plays an admitted job: it starts it, and when the watch shows that, and its time is over, brings it to its end.
func (d *daemons) execute(ctx context.Context, name string) error {
	o := &v1alpha1.FirmwareJob{}
	if err := d.cached.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
		return err
	}
	if !o.Admitted() || o.Ended() {
		return nil
	}
	s, now := o.Status, metav1.Now()
	if s.StartTime == nil {
		s.StartTime = &now
		s.ObservedGeneration, s.Conditions = o.Generation, status.Job(status.JobFacts{Step: "flash"}, s.Conditions, o.Generation, now.Time)
		_, err := fieldset.ApplyExecution(ctx, d.client, o, s)
		return err
	}
	if left := s.StartTime.Add(d.takes).Sub(now.Time); left > 0 {
		d.queue.AddAfter(task{job, name}, left)
		return nil
	}
	for _, u := range o.Spec.Task.Devices {
		if err := d.observe(ctx, u.Name, u.Version); err != nil {
			return err
		}
	}
	now = metav1.Now()
	s.CompletionTime = &now
	s.Conditions = status.Job(status.JobFacts{Outcome: step.Complete, Summary: "Played by the loader."}, s.Conditions, o.Generation, now.Time)
	_, err := fieldset.ApplyExecution(ctx, d.client, o, s)
	return err
}
