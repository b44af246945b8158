package health

import (
	"context"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Gateway is the next hop of a default route that answered before a job.
type Gateway struct {
	Address string `json:"address"`
	// Through lists the unique ids of the adapters that lead to it; several below a bond. Names of network devices may
	// change over a reboot.
	Through []string `json:"through"`
}

// Take returns the baseline of the host: the devices of a scan, and the gateways that answer. The network only explains
// later why the API server is missed, so that one which cannot be read is no error: the baseline then has no gateways.
func (c Checker) Take(ctx context.Context, devices []inventory.Device) Baseline {
	b := Take(devices)
	b.Arrays = c.takeArrays(ctx)
	if c.Network == nil {
		return b
	}
	found, err := c.Network.Neighbours(ctx)
	if err != nil {
		return b
	}
	for _, n := range found {
		if through := adapters(n, devices); n.Answers && len(through) > 0 {
			b.Gateways = append(b.Gateways, Gateway{Address: n.Address, Through: through})
		}
	}
	return b
}

// silent lists the gateways of the baseline that no longer answer through the adapters that led to them, one complaint for
// each adapter.
func (c Checker) silent(ctx context.Context, b Baseline, devices []inventory.Device) []Complaint {
	if len(b.Gateways) == 0 || c.Network == nil {
		return nil
	}
	now, err := c.Network.Neighbours(ctx)
	if err != nil {
		return nil // what cannot be read is no complaint
	}
	var worse []Complaint
	for _, g := range b.Gateways {
		answers := func(n Neighbour) bool {
			return n.Answers && n.Address == g.Address && slices.ContainsFunc(adapters(n, devices), func(id string) bool {
				return slices.Contains(g.Through, id)
			})
		}
		if slices.ContainsFunc(now, answers) {
			continue
		}
		for _, id := range g.Through {
			worse = append(worse, Complaint{
				UniqueID: id, Message: fmt.Sprintf("gateway %s no longer answers through NIC %s", g.Address, id), Network: true,
			})
		}
	}
	return worse
}

// adapters are the unique ids of the devices that the neighbour is reached through.
func adapters(n Neighbour, devices []inventory.Device) []string {
	var ids []string
	for _, d := range devices {
		leads := func(p inventory.Port) bool { return p.NetDevice != "" && slices.Contains(n.Ports, p.NetDevice) }
		if d.UniqueID != "" && d.Transport != "usb" && slices.ContainsFunc(d.Ports, leads) {
			ids = append(ids, d.UniqueID)
		}
	}
	return ids
}
