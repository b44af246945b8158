package catalog

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// act creates the catalog, or changes the queue and then says so.
func (r *Reconciler) act(ctx context.Context, f facts, d *decision) error {
	if d.forget {
		r.discoveries.Forget(f.name)
	}
	if d.create {
		return r.create(ctx, f)
	}
	if f.catalog == nil || d.forget {
		return nil
	}
	if d.cancel {
		r.discoveries.Cancel(f.name)
	}
	if d.request {
		r.request(f, d)
	}
	d.facts.Name = f.catalog.Name
	d.status.Conditions = status.Catalog(f.catalog.Status.Conditions, f.catalog.Generation, f.now, &d.status, d.facts)
	if equality.Semantic.DeepEqual(f.catalog.Status, d.status) {
		return nil
	}
	if err := fieldset.ApplyCatalog(ctx, r.client, f.name, d.status); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.announce(f.catalog, d)
	return nil
}

// announce emits one event for each change of the reason of Ready, and one for tags that were moved, when the status is written.
func (r *Reconciler) announce(c *v1alpha1.FirmwareCatalog, d *decision) {
	if r.events == nil {
		return
	}
	if d.moved != "" {
		r.events.Eventf(c, nil, corev1.EventTypeWarning, v1alpha1.ReasonTagMoved, "Discover", "%s", d.moved)
	}
	is, was := meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	if is == nil || is.Reason == v1alpha1.ReasonProgressing || was != nil && was.Reason == is.Reason && was.Status == is.Status {
		return
	}
	kind := corev1.EventTypeNormal
	if is.Status != metav1.ConditionTrue {
		kind = corev1.EventTypeWarning
	}
	r.events.Eventf(c, nil, kind, is.Reason, "Discover", "%s", is.Message)
}

// create makes the catalog of a model whose first node has appeared. Everything but the machine is the user's.
func (r *Reconciler) create(ctx context.Context, f facts) error {
	machine, err := v1alpha1.CatalogOf(f.machine.Vendor, f.machine.Model)
	if err != nil {
		return err
	}
	return fieldset.CreateCatalog(ctx, r.client, machine)
}

// request puts a discovery into the queue.
func (r *Reconciler) request(f facts, d *decision) {
	spec := &f.catalog.Spec
	q := query(f.machine, d.kinds)
	if f.nodes == 0 { // nothing reports the machine; the catalog names it
		q.Vendor, q.Model = spec.Machine.Vendor, spec.Machine.Model
	}
	t := Task{Catalog: f.name, Spec: f.revision(), Discover: spec.Requests.Discover}
	for _, k := range d.kinds {
		t.Components = append(t.Components, k.ComponentKey)
	}
	asked := question{providers: f.providers(), query: q, versions: f.versions(), signed: map[string]time.Time{}}
	if o := f.outcome; o != nil && o.sameAs(t) {
		asked.before = o.Answers
		if o.Discover == t.Discover {
			asked.kept = fresh(o.Answers, asked.providers, f.now.Add(-f.interval()))
			if failed(o) {
				t.Failures = o.Failures + 1
			}
		}
	}
	for _, p := range d.status.Providers {
		if p.SignedTime != nil {
			asked.signed[p.Name] = p.SignedTime.Time
		}
	}
	t.Ask = func(ctx context.Context) []Answered { return r.ask(ctx, asked) }
	if r.discoveries.Request(t) == QueueFull {
		d.facts.QueueFull, d.next = true, queueAgain
		return
	}
	d.facts.Scheduled = true
}

// fresh are the answers that are younger than a time: those of providers that did not fail when another one did, which need not be
// asked again. The sources are never asked. An answer is from the second that the status gives, so that a discovery that is due asks.
func fresh(answers []Answered, providers []v1alpha1.CatalogProvider, since time.Time) []Answered {
	var out []Answered
	for _, a := range answers {
		asked := slices.ContainsFunc(providers, func(p v1alpha1.CatalogProvider) bool { return p.Name == a.Provider && isAsked(p) })
		if asked && a.Err == nil && a.At.Truncate(time.Second).After(since) {
			out = append(out, a)
		}
	}
	return out
}
