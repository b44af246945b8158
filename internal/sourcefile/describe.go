package sourcefile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/imageinfo"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// ErrFillIn is what an error matches when a FirmwareSource was written of which a person has to fill in something.
var ErrFillIn = errors.New("fill in what is marked FILL IN")

// Options are what a person says of files that the files do not say.
type Options struct {
	// Program is the command that a person typed, for a comment.
	Program string
	// Name of the FirmwareSource; empty for one made of the first file's.
	Name string
	// URL where the operator fetches the file. One that ends in a slash is where all the files are. Empty for a placeholder.
	URL string
	// Class, Version, Vendor and Models of each image; empty for what it says itself.
	Class, Version, Vendor string
	Models                 []string
	// Paths of the images in an archive; empty for those that look like images.
	Paths []string
	// Whole says that a file that could be unpacked is an image as it is.
	Whole bool
}

const (
	placeholderURL     = "https://firmware.example.com/"
	placeholderVersion = "FILL-IN"
	// Bounds of the API.
	mostFiles, mostImages, mostIDs, mostText = 64, 64, 64, 128
)

// Describe writes the FirmwareSource of the files, with comments for people. The error matches ErrFillIn where what is written is valid, but a
// person has to fill in something; otherwise nothing is to be written.
func Describe(ctx context.Context, files []string, o Options) ([]byte, error) {
	classes := []string{string(inventory.NIC), string(inventory.StorageController), string(inventory.Disk), string(inventory.BIOS)}
	switch {
	case o.Class != "" && !slices.Contains(classes, o.Class):
		return nil, fmt.Errorf("--class %q: want %s", o.Class, strings.Join(classes, ", "))
	case len(files) > mostFiles:
		return nil, fmt.Errorf("describe source: %d files, the limit is %d; describe them in several sources", len(files), mostFiles)
	case o.URL != "" && len(files) > 1 && !strings.HasSuffix(o.URL, "/"):
		return nil, fmt.Errorf("--url %q: with several files it is where all of them are, and ends in a slash", o.URL)
	}
	w := &sourceWriter{options: o}
	for _, file := range files {
		content, err := artifact.Inspect(ctx, file)
		if err == nil {
			err = w.file(filepath.Base(file), content)
		}
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", file, err)
		}
	}
	name := cmp.Or(o.Name, objectName(filepath.Base(files[0])))
	out := fmt.Appendf(nil, "# Written by %s. Lines with FILL IN need a person; see docs/kinds/firmwaresource.md.\n"+
		"apiVersion: nodefirmware.io/v1alpha1\nkind: FirmwareSource\nmetadata:\n  name: %s\nspec:\n  files:\n%s", o.Program, quoted(name), w.text.Bytes())
	if w.missing > 0 {
		return out, fmt.Errorf("describe source: %d places need a person: %w, and the source can be applied", w.missing, ErrFillIn)
	}
	return out, nil
}

// sourceWriter writes the files of a FirmwareSource.
type sourceWriter struct {
	options Options
	text    bytes.Buffer
	missing int
}

func (w *sourceWriter) line(format string, args ...any) { fmt.Fprintf(&w.text, format+"\n", args...) }

// fillIn is a comment for a person.
func (w *sourceWriter) fillIn(format string, args ...any) string {
	w.missing++
	return " # FILL IN: " + fmt.Sprintf(format, args...)
}

// file writes one file.
func (w *sourceWriter) file(name string, c artifact.Content) error {
	images, err := w.choose(name, c)
	if err != nil {
		return err
	}
	at, note := w.options.URL, ""
	switch {
	case at == "":
		at, note = placeholderURL+url.PathEscape(name), w.fillIn("where the operator fetches the file")
	case strings.HasSuffix(at, "/"):
		at += url.PathEscape(name)
	}
	w.line("  # %s: %d bytes%s", printable(name), c.Size, formatNote(c))
	w.line("  - url: %s%s", quoted(at), note)
	w.line("    digest: %s", c.Digest)
	w.line("    images:")
	for _, m := range images {
		if err := w.image(m, c.Package); err != nil {
			return err
		}
	}
	return nil
}

func formatNote(c artifact.Content) string {
	if c.Format == "" {
		return ""
	}
	note := fmt.Sprintf(", %s with %d members", c.Format, len(c.Members))
	if c.Format.IsProgram() {
		note += ". A profile may run it as a whole: give --whole"
	}
	return note
}

