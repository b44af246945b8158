package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Limits bound what is read of a catalog. The zero Limits are the defaults.
type Limits struct {
	// Bytes of the catalog after decompression; 4 GiB by default.
	Bytes int64
	// Entries (components of LVFS and Dell, versions of an index); four million by default.
	Entries int
}

const (
	defaultBytes   = 4 << 30
	defaultEntries = 4_000_000
	// maxToken bounds one tag, text or comment in bytes, so that memory does not depend on the catalog.
	maxToken = 1 << 20
	// maxDepth bounds how deeply elements are nested.
	maxDepth = 64
	// maxText bounds the text of an element that is kept, in bytes.
	maxText = 4 << 10
	// maxList bounds the lists of one entry.
	maxList = 4096
)

func (l Limits) orDefaults() Limits {
	l.Bytes = cmp.Or(l.Bytes, defaultBytes)
	l.Entries = cmp.Or(l.Entries, defaultEntries)
	return l
}

// document is a stream of XML of which one entry at a time is in memory. It refuses document types, and with them every definition
// of an entity; an undefined entity is a syntax error. The text is UTF-8, or UTF-16 with a byte order mark.
type document struct {
	ctx     context.Context
	in      *budget
	decoder *xml.Decoder
	limits  Limits
	entries int
	depth   int
	tokens  int
	rooted  bool
}

func newDocument(ctx context.Context, r io.Reader, l Limits) *document {
	l = l.orDefaults()
	d := &document{ctx: ctx, limits: l}
	counted := &counted{r: r, left: l.Bytes}
	d.in = &budget{r: transform.NewReader(counted, unicode.BOMOverride(encoding.UTF8Validator)), buffer: make([]byte, 0, 32<<10)}
	d.decoder = xml.NewDecoder(d.in)
	// The text was decoded above; what the declaration says about it has no effect.
	d.decoder.CharsetReader = func(name string, in io.Reader) (io.Reader, error) {
		if n := strings.ToLower(name); n == "utf-16" || n == "utf-16le" || n == "us-ascii" {
			return in, nil
		}
		return nil, fmt.Errorf("encoding %q is neither UTF-8 nor UTF-16", name)
	}
	return d
}

// next returns the next tag or text; io.EOF at the end of the document. It is valid until the following call.
func (d *document) next() (xml.Token, error) {
	if d.tokens++; d.tokens%1024 == 0 {
		if err := d.ctx.Err(); err != nil {
			return nil, err
		}
	}
	d.in.left = maxToken
	token, err := d.decoder.Token()
	if err != nil {
		return nil, d.classify(err)
	}
	switch t := token.(type) {
	case xml.CharData:
		if d.depth == 0 && len(bytes.TrimSpace(t)) > 0 {
			return nil, fault(InvalidCatalog, "parse XML at byte %d: text outside of the document's element", d.decoder.InputOffset())
		}
	case xml.Directive:
		return nil, fault(InvalidCatalog, "parse XML at byte %d: document types and entity definitions are refused", d.decoder.InputOffset())
	case xml.StartElement:
		if d.depth == 0 && d.rooted {
			return nil, fault(InvalidCatalog, "parse XML at byte %d: a second document", d.decoder.InputOffset())
		}
		d.rooted = true
		if d.depth++; d.depth > maxDepth {
			return nil, fault(InvalidCatalog, "parse XML at byte %d: elements are nested more than %d deep", d.decoder.InputOffset(), maxDepth)
		}
	case xml.EndElement:
		d.depth--
	}
	return token, nil
}

func (d *document) classify(err error) error {
	var syntax *xml.SyntaxError
	var known *Error
	switch {
	case errors.Is(err, io.EOF) && !errors.As(err, &syntax):
		return io.EOF
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &syntax), strings.HasPrefix(err.Error(), "xml: "), errors.Is(err, encoding.ErrInvalidUTF8):
		return fault(InvalidCatalog, "parse XML at byte %d: %w", d.decoder.InputOffset(), err)
	}
	return fault(DownloadFailed, "read catalog at byte %d: %w", d.decoder.InputOffset(), err)
}

// each reads the document, whose element must be root, and calls entry for each child of that element with the given name, with the root
// and the child. entry reads the child to its end. what is the form of the document, for errors.
func (d *document) each(what, root, name string, entry func(root, child xml.StartElement) error) error {
	var top xml.StartElement
	for {
		token, err := d.next()
		if errors.Is(err, io.EOF) {
			if !d.rooted {
				return fault(InvalidCatalog, "parse %s: the document is empty", what)
			}
			return nil
		}
		if err != nil {
			return err
		}
		e, ok := token.(xml.StartElement)
		switch {
		case !ok:
		case d.depth == 1:
			if top = e.Copy(); e.Name.Local != root {
				return fault(InvalidCatalog, "parse %s: the document is <%.64s>, want <%s>", what, e.Name.Local, root)
			}
		case d.depth == 2 && e.Name.Local == name:
			if d.entries++; d.entries > d.limits.Entries {
				return fault(InvalidCatalog, "parse %s: more than %d entries; use a catalog of fewer machines", what, d.limits.Entries)
			}
			if err := entry(top, e); err != nil {
				return err
			}
		}
	}
}

