package catalog

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// maxEntryText bounds the texts that are kept of one component while it is read, in bytes.
const maxEntryText = 4 << 20

// LVFS reads AppStream metadata in the form in which the Linux Vendor Firmware Service offers it (AppStream specification, "Releases"
// and firmware components; LVFS documentation, "MetaInfo files"). A component of it is matched by GUID alone: its names are for
// people.
type LVFS struct {
	// Metadata after decompression. Its signature must have been verified.
	Metadata io.Reader
	// Base is the URL of a directory that has the files of the metadata, as a mirror of the service does (fwupd, FirmwareBaseURI). Empty for where
	// the metadata says that they are.
	Base   string
	Limits Limits
}

// lvfsEntry is what is kept of one component.
type lvfsEntry struct {
	firmware bool
	guids    []string
	format   string
	branch   string
	requires []requirement
	releases []Release
	size     int
}

// Discover reads the metadata once.
func (p LVFS) Discover(ctx context.Context, q Query, emit Emit) error {
	wanted := map[string][]int{}
	for i, c := range q.Components {
		for _, g := range c.GUIDs() {
			wanted[g] = append(wanted[g], i)
		}
	}
	d := newDocument(ctx, p.Metadata, p.Limits)
	return d.each("LVFS metadata", "components", "component", func(_, e xml.StartElement) error {
		return p.component(d, e, q, wanted, emit)
	})
}

func (p LVFS) component(d *document, e xml.StartElement, q Query, wanted map[string][]int, emit Emit) error {
	entry := lvfsEntry{firmware: attribute(e, "type") == "firmware"}
	var last xml.StartElement
	err := d.within(
		func(path string, e xml.StartElement) error { last = e; return entry.start(path, e) },
		func(path, text string) error { return entry.text(path, text, last) })
	if err != nil || !entry.firmware {
		return err
	}
	var matched []int
	for _, g := range entry.guids {
		for _, i := range wanted[g] {
			if !slices.Contains(matched, i) {
				matched = append(matched, i)
			}
		}
	}
	for _, i := range matched {
		is, doubt := entry.judge(q, q.Components[i])
		if is == fails {
			continue
		}
		for _, r := range entry.releases {
			r.Version, r.Spelling = lvfsVersion(entry.format, strings.TrimSpace(r.Version))
			r.Doubt, r.Needs, r.URL = doubt, entry.needs(), p.mirrored(r.URL)
			if !r.clean() {
				continue
			}
			if err := emit(i, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// mirrored is the address of a file on the mirror: one of its name in the mirror's directory.
func (p LVFS) mirrored(address string) string {
	name := address[strings.LastIndexByte(address, '/')+1:]
	if p.Base == "" || name == "" || name == ".." {
		return address
	}
	return strings.TrimSuffix(p.Base, "/") + "/" + name
}

// judge says whether what is offered is for a component of a machine, and if that is not known why.
func (l *lvfsEntry) judge(q Query, c Component) (is verdict, doubt string) {
	is = meets
	if l.branch != "" {
		is, doubt = unknown, fmt.Sprintf("it is of the branch %.64q, and devices do not report theirs", l.branch)
	}
	for _, r := range l.requires {
		if _, ok := r.need(); ok {
			continue
		}
		switch r.judge(q, c) {
		case fails:
			return fails, ""
		case unknown:
			is, doubt = unknown, cmp.Or(doubt, fmt.Sprintf("its requirement %s cannot be judged here", r))
		}
	}
	return is, doubt
}

func (l *lvfsEntry) needs() (out []Need) {
	for _, r := range l.requires {
		if n, ok := r.need(); ok {
			out = append(out, n)
		}
	}
	return out
}

// keep counts what is kept.
func (l *lvfsEntry) keep(s string) (string, error) {
	if l.size += len(s) + 16; l.size > maxEntryText {
		return "", fault(InvalidCatalog, "parse LVFS metadata: one component has more than %d bytes of versions and issues", maxEntryText)
	}
	return s, nil
}

func (l *lvfsEntry) start(path string, e xml.StartElement) error {
	if path != "releases/release" || !l.firmware {
		return nil
	}
	version, err := l.keep(attribute(e, "version"))
	if err != nil {
		return err
	}
	if len(l.releases) == maxList {
		return fault(InvalidCatalog, "parse LVFS metadata: one component has more than %d releases", maxList)
	}
	l.releases = append(l.releases, Release{Version: version})
	return nil
}

func (l *lvfsEntry) text(path, text string, e xml.StartElement) error {
	if !l.firmware {
		return nil
	}
	var err error
	switch path {
	case "branch":
		l.branch, err = l.keep(text)
		return err
	case "provides/firmware":
		if attribute(e, "type") == "flashed" && len(l.guids) < maxList {
			text, err = l.keep(strings.ToLower(text))
			l.guids = append(l.guids, text)
		}
		return err
	case "custom/value":
		if attribute(e, "key") == "LVFS::VersionFormat" {
			l.format = text
		}
		return nil
	}
	if group, _, ok := strings.Cut(path, "/"); ok && slices.Contains([]string{"requires", "recommends", "suggests"}, group) {
		return l.require(newRequirement(e, text))
	}
	if len(l.releases) == 0 {
		return nil
	}
	r := &l.releases[len(l.releases)-1]
	switch path {
	case "releases/release/issues/issue":
		text, err = l.keep(text)
		r.Fixes = append(r.Fixes, text)
	case "releases/release/location":
		r.URL, err = l.keep(text)
	case "releases/release/artifacts/artifact/location":
		if r.URL == "" {
			r.URL, err = l.keep(text)
		}
	case "releases/release/checksum":
		if attribute(e, "type") == "sha256" && attribute(e, "target") != "content" {
			r.Digest, _ = inventory.ParseDigest("sha256:" + strings.ToLower(text)) // one that is none is left out
		}
	}
	return err
}

func (l *lvfsEntry) require(r requirement) error {
	if len(l.requires) == maxList {
		return fault(InvalidCatalog, "parse LVFS metadata: one component has more than %d requirements", maxList)
	}
	l.requires = append(l.requires, r)
	_, err := l.keep(r.text + r.version)
	return err
}

// GUIDs are the ids by which LVFS metadata names the devices of a component: the UUID of version 5 in the name space of DNS of each
// instance id that fwupd makes for such a device (fwupd, "Device GUIDs"), and the board id where that is a GUID itself, as the ESRT
// gives system firmware one. They are in lower case.
func (c Component) GUIDs() []string {
	var out []string
	if id, err := uuid.Parse(strings.TrimSpace(c.BoardID)); err == nil {
		out = append(out, id.String())
	}
	if c.VendorID != "" && c.DeviceID != "" {
		ids := []string{`VEN_` + strings.ToUpper(c.VendorID) + `&DEV_` + strings.ToUpper(c.DeviceID)}
		if vendor, device, ok := strings.Cut(c.SubsystemID, ":"); ok {
			ids = append(ids, ids[0]+`&SUBSYS_`+strings.ToUpper(vendor+device))
		}
		for _, id := range ids {
			out = append(out, instanceGUID(`PCI\`+id))
			if c.Class == "Disk" {
				out = append(out, instanceGUID(`NVME\`+id))
			}
		}
	}
	if c.Class == "Disk" && strings.TrimSpace(c.Model) != "" {
		out = append(out, instanceGUID(strings.TrimSpace(c.Model)))
	}
	return out
}

func instanceGUID(id string) string { return uuid.NewSHA1(uuid.NameSpaceDNS, []byte(id)).String() }
