package metrics

import (
	"cmp"
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// maxCatalogs bounds the catalogs that are reported one by one, the first by name: each makes five time series.
const maxCatalogs = 200

func (c *Collector) catalogs(ctx context.Context, out chan<- prometheus.Metric) error {
	var list v1alpha1.FirmwareCatalogList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	all := slices.SortedFunc(slices.Values(list.Items), func(a, b v1alpha1.FirmwareCatalog) int { return cmp.Compare(a.Name, b.Name) })
	out <- catalogsNotReported.gauge(max(0, len(all)-maxCatalogs))
	for i := range all[:min(len(all), maxCatalogs)] {
		f := &all[i]
		s := &f.Status
		for _, n := range []struct {
			state string
			count int32
		}{{"All", s.Devices}, {"Behind", s.DevicesBehind}, {"Vulnerable", s.DevicesVulnerable}, {"Unknown", s.DevicesUnknown}} {
			out <- catalogDevices.gauge(int(n.count), f.Name, n.state)
		}
		if at := s.LastDiscoveryTime; at != nil {
			out <- catalogDiscovery.gauge(int(at.Unix()), f.Name)
		}
	}
	return nil
}
