package host

import (
	"context"
	"encoding/binary"
	"errors"
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

// board is what cards of one board have in common.
type board struct{ device, part, serial string }

// boards is what is known of boards, by the places of their cards.
type boards struct {
	mu sync.Mutex
	// last are the boards as the cards named them last, and apart those whose cards have a flash each.
	last, apart map[string]board
}

// joinHalves makes one card of those that say that they are one: same device id, part number and serial number. The order is that
// of the places.
func (h *Host) joinHalves(ctx context.Context, cards []card) []card {
	var group sync.WaitGroup
	of := make([]board, len(cards))
	for i, c := range cards {
		if slices.ContainsFunc(cards, func(other card) bool { return mayBeHalves(c, other) }) {
			group.Go(func() { of[i] = h.boardOf(ctx, c) })
		}
	}
	group.Wait()
	h.boards.mu.Lock()
	defer h.boards.mu.Unlock()
	var out []card
	at := map[board]int{}
	for i, c := range cards {
		c.board = of[i]
		first, known := at[c.board]
		switch {
		case c.board == board{} || h.boards.apart[c.place] == c.board:
			out = append(out, c)
		case known:
			out[first].halves = append(out[first].halves, c)
		default:
			at[c.board] = len(out)
			out = append(out, c)
		}
	}
	return out
}

// boardOf is the board of a card; zero where the card names none. Where it does not answer, as while its firmware is busy, the board
// that it named last counts: a card must not become two by that, and whether it is one is asked again.
func (h *Host) boardOf(ctx context.Context, c card) board {
	vpd, err := h.vpd(ctx, c)
	h.boards.mu.Lock()
	defer h.boards.mu.Unlock()
	last, device := h.boards.last[c.place], c.functions[0].Device
	switch {
	case err != nil && last.device == device:
		return last
	case err != nil || vpd == nil || vpd.SerialNumber == "":
		delete(h.boards.last, c.place)
		return board{}
	}
	b := board{device, vpd.PartNumber, vpd.SerialNumber}
	h.boards.last[c.place] = b
	return b
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

// vpd is the product data of a card; nil where it has none. It is an error that the card does not give them in time.
func (h *Host) vpd(ctx context.Context, c card) (*sysfs.VPD, error) {
	type reading struct {
		vpd *sysfs.VPD
		err error
	}
	ctx, stop := context.WithTimeout(ctx, vpdTimeout)
	defer stop()
	got, err := attempt(ctx, h, "product data "+c.place, func(context.Context) (r reading) {
		r.vpd, r.err = sysfs.ReadVPD(h.cfg.FS, c.functions[0])
		return r
	})
	return got.vpd, errors.Join(err, got.err)
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
// adapters, each with a flash of its own. A half that cannot or must not be read keeps the card from being updated.
func (h *Host) confirm(
	ctx context.Context, candidates []candidate, devices []inventory.Device, guard Guard,
) ([]candidate, []inventory.Device) {
	candidates, devices = slices.Clone(candidates), slices.Clone(devices)
	for i := range candidates {
		if len(candidates[i].halves) == 0 || devices[i].Err != nil || devices[i].Firmware == nil {
			continue
		}
		whole, halves := candidates[i], candidates[i].halves
		ofWhole := func(inventory.Identity) error { return guard(whole.Identity) } // jobs know no halves
		others := slices.Clone(halves[1:])
		for j := range others {
			others[j].UniqueID = whole.UniqueID // a driver that knows no better id of the card returns this one
		}
		read := h.inspectAll(ctx, others, ofWhole)
		if one := slices.IndexFunc(read, func(d inventory.Device) bool { return d.Err != nil }); one >= 0 {
			devices[i].Err, devices[i].Firmware = read[one].Err, nil
			continue
		}
		if !slices.ContainsFunc(read, func(d inventory.Device) bool { return !strings.EqualFold(d.UniqueID, devices[i].UniqueID) }) {
			continue
		}
		h.keepApart(halves, whole.board)
		read = h.inspectAll(ctx, halves, ofWhole)
		candidates[i], devices[i] = halves[0], read[0]
		candidates, devices = append(candidates, halves[1:]...), append(devices, read[1:]...)
	}
	return candidates, devices
}

// keepApart remembers that the cards of a board are several: one that cannot be read later must not look like a part of another.
func (h *Host) keepApart(cards []candidate, b board) {
	h.boards.mu.Lock()
	defer h.boards.mu.Unlock()
	for _, c := range cards {
		h.boards.apart[c.place] = b
	}
}
