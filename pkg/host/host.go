package host

import (
	"cmp"
	_ "embed" // the database of PCI ids
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jaypipes/pcidb"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Config says which machine to look at and with what.
type Config struct {
	// FS is the host's file system from its root; it must be able to read symbolic links, as
	// sysfs.DirFS is. Required.
	FS fs.FS
	// Drivers read the devices. Devices no driver knows are listed and not read.
	Drivers driver.Set
	// NVMeTransports are the transports, as sysfs names them, whose NVMe drives belong to this machine. Default "pcie" only: a drive behind
	// a network usually belongs to another machine, or to several.
	NVMeTransports []string
	// InspectTimeout bounds the reading of one device, and the listing of one class. Default 30 seconds.
	InspectTimeout time.Duration
	// Link asks the running kernel about a network interface; KernelLink does. Nil where FS is not this kernel's machine.
	Link func(name string) (now, permanent net.HardwareAddr, err error)
	// Chosen is called with the driver of a device when the device is first read, and whenever the driver changes; nil
	// for none. It must not block.
	Chosen func(Choice)
	// Parallel is how many devices are read at once. Default 8.
	Parallel int
}

const pcie = "pcie"

// Host is one machine. It caches nothing of what its devices report: whatever a call returns was read in that call. It is safe for
// concurrent use; one device is never read twice at the same time.
type Host struct {
	cfg Config

	mu    sync.Mutex
	turns map[string]chan struct{}
	// places are those of the devices of the last scan, by class and unique id: they name the turns.
	places map[[2]string]string

	choosing sync.Mutex
	// chosen are the drivers by place, for Config.Chosen.
	chosen map[string]string

	naming sync.Mutex
	// names are of PCI ids that were looked up; "" where the database has no name.
	names map[pciID]string

	// boards say which cards are parts of one, while the cards themselves do not.
	boards boards
}

// New checks the configuration and fills in its defaults. It reads nothing.
func New(cfg Config) (*Host, error) {
	if cfg.FS == nil {
		return nil, errors.New("configure host: no file system")
	}
	if cfg.InspectTimeout < 0 || cfg.Parallel < 0 {
		return nil, errors.New("configure host: timeout and parallelism must not be negative")
	}
	if len(cfg.NVMeTransports) == 0 {
		cfg.NVMeTransports = []string{pcie}
	}
	cfg.InspectTimeout = cmp.Or(cfg.InspectTimeout, 30*time.Second)
	cfg.Parallel = cmp.Or(cfg.Parallel, 8)
	return &Host{
		cfg: cfg, turns: map[string]chan struct{}{}, chosen: map[string]string{}, names: map[pciID]string{},
		boards: boards{last: map[string]board{}, apart: map[string]board{}},
	}, nil
}

// Inventory is what a scan found.
type Inventory struct {
	// Machine is nil on a machine without DMI tables.
	Machine *inventory.Machine
	// BootID is the UUID of this boot; empty when the kernel shows none.
	BootID string
	// Devices are sorted by class and unique id.
	Devices []inventory.Device
	// Incomplete says which classes could not be listed completely, and why: a device of such a class that is missing
	// here may still be there.
	Incomplete map[inventory.Class]error
}

// bios lists the system firmware. A machine without DMI tables has none that could be named.
func (h *Host) bios() ([]candidate, error) {
	dmi, err := sysfs.ReadDMI(h.cfg.FS)
	if dmi == nil || err != nil {
		return nil, err
	}
	board, err := h.systemFirmwareClass()
	return []candidate{{
		Device: inventory.Device{
			Identity: inventory.Identity{
				Class: inventory.BIOS, UniqueID: biosID(*dmi), BoardID: board,
				Vendor: dmi.SystemVendor, Model: dmi.ProductName, PartNumber: dmi.ProductSKU, SerialNumber: dmi.ProductSerial,
			},
			Err: err,
		},
		place: "bios",
	}}, nil
}

// systemFirmwareClass is the GUID that images for this machine carry, empty when UEFI publishes none, not just one, or
// not to this user.
func (h *Host) systemFirmwareClass() (string, error) {
	entries, err := sysfs.ESRT(h.cfg.FS)
	class, count := "", 0
	for _, e := range entries {
		err = errors.Join(err, e.Err)
		if e.Type != nil && *e.Type == sysfs.ESRTSystemFirmware {
			class = e.Class
			count++
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	if count != 1 {
		class = ""
	}
	return class, err
}

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
