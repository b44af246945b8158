package host

import (
	_ "embed" // the database of PCI ids
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jaypipes/pcidb"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// pciIDs is the database of https://pci-ids.ucw.cz, trimmed by `make pci-ids`. It is part of the program, so that a
// rule that selects by name selects the same devices on every node.
//
//go:embed pci.ids
var pciIDs string

// pciID is a vendor's id or, with a device, a product's: four lower-case hexadecimal digits each.
type pciID struct{ vendor, device string }

// learnNames looks up what is not known yet of the functions' ids. Names are for people: without them there is the id.
func (h *Host) learnNames(functions []sysfs.PCIFunction) {
	h.naming.Lock()
	defer h.naming.Unlock()
	var wanted []pciID
	for _, f := range functions {
		for _, id := range []pciID{{vendor: f.Vendor}, {f.Vendor, f.Device}} {
			if _, known := h.names[id]; !known {
				wanted = append(wanted, id)
			}
		}
	}
	if len(wanted) == 0 {
		return
	}
	db, err := parsePCIIDs(wanted)
	if err != nil {
		return
	}
	for _, id := range wanted {
		h.names[id] = ""
		if v := db.Vendors[id.vendor]; v != nil && id.device == "" {
			h.names[id] = v.Name
		}
		if p := db.Products[id.vendor+id.device]; p != nil && id.device != "" {
			h.names[id] = p.Name
		}
	}
}

// nameOf is the name of a vendor, or of a vendor's device; empty when it is unknown.
func (h *Host) nameOf(vendor, device string) string {
	h.naming.Lock()
	defer h.naming.Unlock()
	return h.names[pciID{vendor, device}]
}

// parsePCIIDs parses what the database says of the vendors of the ids; all of it would cost a tenth of the daemon's memory.
// The library reads files alone, so it gets one in memory; given a path, it neither looks for other databases nor has the
// environment name one.
func parsePCIIDs(wanted []pciID) (*pcidb.PCIDB, error) {
	fd, err := unix.MemfdCreate("pci.ids", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open PCI ids: %w", err)
	}
	f := os.NewFile(uintptr(fd), "pci.ids")
	defer f.Close()
	if _, err := f.WriteString(blocksOf(wanted)); err != nil {
		return nil, fmt.Errorf("open PCI ids: %w", err)
	}
	db, err := pcidb.New(pcidb.WithPath(fmt.Sprintf("/proc/self/fd/%d", fd)))
	if err != nil {
		return nil, fmt.Errorf("open PCI ids: %w", err)
	}
	return db, nil
}

// blocksOf are the lines of the wanted vendors and, each after a tab, of their devices.
func blocksOf(wanted []pciID) string {
	var blocks strings.Builder
	of := false
	for line := range strings.Lines(pciIDs) {
		if line[0] != '\t' {
			id, _, _ := strings.Cut(line, "  ")
			of = slices.ContainsFunc(wanted, func(w pciID) bool { return w.vendor == id })
		}
		if of {
			blocks.WriteString(line)
		}
	}
	return blocks.String()
}
