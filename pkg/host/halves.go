package host

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// A Socket-Direct adapter is one card with one flash and a function on two roots of the machine, one for each processor socket:
// two slots in sysfs. The card says the same about itself in both, and the driver reads the same base address through both.

// vendorSocketDirect makes such cards (pci-ids: NVIDIA, Mellanox).
const vendorSocketDirect = "15b3"

// vpdTimeout bounds the reading of the product data of one card. Without it a card in two slots looks like two cards with one
// unique id, and neither is updated.
const vpdTimeout = 5 * time.Second

// joinHalves makes one card of those that say that they are one: same device id, part number and serial number. The order is that
// of the places.
func (h *Host) joinHalves(ctx context.Context, cards []card) []card {
	type board struct{ device, part, serial string }
	var group sync.WaitGroup
	boards := make([]board, len(cards))
	for i, c := range cards {
		if !slices.ContainsFunc(cards, func(other card) bool { return mayBeHalves(c, other) }) {
			continue
		}
		group.Go(func() {
			if vpd := h.vpd(ctx, c); vpd != nil && vpd.SerialNumber != "" {
				boards[i] = board{c.functions[0].Device, vpd.PartNumber, vpd.SerialNumber}
			}
		})
	}
	group.Wait()
	var out []card
	at := map[board]int{}
	for i, c := range cards {
		first, known := at[boards[i]]
		switch {
		case boards[i] == (board{}):
			out = append(out, c)
		case known:
			out[first].halves = append(out[first].halves, c)
		default:
			at[boards[i]] = len(out)
			out = append(out, c)
		}
	}
	return out
}

// mayBeHalves reports whether it takes the product data, which are slow to read, to tell that two cards are not one.
func mayBeHalves(a, b card) bool {
	return a.place != b.place && len(a.functions) > 0 && len(b.functions) > 0 &&
		a.functions[0].Vendor == vendorSocketDirect && b.functions[0].Vendor == vendorSocketDirect &&
		a.functions[0].Device == b.functions[0].Device && !a.isFarFrom(b)
}

// macRange is more than any card has MACs: its ports and their virtual functions count up from its base MAC.
const macRange = 1 << 12

// isFarFrom reports whether the MACs of two cards show that they are not one. A half without any, as in a kernel that makes one
// interface of both, may belong to every card.
func (c card) isFarFrom(other card) bool {
	a, known := c.mac()
	b, known2 := other.mac()
	return known && known2 && max(a, b)-min(a, b) >= macRange
}

// mac is the lowest MAC of a card as a number.
func (c card) mac() (lowest uint64, known bool) {
	for _, n := range c.interfaces {
		octets, err := net.ParseMAC(n.PermanentAddress())
		if err != nil || len(octets) != 6 {
			continue
		}
		if m := binary.BigEndian.Uint64(append([]byte{0, 0}, octets...)); !known || m < lowest {
			lowest, known = m, true
		}
	}
	return lowest, known
}

// vpd is the product data of a card; nil where it has none, or does not give it in time.
func (h *Host) vpd(ctx context.Context, c card) *sysfs.VPD {
	ctx, stop := context.WithTimeout(ctx, vpdTimeout)
	defer stop()
	vpd, err := attempt(ctx, h, "product data "+c.place, func(context.Context) *sysfs.VPD {
		vpd, err := sysfs.ReadVPD(h.cfg.FS, c.functions[0])
		if err != nil {
			return nil
		}
		return vpd
	})
	if err != nil {
		return nil
	}
	return vpd
}

// whole is the card with the functions and interfaces of all its halves.
func (c card) whole() card {
	w := card{place: c.place}
	for _, part := range append([]card{c}, c.halves...) {
		w.functions = append(w.functions, part.functions...)
		w.interfaces = append(w.interfaces, part.interfaces...)
	}
	return w
}

// confirm reads the other halves of cards and separates those that turn out to be cards of their own: a board may carry several
// adapters, each with a flash of its own. A half that cannot be read keeps the card from being updated.
func (h *Host) confirm(ctx context.Context, candidates []candidate, devices []inventory.Device) ([]candidate, []inventory.Device) {
	candidates, devices = slices.Clone(candidates), slices.Clone(devices)
	for i := range candidates {
		if len(candidates[i].halves) == 0 || devices[i].Err != nil || devices[i].Firmware == nil {
			continue
		}
		others := h.inspectAll(ctx, candidates[i].halves[1:], unguarded)
		if one := slices.IndexFunc(others, func(d inventory.Device) bool { return d.Err != nil }); one >= 0 {
			devices[i].Err, devices[i].Firmware = others[one].Err, nil
			continue
		}
		if !slices.ContainsFunc(others, func(d inventory.Device) bool { return !strings.EqualFold(d.UniqueID, devices[i].UniqueID) }) {
			continue
		}
		first := candidates[i].halves[0]
		candidates = append(candidates, candidates[i].halves[1:]...)
		devices = append(devices, others...)
		candidates[i], devices[i] = first, h.inspectAll(ctx, []candidate{first}, unguarded)[0]
	}
	return candidates, devices
}