// within visits what is inside the element that was returned last, until its end. visit receives the path of names below
// that element, joined by slashes, at each start tag, and the text of elements without others inside at their end.
func (d *document) within(start func(path string, e xml.StartElement) error, text func(path, text string) error) error {
	base := d.depth
	var path []string
	var content strings.Builder
	leaf := false
	for {
		token, err := d.next()
		if errors.Is(err, io.EOF) {
			return fault(InvalidCatalog, "parse XML: the document ends within an element")
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			path = append(path, t.Name.Local)
			content.Reset()
			leaf = true
			if err := start(strings.Join(path, "/"), t); err != nil {
				return err
			}
		case xml.CharData:
			if leaf && content.Len() <= maxText {
				content.Write(t[:min(len(t), maxText+1)])
			}
		case xml.EndElement:
			if d.depth < base {
				return nil
			}
			if leaf && content.Len() <= maxText {
				if err := text(strings.Join(path, "/"), strings.TrimSpace(content.String())); err != nil {
					return err
				}
			}
			path, leaf = path[:len(path)-1], false
		}
	}
}

// attribute returns the value of an attribute without a namespace; empty when there is none.
func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name && a.Name.Space == "" {
			return a.Value
		}
	}
	return ""
}

// counted ends a stream that is too long with an error.
type counted struct {
	r    io.Reader
	left int64
}

func (c *counted) Read(p []byte) (int, error) {
	if c.left < 0 {
		return 0, fault(InvalidCatalog, "read catalog: it is larger than the limit")
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left+1)])
	if c.left -= int64(n); c.left < 0 {
		return 0, fault(InvalidCatalog, "read catalog: it is larger than the limit")
	}
	return n, err
}

// budget is a buffered reader that gives away at most left bytes until left is set again.
type budget struct {
	r      io.Reader
	buffer []byte
	at     int
	left   int
	err    error
}

// ReadByte is what the XML decoder reads by.
func (b *budget) ReadByte() (byte, error) {
	for b.at == len(b.buffer) {
		if b.err != nil {
			return 0, b.err
		}
		var n int
		n, b.err = b.r.Read(b.buffer[:cap(b.buffer)])
		b.buffer, b.at = b.buffer[:n], 0
	}
	if b.left--; b.left < 0 {
		return 0, fault(InvalidCatalog, "parse XML: a tag or text is longer than %d bytes", maxToken)
	}
	c := b.buffer[b.at]
	b.at++
	return c, nil
}

// Read makes budget an io.Reader, which the decoder asks for and does not use.
func (b *budget) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := b.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	return 1, nil
}

// Dell reads the catalog of update packages that Dell offers for servers (Catalog.xml), which is UTF-16. BIOS packages match the BIOS
// of the machine, firmware packages the devices with their PCI and subsystem ids; what has neither is left out. The catalog names no vulnerabilities.
type Dell struct {
	// Catalog after decompression.
	Catalog io.Reader
	Limits  Limits
}

// dellEntry is what is kept of one package.
type dellEntry struct {
	kind    string
	brand   string
	machine bool
	// pci lists the boards of each PCI id, as subsystem ids; ":" stands for every board.
	pci           map[string][]string
	devices       int
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
		pci: map[string][]string{}, model: text.Slug(q.Model),
		version: attribute(e, "vendorVersion"), path: attribute(e, "path"),
	}
	if err := d.within(entry.start, entry.text); err != nil {
		return err
	}
	if !entry.machine || !strings.HasPrefix(text.Slug(q.Vendor), "dell") {
		return nil
	}
	for i, c := range q.Components {
		is := entry.concerns(c)
		if is == fails {
			continue
		}
		r := Release{URL: location(base, entry.path)}
		if is == unknown {
			r.Doubt = "its package is for certain boards, and the devices report none (subsystemID)"
		}
		r.Version, r.Spelling = dellVersion(c, strings.TrimSpace(entry.version))
		if !r.clean() {
			continue
		}
		if err := emit(i, r); err != nil {
			return err
		}
	}
	return nil
}

func (l *dellEntry) concerns(c Component) verdict {
	switch {
	case l.kind == "BIOS" && c.Class == "BIOS":
		return meets
	case l.kind != "FRMW" || c.VendorID == "":
		return fails
	}
	boards := l.pci[strings.ToLower(c.VendorID+":"+c.DeviceID)]
	vendor, _, _ := strings.Cut(c.SubsystemID, ":")
	switch {
	case slices.Contains(boards, ":"), c.SubsystemID != "" && (slices.Contains(boards, c.SubsystemID) || slices.Contains(boards, vendor+":")):
		return meets
	case len(boards) > 0 && c.SubsystemID == "":
		return unknown
	}
	return fails
}

func (l *dellEntry) start(path string, e xml.StartElement) error {
	switch path {
	case "ComponentType":
		l.kind = attribute(e, "value")
	case "SupportedSystems/Brand":
		l.brand = ""
	case "SupportedDevices/Device/PCIInfo":
		if l.devices++; l.devices > maxList {
			return fault(InvalidCatalog, "parse Dell catalog: one package is for more than %d devices", maxList)
		}
		if v, d := attribute(e, "vendorID"), attribute(e, "deviceID"); len(v) == 4 && len(d) == 4 {
			id := strings.ToLower(v + ":" + d)
			l.pci[id] = append(l.pci[id], strings.ToLower(attribute(e, "subVendorID")+":"+attribute(e, "subDeviceID")))
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
