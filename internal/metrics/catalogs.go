package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func (c *Collector) catalogs(ctx context.Context, out chan<- prometheus.Metric) error {
	var list v1alpha1.FirmwareCatalogList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	reported, left := firstByName(list.Items)
	out <- catalogsNotReported.gauge(left)
	for _, f := range reported {
		s := &f.Status
		for _, n := range []struct {
			state string
			count int32
		}{{"All", s.Devices.Total}, {"Behind", s.Devices.Behind}, {"Vulnerable", s.Devices.Vulnerable}, {"Unknown", s.Devices.Unknown}} {
			out <- catalogDevices.gauge(int(n.count), f.Name, n.state)
		}
		if at := s.LastDiscoveryTime; at != nil {
			out <- catalogDiscovery.gauge(int(at.Unix()), f.Name)
		}
	}
	return nil
}
