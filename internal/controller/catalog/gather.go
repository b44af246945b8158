package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/index"
)

// facts about one machine model. The objects belong to the cache and must not be changed.
type facts struct {
	name string
	// catalog is nil when there is none.
	catalog *v1alpha1.FirmwareCatalog
	// machine is what the nodes of the model report; of several spellings that have the same name always the same one.
	machine v1alpha1.Machine
	nodes   int
	devices tally
	sources []v1alpha1.FirmwareSource
	// referrers are the templates and pins that refer to a source that is to be staged and does not exist, by its name.
	referrers map[string]string
	now       time.Time
	// scheduled says that a discovery waits or runs, for the generation of the spec.
	scheduled  bool
	generation int64
	// outcome of the last discovery that this process made; nil when it made none.
	outcome *Outcome
}

func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{name: name, now: r.now(), devices: tally{}}
	var c v1alpha1.FirmwareCatalog
	switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, &c); {
	case err == nil:
		f.catalog = &c
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("get firmware catalog: %w", err)
	}
	var nodes v1alpha1.NodeFirmwareList
	if err := r.client.List(ctx, &nodes, client.MatchingFields{index.Model: name}, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list node firmware of model %s: %w", name, err)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if m := *n.Status.Machine; f.nodes == 0 || m.Vendor+m.Model < f.machine.Vendor+f.machine.Model {
			f.machine = m
		}
		f.nodes++
		var devices v1alpha1.NodeDeviceList
		if err := r.client.List(ctx, &devices, client.MatchingFields{index.NodeName: n.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return f, fmt.Errorf("list node devices of node %s: %w", n.Name, err)
		}
		f.devices.add(devices.Items)
	}
	var sources v1alpha1.FirmwareSourceList
	if err := r.client.List(ctx, &sources, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list firmware sources: %w", err)
	}
	f.sources = sources.Items
	if err := r.gatherReferrers(ctx, &f); err != nil {
		return f, err
	}
	f.generation, f.scheduled = r.discoveries.Scheduled(name)
	if o, ok := r.discoveries.Outcome(name); ok {
		f.outcome = &o
	}
	return f, nil
}

// gatherReferrers finds who refers to what is to be staged.
func (r *Reconciler) gatherReferrers(ctx context.Context, f *facts) error {
	if f.catalog == nil {
		return nil
	}
	f.referrers = map[string]string{}
	var templates v1alpha1.FirmwareTemplateList
	for _, s := range f.catalog.Spec.Stage {
		if f.source(s.Source) != nil {
			continue
		}
		if templates.Items == nil {
			if err := r.client.List(ctx, &templates, client.UnsafeDisableDeepCopy); err != nil {
				return fmt.Errorf("list firmware templates: %w", err)
			}
		}
		for i := range templates.Items {
			t := &templates.Items[i]
			if slices.ContainsFunc(t.Spec.Rules, func(d v1alpha1.FirmwareRule) bool { return d.SourceRef.Name == s.Source }) {
				f.referrers[s.Source] = "template " + t.Name
			}
		}
		var pinned v1alpha1.NodeFirmwareList
		if err := r.client.List(ctx, &pinned, client.MatchingFields{index.PinnedSource: s.Source}, client.Limit(1), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list node firmware with pins to source %s: %w", s.Source, err)
		}
		if len(pinned.Items) > 0 {
			f.referrers[s.Source] = "a pin of NodeFirmware " + pinned.Items[0].Name
		}
	}
	return nil
}

// source is the source of that name; nil when there is none.
func (f *facts) source(name string) *v1alpha1.FirmwareSource {
	for i := range f.sources {
		if f.sources[i].Name == name {
			return &f.sources[i]
		}
	}
	return nil
}

// nameOf is the name of the catalog of a node; empty when there can be none.
func nameOf(n *v1alpha1.NodeFirmware) string {
	if names := index.ByModel(n); len(names) > 0 {
		return names[0]
	}
	return ""
}