// choose returns the images of a file.
func (w *sourceWriter) choose(name string, c artifact.Content) ([]artifact.Member, error) {
	itself := c.Format == "" || c.Format == "Cabinet" && len(w.options.Paths) == 0
	if itself || w.options.Whole && c.Format.IsProgram() {
		if c.Itself.Problem != "" {
			return nil, fmt.Errorf("%s; it cannot be an image of a FirmwareSource", c.Itself.Problem)
		}
		return []artifact.Member{c.Itself}, nil
	}
	if w.options.Whole {
		return nil, fmt.Errorf("--whole: the file is an archive (%s) that nothing runs; leave it out, or name images with --path", c.Format)
	}
	var out []artifact.Member
	for _, path := range w.options.Paths {
		i := slices.IndexFunc(c.Members, func(m artifact.Member) bool { return m.Path == path })
		switch {
		case i < 0:
			return nil, fmt.Errorf("--path %s: the archive does not hold it; it holds %s", path, memberNames(c.Members))
		case c.Members[i].Problem != "":
			return nil, fmt.Errorf("--path %s: %s", path, c.Members[i].Problem)
		}
		out = append(out, c.Members[i])
	}
	for _, likely := range []func(artifact.Member) bool{
		func(m artifact.Member) bool { return m.Kind != "" || len(m.Says) > 0 },
		func(m artifact.Member) bool { return firmwareName.MatchString(m.Path) },
	} {
		for _, m := range c.Members {
			if len(w.options.Paths) == 0 && m.Problem == "" && m.Size > 0 && likely(m) {
				out = append(out, m)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	switch {
	case len(out) == 0:
		return nil, fmt.Errorf("no member looks like an image; name the images with --path: it holds %s", memberNames(c.Members))
	case len(out) > mostImages:
		return nil, fmt.Errorf("%d members look like images, the limit is %d; name those that you have devices for with --path: %s", len(out), mostImages, memberNames(out))
	}
	return out, nil
}

// firmwareName are names that vendors give to images.
var firmwareName = regexp.MustCompile(`(?i)\.(bin|rom|fd|cap|hdr|img|fwh|fw|flash|signed\.flash|pldm|bfb|mfa|mfa2|cab|pkg|vme|upd)$`)

// image writes the descriptions of one image.
func (w *sourceWriter) image(m artifact.Member, p *artifact.Package) error {
	class, note := w.class(m, p)
	if class == "" {
		return fmt.Errorf("%s does not say for which class of devices it is: give --class NIC, StorageController, Disk or BIOS", cmp.Or(m.Path, "it"))
	}
	said := m.Says
	if len(said) == 0 {
		said = []imageinfo.Firmware{{}}
	}
	if m.Path == "" && len(said) > 1 { // a file that is an image has one description
		joined := said[0]
		for _, s := range said[1:] {
			joined.Versions, joined.Boards, joined.PCI = append(joined.Versions, s.Versions...), append(joined.Boards, s.Boards...), append(joined.PCI, s.PCI...)
		}
		said = []imageinfo.Firmware{joined}
	}
	for _, s := range said {
		if v := w.options.Version; v != "" && len(s.Versions) > 0 && !slices.Contains(s.Versions, v) {
			return fmt.Errorf("--firmware-version %s: %s says that it is version %s", v, cmp.Or(m.Path, "it"), printable(strings.Join(s.Versions, ", ")))
		}
		if m.Path == "" {
			w.line("    - class: %s%s", class, note)
		} else {
			w.line("    - path: %s", quoted(m.Path))
			w.line("      class: %s%s", class, note)
		}
		w.boards(class, s, p)
		w.version(s, p)
	}
	return nil
}

// class is the class that a person said, or that the image or its package says.
func (w *sourceWriter) class(m artifact.Member, p *artifact.Package) (inventory.Class, string) {
	of := func(class inventory.Class) bool { return m.Kind.IsFor(class) }
	switch {
	case w.options.Class != "":
		return inventory.Class(w.options.Class), ""
	case m.Kind != "" && of(inventory.NIC):
		return inventory.NIC, ""
	case m.Kind != "" && of(inventory.BIOS):
		return inventory.BIOS, ""
	case len(m.Says) > 0 && m.Says[0].GUIDs:
		return inventory.BIOS, w.fillIn("a cabinet or capsule may be for a drive or an adapter too")
	case len(m.Says) > 0 && len(m.Says[0].PCI) > 0:
		return inventory.NIC, w.fillIn("a PLDM package may be for a controller or a drive too")
	case p != nil && p.Type.Value == "BIOS":
		return inventory.BIOS, ""
	}
	return "", ""
}

// boards writes for which devices an image is.
func (w *sourceWriter) boards(class inventory.Class, s imageinfo.Firmware, p *artifact.Package) {
	vendor, models, boards := w.options.Vendor, w.options.Models, s.Boards
	if s.GUIDs && class != inventory.BIOS {
		w.line("      # It says that it is for %s, which are no board ids of this class.", printable(strings.Join(boards, ", ")))
		boards = nil
	}
	pci := s.PCI
	if p != nil && len(pci) == 0 {
		for _, d := range p.Devices {
			pci = append(pci, imageinfo.PCIDevice{Vendor: strings.ToLower(d.Vendor), Device: strings.ToLower(d.Device)})
		}
	}
	var ids, vendors []string
	for _, d := range pci {
		if !slices.Contains(ids, d.Device) && pciID.MatchString(d.Device) {
			ids = append(ids, d.Device)
		}
		if !slices.Contains(vendors, d.Vendor) && pciID.MatchString(d.Vendor) {
			vendors = append(vendors, d.Vendor)
		}
	}
	if len(models) == 0 && class != inventory.BIOS {
		models = ids
	}
	if vendor == "" && len(vendors) == 1 && class != inventory.BIOS {
		vendor = vendors[0]
	}
	if vendor != "" {
		w.line("      vendor: %s", quoted(vendor))
	}
	if p != nil && len(p.Models) > 0 {
		w.line("      # Its package names the machines %s.", printable(strings.Join(p.Models[:min(len(p.Models), 20)], ", ")))
	}
	switch {
	case len(models) > 0:
		w.line("      models: %s", list(models))
	case len(boards) == 0 && vendor != inventory.AnyVendor:
		w.line("      # models: []%s", w.fillIn("the models or boardIDs that it is for; it does not say so itself"))
	}
	if len(boards) > 0 {
		w.line("      boardIDs: %s", list(boards))
	}
}

var pciID = regexp.MustCompile(`^[0-9a-f]{4}$`)

// version writes the version of an image.
func (w *sourceWriter) version(s imageinfo.Firmware, p *artifact.Package) {
	said := slices.Compact(slices.Clone(s.Versions))
	switch {
	case w.options.Version != "":
		w.line("      version: %s", quoted(w.options.Version))
	case len(said) == 1:
		w.line("      version: %s", quoted(said[0]))
	case len(said) > 1:
		w.line("      version: %s%s", quoted(said[0]), w.fillIn("as a device reports it: %s", printable(strings.Join(said, ", "))))
	case p != nil:
		w.line("      version: %s%s", quoted(p.Version), w.fillIn("this is the version of the package; write it as a device reports it"))
	default:
		w.line("      version: %s%s", placeholderVersion, w.fillIn("as a device that runs it reports it"))
	}
}

// memberNames lists members, as far as a message has room.
func memberNames(members []artifact.Member) string {
	var out []string
	for _, m := range members {
		out = append(out, m.Path)
	}
	const most = 20
	if n := len(out) - most; n > 0 {
		out = append(out[:most], fmt.Sprintf("and %d more", n))
	}
	return printable(strings.Join(out, ", "))
}

// objectName makes a name of an object of the name of a file.
func objectName(file string) string {
	name := strings.Trim(notName.ReplaceAllString(strings.ToLower(file), "-"), "-")
	for _, end := range []string{".gz", ".tar", ".zip", ".bin", ".exe", ".rpm", ".cab", ".fwpkg"} {
		name = strings.TrimSuffix(name, end)
	}
	name = strings.Trim(strings.ReplaceAll(name, ".", "-"), "-")
	return cmp.Or(strings.TrimRight(name[:min(len(name), 63)], "-"), "firmware")
}

var notName = regexp.MustCompile(`[^a-z0-9.]+`)

// quoted is a text as a scalar of YAML, of which JSON is a part.
func quoted(text string) string {
	if plain.MatchString(text) {
		return text
	}
	out, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(out)
}

// plain are texts that YAML takes as they are: no numbers, no words of its own.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*[0-9_-][A-Za-z0-9_]*$|^https?://[A-Za-z0-9./_-]+$|^[A-Za-z0-9_]+(/[A-Za-z0-9_.-]+)+$`)

// list is a list of texts in YAML, as many as the API takes.
func list(texts []string) string {
	var out []string
	for _, t := range texts {
		if q := quoted(t); !slices.Contains(out, q) && len(out) < mostIDs && len(t) <= mostText {
			out = append(out, q)
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// printable is a text for a comment: one line of what can be printed.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == 0x85 || c == 0x2028 || c == 0x2029 || c == '\ufeff' {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
}
