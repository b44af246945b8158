package catalog

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

// facts about one machine model. The objects belong to the cache and must not be changed.
type facts struct {
	name string
	// catalog is nil when there is none.
	catalog *v1alpha1.FirmwareCatalog
	// common is the catalog default; nil when there is none.
	common *v1alpha1.FirmwareCatalog
	// machine is what the nodes of the model report; of several spellings that have the same name always the same one.
	machine v1alpha1.Machine
	nodes   int
	devices tally
	sources []v1alpha1.FirmwareSource
	// bad are the quarantined images.
	bad quarantine.Set
	now time.Time
	// scheduled says that a discovery waits or runs, for that revision of the spec.
	scheduled bool
	forSpec   Revision
	// outcome of the last discovery that this process made; nil when it made none.
	outcome *Outcome
}

func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f := facts{name: name, now: r.now(), devices: tally{}}
	var err error
	if f.catalog, err = r.get(ctx, name); err != nil || name == v1alpha1.DefaultCatalog {
		return f, err
	}
	if f.common, err = r.get(ctx, v1alpha1.DefaultCatalog); err != nil {
		return f, err
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
	var quarantines v1alpha1.FirmwareQuarantineList
	if err := r.client.List(ctx, &quarantines, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("list firmware quarantines: %w", err)
	}
	f.bad = quarantine.Compute(quarantine.Facts{Quarantines: quarantines.Items})
	f.forSpec, f.scheduled = r.discoveries.Scheduled(name)
	if o, ok := r.discoveries.Outcome(name); ok {
		f.outcome = &o
	}
	return f, nil
}

// get returns a catalog; nil when there is none.
func (r *Reconciler) get(ctx context.Context, name string) (*v1alpha1.FirmwareCatalog, error) {
	var c v1alpha1.FirmwareCatalog
	switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, &c); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get firmware catalog %s: %w", name, err)
	}
	return &c, nil
}

// Revision of what a catalog is to look for: of its own spec, and of that of the catalog default.
type Revision struct {
	own, common int64
	// commonUID tells a catalog default from one that was deleted.
	commonUID types.UID
}

func (f *facts) revision() Revision {
	out := Revision{own: f.catalog.Generation}
	if f.common != nil {
		out.common, out.commonUID = f.common.Generation, f.common.UID
	}
	return out
}

// defaults of what neither a catalog nor the catalog default says.
const (
	defaultInterval = 24 * time.Hour
	defaultVersions = 5
)

// providers are those of the spec, of the catalog default, or the sources.
func (f *facts) providers() []v1alpha1.CatalogProvider {
	switch {
	case len(f.catalog.Spec.Providers) > 0:
		return f.catalog.Spec.Providers
	case f.common != nil && len(f.common.Spec.Providers) > 0:
		return f.common.Spec.Providers
	}
	return []v1alpha1.CatalogProvider{{Name: "sources", Type: v1alpha1.ProviderSources}}
}

// interval between two discoveries.
func (f *facts) interval() time.Duration {
	every := defaultInterval
	if f.common != nil {
		every = f.common.Spec.DiscoveryInterval.Duration(every)
	}
	return f.catalog.Spec.DiscoveryInterval.Duration(every)
}

// versions to store of each component.
func (f *facts) versions() int {
	common := int32(0)
	if f.common != nil {
		common = f.common.Spec.VersionsToStore
	}
	return int(cmp.Or(f.catalog.Spec.VersionsToStore, common, defaultVersions))
}

// nameOf is the name of the catalog of a node; empty when there can be none.
func nameOf(n *v1alpha1.NodeFirmware) string {
	if names := index.ByModel(n); len(names) > 0 {
		return names[0]
	}
	return ""
}
