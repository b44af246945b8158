package sysfs

import (
	"bufio"
	"io"
	"io/fs"
	"strings"
)

// PCIID is a vendor's id or, with Device, a product's: four lower-case hexadecimal digits each.
type PCIID struct{ Vendor, Device string }

// pciIDFiles are where distributions install the database of https://pci-ids.ucw.cz.
var pciIDFiles = [...]string{"usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids", "usr/share/pci.ids"}

// maxPCIIDs bounds the database in bytes; it has 1.5 MB in 2026.
const maxPCIIDs = 16 << 20

// PCINames looks up the names of ids in the host's database of PCI ids; what has no name there is not in the result.
// It streams the file and keeps only what was asked for, where a parsed database (ghw's, for one) holds 6 MB. Names
// are for people: a host without the file has none.
func PCINames(fsys fs.FS, ids map[PCIID]bool) (map[PCIID]string, error) {
	for _, name := range pciIDFiles {
		f, err := fsys.Open(name)
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, named("open", name, err)
		}
		names, err := scanPCIIDs(io.LimitReader(f, maxPCIIDs), ids)
		_ = f.Close()
		if err != nil {
			return nil, named("read", name, err)
		}
		return names, nil
	}
	return nil, nil
}

// scanPCIIDs reads lines of "vvvv  name" and, below them, "<tab>dddd  name"; more tabs are subsystems.
func scanPCIIDs(r io.Reader, ids map[PCIID]bool) (map[PCIID]string, error) {
	names := map[PCIID]string{}
	lines, vendor := bufio.NewScanner(r), ""
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' || strings.HasPrefix(line, "\t\t") {
			continue
		}
		entry, ofVendor := strings.CutPrefix(line, "\t")
		id, name, ok := strings.Cut(entry, "  ")
		if !ofVendor {
			vendor = "" // the list of classes at the end begins with "C 00"
		}
		if !ok || len(id) != 4 {
			continue
		}
		key := PCIID{Vendor: vendor, Device: id}
		if !ofVendor {
			vendor, key = id, PCIID{Vendor: id}
		}
		if ids[key] {
			names[key] = clean(name)
		}
	}
	return names, lines.Err()
}
