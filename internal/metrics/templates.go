package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func (c *Collector) templates(ctx context.Context, out chan<- prometheus.Metric) error {
	var list v1alpha1.FirmwareTemplateList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	reported, left := firstByName(list.Items)
	out <- templatesNotReported.gauge(left)
	for _, t := range reported {
		s := &t.Status
		for _, n := range []struct {
			state string
			count int32
		}{
			{"UpToDate", s.Devices.UpToDate}, {"OutOfDate", s.Devices.OutOfDate - s.Devices.Failed - s.Devices.Blocked}, {"Failed", s.Devices.Failed},
			{"Blocked", s.Devices.Blocked}, {"Conflicting", s.Devices.Conflicting},
		} {
			out <- templateDevices.gauge(int(max(0, n.count)), t.Name, n.state)
		}
		out <- templateNodes.gauge(int(s.Nodes.UpToDate), t.Name, "UpToDate")
		out <- templateNodes.gauge(int(s.Nodes.OutOfDate), t.Name, "OutOfDate")
		out <- templateNodes.gauge(int(s.Nodes.Selected-s.Nodes.UpToDate-s.Nodes.OutOfDate), t.Name, "NotAssigned")
	}
	return nil
}
