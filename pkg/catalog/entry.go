package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Entry is one version with what it is for, as an index lists it.
type Entry struct {
	// Machine it is for.
	Machine EntryMachine `json:"machine"`
	// Class of the devices, required: NIC, StorageController, Disk or BIOS.
	Class string `json:"class"`
	// Vendor is a PCI vendor id or the name of a vendor; empty or "any" for every one.
	Vendor string `json:"vendor"`
	// Models are PCI device ids or model names; none for every one.
	Models []string `json:"models"`
	// BoardIDs are the boards; none for every one.
	BoardIDs []string `json:"boardIDs"`
	// Version, spelled as a device that runs it reports it. Required.
	Version string `json:"version"`
	// VersionFormat is Dotted or Plain; empty when none is declared.
	VersionFormat string `json:"versionFormat"`
	// URL and Digest of the file; the digest is "sha256:" and 64 lower-case hexadecimal digits.
	URL    string `json:"url"`
	Digest string `json:"digest"`
	// Fixes and Has are vulnerabilities that this version fixes and has.
	Fixes []string `json:"fixes"`
	Has   []string `json:"has"`
	// PowerOnHours are the hours of power after which a device fails, by those vulnerabilities of Fixes and Has that have such a limit.
	PowerOnHours map[string]int64 `json:"powerOnHours"`
	// Source is the FirmwareSource that holds it; an index has none.
	Source string `json:"-"`
}

// EntryMachine is the machine model that an entry is for.
type EntryMachine struct {
	// Vendor and Model, compared as slugs; empty for every one.
	Vendor string `json:"vendor"`
	Model  string `json:"model"`
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
	r := Release{Version: e.Version, URL: e.URL, Fixes: e.Fixes, Has: e.Has, PowerOnHours: e.PowerOnHours, Source: e.Source}
	if !slices.Contains([]string{"NIC", "StorageController", "Disk", "BIOS"}, e.Class) {
		return r, fault(InvalidCatalog, "parse index: class %.32q is none of NIC, StorageController, Disk and BIOS", e.Class)
	}
	switch e.VersionFormat {
	case "":
	case "Dotted":
		r.Spelling = Decimal
	case "Plain":
		r.Spelling = Text
	default:
		return r, fault(InvalidCatalog, "parse index: versionFormat %.32q is neither Dotted nor Plain", e.VersionFormat)
	}
	if e.Digest != "" {
		var err error
		if r.Digest, err = inventory.ParseDigest(e.Digest); err != nil {
			return r, fault(InvalidCatalog, "parse index: digest %.80q is not sha256: and 64 lower-case hexadecimal digits", e.Digest)
		}
	}
	for id, hours := range e.PowerOnHours {
		if hours < 1 || hours > maxPowerOnHours || !slices.Contains(e.Fixes, id) && !slices.Contains(e.Has, id) {
			return r, fault(InvalidCatalog, "parse index: powerOnHours of %.64q is not 1 to %d, or the version neither fixes nor has it", id, maxPowerOnHours)
		}
	}
	if !r.clean() {
		return r, fault(InvalidCatalog, "parse index: version %.80q is empty, longer than %d bytes, or not plain ASCII", e.Version, maxVersion)
	}
	return r, nil
}

func (e *Entry) fits(q Query, c Component) bool {
	return e.Class == c.Class &&
		(e.Machine.Vendor == "" || text.Slug(e.Machine.Vendor) == text.Slug(q.Vendor)) &&
		(e.Machine.Model == "" || text.Slug(e.Machine.Model) == text.Slug(q.Model)) &&
		isVendor(e.Vendor, c) &&
		(len(e.Models) == 0 || slices.ContainsFunc(e.Models, func(m string) bool { return same(m, c.DeviceID) || same(m, c.Model) })) &&
		(len(e.BoardIDs) == 0 || slices.ContainsFunc(e.BoardIDs, func(b string) bool { return same(b, c.BoardID) }))
}

func isVendor(named string, c Component) bool {
	vendor, every := inventory.Vendor(named)
	return every || vendor != "" && (vendor == text.Slug(c.VendorID) || vendor == text.Slug(c.Vendor))
}

// same compares without case and surrounding blanks; an empty text is like nothing.
func same(a, b string) bool {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	return a != "" && strings.EqualFold(a, b)
}

// EntriesAnnotation of an OCI manifest is a JSON list of entries, as an index has, that says what the artifact is for. The version of an
// entry that names none is the tag. Entries name no url and digest: the file is that of the artifact.
const EntriesAnnotation = "io.nodefirmware.catalog.entries"

// TaggedManifest is one tag of a repository.
type TaggedManifest struct {
	Tag string
	// Manifest is the digest of the manifest that the tag points to.
	Manifest inventory.Digest
	// File is the digest of the artifact's only file; zero where it has none or several.
	File        inventory.Digest
	Annotations map[string]string
}

// Registry lists the tags of one repository, with their manifests, in the order of the registry.
type Registry interface {
	Tags(ctx context.Context) iter.Seq2[TaggedManifest, error]
}

