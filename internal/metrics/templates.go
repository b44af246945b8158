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
			{"Applied", s.DevicesApplied}, {"Pending", s.DevicesPending}, {"Updating", s.DevicesUpdating}, {"Failed", s.DevicesFailed},
			{"Blocked", s.DevicesBlocked}, {"Conflicting", s.DevicesConflicting},
			{"Reported", s.DevicesNotApplied - s.DevicesPending - s.DevicesUpdating - s.DevicesFailed - s.DevicesBlocked},
		} {
			out <- templateDevices.gauge(int(max(0, n.count)), t.Name, n.state)
		}
		out <- templateNodes.gauge(int(s.UpdatesApplied), t.Name, "Applied")
		out <- templateNodes.gauge(int(s.UpdatesNotApplied), t.Name, "NotApplied")
		out <- templateNodes.gauge(int(s.ServersNotAssigned), t.Name, "NotAssigned")
	}
	return nil
}
