package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/package-url/packageurl-go"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// content is what is installed in an image.
type content struct {
	// packages of Debian, in the order of dpkg's list.
	packages []debian
	// programs written in Go, by their paths.
	programs map[string]*debug.BuildInfo
}

// debian is an installed package.
type debian struct {
	Name, Version, Architecture, Source string
	// Size of its files in KiB.
	Size int
}

// maxProgram is how large a program may be to be looked into. Larger ones are an error, because they would be missing in the list.
const maxProgram = 512 << 20

// readContent looks for dpkg's list and for programs that Go built.
func readContent(a *archive) (content, error) {
	c := content{programs: map[string]*debug.BuildInfo{}}
	err := a.files(func(name string, h *tar.Header, r io.Reader) error {
		if name == "var/lib/dpkg/status" {
			raw, err := io.ReadAll(r)
			if err == nil {
				c.packages, err = parseStatus(raw)
			}
			return err
		}
		if fs.FileMode(h.Mode)&0o111 == 0 {
			return nil
		}
		magic := make([]byte, 4)
		if _, err := io.ReadFull(r, magic); err != nil || string(magic) != "\x7fELF" {
			return nil //nolint:nilerr // what is shorter is no program
		}
		if h.Size > maxProgram {
			return fmt.Errorf("%s has %d bytes: more than a program may have here", name, h.Size)
		}
		rest, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if info, err := buildinfo.Read(bytes.NewReader(append(magic, rest...))); err == nil {
			c.programs[name] = info
		}
		return nil
	})
	return c, err
}

// parseStatus reads dpkg's list of packages (deb-control(5)) and leaves out those that are not installed.
func parseStatus(raw []byte) ([]debian, error) {
	var out []debian
	for stanza := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		var p debian
		installed := false
		for line := range strings.SplitSeq(stanza, "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			switch field {
			case "Package":
				p.Name = value
			case "Version":
				p.Version = value
			case "Architecture":
				p.Architecture = value
			case "Source":
				p.Source, _, _ = strings.Cut(value, " ")
			case "Installed-Size":
				if _, err := fmt.Sscanf(value, "%d", &p.Size); err != nil {
					return nil, fmt.Errorf("read size of %s: %w", p.Name, err)
				}
			case "Status":
				installed = strings.HasSuffix(value, " installed")
			}
		}
		if p.Name == "" || installed && p.Version == "" {
			return nil, fmt.Errorf("dpkg's list has a paragraph without a name or a version: %.100q", stanza)
		}
		if installed {
			out = append(out, p)
		}
	}
	return out, nil
}

// writeSBOM writes what is in an image as a document of SPDX 2.3: https://spdx.github.io/spdx-spec/v2.3/. Equal images have equal documents.
func writeSBOM(path, name string, a *archive) error {
	c, err := readContent(a)
	if err != nil {
		return fmt.Errorf("list what is in the image: %w", err)
	}
	var out bytes.Buffer
	if err := spdxjson.Write(document(name, a.ID, c), &out, spdxjson.Indent(" ")); err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	return nil
}

// document describes an image by the packages of Debian and the programs in it, and the programs by the modules in them.
func document(name, id string, c content) *v2_3.Document {
	base, tag, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	d := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		DocumentNamespace: "https://nodefirmware.io/spdx/" + base + "-" + strings.TrimPrefix(id, "sha256:"),
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "node-firmware-operator-images"}}, Created: "1970-01-01T00:00:00Z",
		},
	}
	add := func(p *v2_3.Package, kind, url string) common.ElementID {
		p.PackageSPDXIdentifier = common.ElementID(notID.ReplaceAllString(kind+"-"+p.PackageName+"-"+p.PackageVersion, "-"))
		p.PackageDownloadLocation, p.PackageLicenseConcluded, p.PackageLicenseDeclared = "NOASSERTION", "NOASSERTION", "NOASSERTION"
		p.PackageCopyrightText = "NOASSERTION"
		if url != "" {
			p.PackageExternalReferences = []*v2_3.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: url}}
		}
		if !slices.ContainsFunc(d.Packages, func(o *v2_3.Package) bool { return o.PackageSPDXIdentifier == p.PackageSPDXIdentifier }) {
			d.Packages = append(d.Packages, p)
		}
		return p.PackageSPDXIdentifier
	}
	relate := func(a common.ElementID, how string, b common.ElementID) {
		d.Relationships = append(d.Relationships, &v2_3.Relationship{
			RefA: common.DocElementID{ElementRefID: a}, Relationship: how, RefB: common.DocElementID{ElementRefID: b},
		})
	}
	image := add(&v2_3.Package{
		PackageName: base, PackageVersion: tag, PrimaryPackagePurpose: "CONTAINER",
		PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: strings.TrimPrefix(id, "sha256:")}},
	}, "Image", "")
	relate("DOCUMENT", "DESCRIBES", image)
	for _, p := range c.packages {
		relate(image, "CONTAINS", add(&v2_3.Package{PackageName: p.Name, PackageVersion: p.Version, PackageSourceInfo: p.Source}, "Debian",
			packageurl.NewPackageURL(packageurl.TypeDebian, "debian", p.Name, p.Version, packageurl.Qualifiers{
				{Key: "arch", Value: p.Architecture}, {Key: "distro", Value: "bookworm"},
			}, "").ToString()))
	}
	for _, path := range slices.Sorted(maps.Keys(c.programs)) {
		info := c.programs[path]
		program := add(&v2_3.Package{PackageName: "/" + path, PackageVersion: tag, PrimaryPackagePurpose: "APPLICATION"}, "Program", "")
		relate(image, "CONTAINS", program)
		relate(program, "CONTAINS", add(&v2_3.Package{PackageName: "stdlib", PackageVersion: strings.TrimPrefix(info.GoVersion, "go")}, "Go",
			packageurl.NewPackageURL(packageurl.TypeGolang, "", "stdlib", strings.TrimPrefix(info.GoVersion, "go"), nil, "").ToString()))
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			relate(program, "CONTAINS", add(&v2_3.Package{PackageName: m.Path, PackageVersion: m.Version}, "Go",
				packageurl.NewPackageURL(packageurl.TypeGolang, "", m.Path, m.Version, nil, "").ToString()))
		}
	}
	return d
}

// notID is what an identifier of SPDX cannot contain.
var notID = regexp.MustCompile(`[^A-Za-z0-9.]+`)
