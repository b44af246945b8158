package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Entry is one version with what it is for, as an index lists it.
type Entry struct {
	// Manufacturer and Model of the machines it is for, compared without case, blanks and punctuation; empty for every one.
	Manufacturer string `json:"manufacturer"`
	Model        string `json:"model"`
	// Class of the devices, required: NIC, StorageController, Disk or BIOS.
	Class string `json:"class"`
	// Vendor is a PCI vendor id or the name of a vendor; empty for every one.
	Vendor string `json:"vendor"`
	// Models are PCI device ids or model names; none for every one.
	Models []string `json:"models"`
	// BoardIDs are the boards; none for every one.
	BoardIDs []string `json:"boardIDs"`
	// Version, spelled as a device that runs it reports it. Required.
	Version string `json:"version"`
	// VersionFormat is Dotted or Plain; empty when none is declared.
	VersionFormat string `json:"versionFormat"`
	// Released as in RFC 3339, with or without a time of day.
	Released string `json:"released"`
	Urgency  string `json:"urgency"`
	URL      string `json:"url"`
	SHA256   string `json:"sha256"`
	// Mends and Has are vulnerabilities that this version mends and has.
	Mends []string `json:"mends"`
	Has   []string `json:"has"`
	// Source is the FirmwareSource that holds it, and Tag the tag of a registry that points to it; an index has neither.
	Source string `json:"-"`
	Tag    string `json:"-"`
}

// Entries are versions that are in memory already.
type Entries []Entry

// Discover offers the entries in their order.
func (p Entries) Discover(ctx context.Context, q Query, emit Emit) error {
	for i := range p {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p[i].offer(q, emit); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}

// Check returns why the entry cannot be offered, as an *Error; nil if it can.
func (e *Entry) Check() error {
	_, err := e.release()
	return err
}

// offer emits the entry for each component it is for.
func (e *Entry) offer(q Query, emit Emit) error {
	r, err := e.release()
	if err != nil {
		return err
	}
	for i, c := range q.Components {
		if e.fits(q, c) {
			if err := emit(i, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Entry) release() (Release, error) {
	r := Release{Version: e.Version, Urgency: e.Urgency, URL: e.URL, SHA256: e.SHA256, Mends: e.Mends, Has: e.Has, Source: e.Source, Tag: e.Tag}
	if !slices.Contains([]string{"NIC", "StorageController", "Disk", "BIOS"}, e.Class) {
		return r, fault(InvalidCatalog, "parse index: class %.32q is none of NIC, StorageController, Disk and BIOS", e.Class)
	}
	switch e.VersionFormat {
	case "":
	case "Dotted":
		r.Format = new(inventory.FormatDotted)
	case "Plain":
		r.Format = new(inventory.FormatPlain)
	default:
		return r, fault(InvalidCatalog, "parse index: versionFormat %.32q is neither Dotted nor Plain", e.VersionFormat)
	}
	if e.Released != "" {
		at, err := time.Parse(time.RFC3339, e.Released)
		if err != nil {
			at, err = time.Parse(time.DateOnly, e.Released)
		}
		if err != nil {
			return r, fault(InvalidCatalog, "parse index: released %.40q is no time of RFC 3339", e.Released)
		}
		r.Released = at.UTC()
	}
	if !r.clean() {
		return r, fault(InvalidCatalog, "parse index: version %.80q is empty, longer than %d bytes, or not plain ASCII", e.Version, maxVersion)
	}
	return r, nil
}

func (e *Entry) fits(q Query, c Component) bool {
	return e.Class == c.Class &&
		(e.Manufacturer == "" || fold(e.Manufacturer) == fold(q.Manufacturer)) &&
		(e.Model == "" || fold(e.Model) == fold(q.Model)) &&
		(e.Vendor == "" || e.Vendor == "*" || same(e.Vendor, c.VendorID) || same(e.Vendor, c.Vendor)) &&
		(len(e.Models) == 0 || slices.ContainsFunc(e.Models, func(m string) bool { return same(m, c.DeviceID) || same(m, c.Model) })) &&
		(len(e.BoardIDs) == 0 || slices.ContainsFunc(e.BoardIDs, func(b string) bool { return same(b, c.BoardID) }))
}

// same compares without case and surrounding blanks; an empty text is like nothing.
func same(a, b string) bool {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	return a != "" && strings.EqualFold(a, b)
}
