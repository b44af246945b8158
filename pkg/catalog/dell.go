package catalog

import (
	"context"
	"encoding/xml"
	"io"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Dell reads the catalog of update packages that Dell offers for servers (Catalog.xml), which is UTF-16. BIOS packages match the BIOS
// of the machine, firmware packages the devices with their PCI ids; what has neither is left out. The catalog declares no
// format of its versions and names no vulnerabilities.
type Dell struct {
	// Catalog after decompression.
	Catalog io.Reader
	Limits  Limits
}

// dellEntry is what is kept of one package.
type dellEntry struct {
	kind          string
	brand         string
	machine       bool
	pci           map[string]bool
	model         string
	version, path string
}

// Discover reads the catalog once. A catalog of Dell concerns machines of Dell alone.
func (p Dell) Discover(ctx context.Context, q Query, emit Emit) error {
	d := newDocument(ctx, p.Catalog, p.Limits)
	return d.each("Dell catalog", "Manifest", "SoftwareComponent", func(manifest, e xml.StartElement) error {
		return p.component(d, e, attribute(manifest, "baseLocation"), q, emit)
	})
}

func (p Dell) component(d *document, e xml.StartElement, base string, q Query, emit Emit) error {
	entry := dellEntry{
		pci: map[string]bool{}, model: text.Slug(q.Model),
		version: attribute(e, "vendorVersion"), path: attribute(e, "path"),
	}
	if err := d.within(entry.start, entry.text); err != nil {
		return err
	}
	if !entry.machine || !strings.HasPrefix(text.Slug(q.Vendor), "dell") {
		return nil
	}
	r := Release{Version: entry.version, URL: location(base, entry.path)}
	if !r.clean() {
		return nil
	}
	for i, c := range q.Components {
		if entry.concerns(c) {
			if err := emit(i, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *dellEntry) concerns(c Component) bool {
	switch l.kind {
	case "BIOS":
		return c.Class == "BIOS"
	case "FRMW":
		return c.VendorID != "" && l.pci[strings.ToLower(c.VendorID+":"+c.DeviceID)]
	}
	return false
}

func (l *dellEntry) start(path string, e xml.StartElement) error {
	switch path {
	case "ComponentType":
		l.kind = attribute(e, "value")
	case "SupportedSystems/Brand":
		l.brand = ""
	case "SupportedDevices/Device/PCIInfo":
		if len(l.pci) == maxList {
			return fault(InvalidCatalog, "parse Dell catalog: one package is for more than %d devices", maxList)
		}
		if v, d := attribute(e, "vendorID"), attribute(e, "deviceID"); len(v) == 4 && len(d) == 4 {
			l.pci[strings.ToLower(v+":"+d)] = true
		}
	}
	return nil
}

func (l *dellEntry) text(path, content string) error {
	switch path {
	case "SupportedSystems/Brand/Display":
		l.brand = content
	case "SupportedSystems/Brand/Model/Display":
		l.machine = l.machine || text.Slug(content) == l.model || text.Slug(l.brand+" "+content) == l.model
	}
	return nil
}

// location is the address of a package; a base location is a host, or an address.
func location(base, path string) string {
	if base == "" || path == "" {
		return ""
	}
	if !strings.Contains(base, "://") {
		base = "https://" + base
	}
	return strings.TrimSuffix(base, "/") + "/" + strings.TrimPrefix(path, "/")
}