// OCI offers the tags of a repository whose annotations say what they are for. The address of each offer contains the digest, so it names
// the same artifact even after the tag moves.
type OCI struct {
	// Repository is the address oci://host/name.
	Repository string
	Registry   Registry
	Limits     Limits
}

// Discover looks at each tag once. Tags without the annotation are left out.
func (p OCI) Discover(ctx context.Context, q Query, emit Emit) error {
	limits, n := p.Limits.orDefaults(), 0
	for m, err := range p.Registry.Tags(ctx) {
		if err != nil {
			return err
		}
		if n++; n > limits.Entries {
			return fault(InvalidCatalog, "list tags: more than %d", limits.Entries)
		}
		said, ok := m.Annotations[EntriesAnnotation]
		if !ok {
			continue
		}
		entries, err := p.entries(m, said)
		if err != nil {
			return err
		}
		if err := entries.Discover(ctx, q, emit); err != nil {
			return fmt.Errorf("tag %.128q: %w", m.Tag, err)
		}
	}
	return nil
}

// entries are what the annotation of a manifest says, with its artifact.
func (p OCI) entries(m TaggedManifest, said string) (Entries, error) {
	d := json.NewDecoder(strings.NewReader(said))
	d.DisallowUnknownFields()
	var out Entries
	if err := d.Decode(&out); err != nil {
		return nil, fault(InvalidCatalog, "parse annotation %s of tag %.128q: %w", EntriesAnnotation, m.Tag, err)
	}
	for i := range out {
		e := &out[i]
		if e.URL != "" || e.Digest != "" {
			return nil, fault(InvalidCatalog, "parse annotation %s of tag %.128q: entry %d names url or digest, and its file is that of the artifact", EntriesAnnotation, m.Tag, i)
		}
		e.Version = cmp.Or(e.Version, m.Tag)
		e.URL = p.Repository + "@" + m.Manifest.String()
		if m.File != (inventory.Digest{}) {
			e.Digest = m.File.String()
		}
	}
	return out, nil
}

// IndexSchema is the value of the member "schema" of an index, which comes first.
const IndexSchema = "nodefirmware.io/catalog/v1"

// Index reads a JSON index: an object with the members "schema" and then "versions", a list of entries, in the order in which they are to
// be listed. Members that are not known are an error, so that a restriction of a later schema is not overlooked.
type Index struct {
	// JSON after decompression.
	JSON   io.Reader
	Limits Limits
}

// Discover reads the index once, one entry at a time.
func (p Index) Discover(ctx context.Context, q Query, emit Emit) error {
	limits := p.Limits.orDefaults()
	in := &quota{r: &counted{r: p.JSON, left: limits.Bytes}, left: maxToken}
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	for _, want := range []json.Token{json.Delim('{'), "schema", IndexSchema, "versions", json.Delim('[')} {
		if got, err := d.Token(); err != nil {
			return jsonFault(d, err)
		} else if got != want {
			return fault(InvalidCatalog, "parse index at byte %d: %.80q, want %q", d.InputOffset(), spell(got), spell(want))
		}
	}
	for n := 0; d.More(); n++ {
		if n == limits.Entries {
			return fault(InvalidCatalog, "parse index: more than %d entries; divide it by machine models", limits.Entries)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		in.left = maxToken
		var e Entry
		if err := d.Decode(&e); err != nil {
			return jsonFault(d, err)
		}
		if err := e.offer(q, emit); err != nil {
			return err
		}
	}
	for _, want := range []json.Token{json.Delim(']'), json.Delim('}')} {
		if got, err := d.Token(); err != nil {
			return jsonFault(d, err)
		} else if got != want {
			return fault(InvalidCatalog, "parse index at byte %d: %.80q, want %q", d.InputOffset(), spell(got), spell(want))
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fault(InvalidCatalog, "parse index at byte %d: more after the end of the object", d.InputOffset())
	}
	return nil
}

func spell(t json.Token) string {
	if d, ok := t.(json.Delim); ok {
		return d.String()
	}
	out, _ := json.Marshal(t) // a token is a delimiter or a plain value
	return strings.Trim(string(out), `"`)
}

func jsonFault(d *json.Decoder, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var known *Error
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		strings.HasPrefix(err.Error(), "json: "):
		return fault(InvalidCatalog, "parse index at byte %d: %w", d.InputOffset(), err)
	}
	return fault(DownloadFailed, "read index at byte %d: %w", d.InputOffset(), err)
}

// quota bounds how much is read before left is set again, so that one entry cannot fill the memory.
type quota struct {
	r    io.Reader
	left int
}

func (q *quota) Read(p []byte) (int, error) {
	if q.left <= 0 {
		return 0, fault(InvalidCatalog, "parse index: an entry is longer than %d bytes", maxToken)
	}
	n, err := q.r.Read(p[:min(len(p), q.left)])
	q.left -= n
	return n, err
}
