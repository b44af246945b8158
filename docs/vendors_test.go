package docs_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/sourcefile"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// Each example of a vendor is of a file in the layout that its name says: the store takes its images out of it, and the template asks
// for versions that are in it.
func TestExamplesOfVendors(t *testing.T) {
	page, err := os.ReadFile("drivers/vendors.md")
	require.NoError(t, err)
	files, err := filepath.Glob("examples/vendors/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 10)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			assert.Contains(t, string(page), "(../"+file+")")
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			first, second, two := strings.Cut(string(text), "\n---\n")
			require.True(t, two)
			var source v1alpha1.FirmwareSource
			var template v1alpha1.FirmwareTemplate
			require.NoError(t, yaml.UnmarshalStrict([]byte(first), &source))
			require.NoError(t, yaml.UnmarshalStrict([]byte(second), &template))

			dir := t.TempDir()
			versions := map[string]bool{}
			for i := range source.Spec.Files {
				f := &source.Spec.Files[i]
				name := path.Base(f.URL)
				content := vendorFile(t, name, f.Images)
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
				f.URL, f.Digest = "file://"+filepath.Join(dir, name), v1alpha1.Digest(fmt.Sprintf("sha256:%x", sha256.Sum256(content)))
				for _, image := range f.Images {
					versions[image.Version] = true
				}
			}
			described, err := sourcefile.Of(&source)
			require.NoError(t, err)
			store, err := artifact.OpenStore(t.TempDir(), artifact.NewFetcher(artifact.FetchConfig{FileRoot: dir}), nil)
			require.NoError(t, err)
			for _, f := range described {
				require.NoError(t, store.Download(t.Context(), source.Name, f), f.URL)
			}
			require.NotEmpty(t, template.Spec.Rules)
			for _, rule := range template.Spec.Rules {
				assert.Equal(t, source.Name, rule.SourceRef.Name)
				assert.True(t, versions[rule.Version], rule.Name)
			}
		})
	}
}

// vendorFile is a file in the layout that its name says, with the images that are described.
func vendorFile(t *testing.T, name string, images []v1alpha1.ImageDescription) []byte {
	var members []string
	for _, i := range images {
		if i.Path == "" {
			return wholeFile(t, name)
		}
		members = append(members, i.Path, string(imageOf(t, i)))
	}
	switch {
	case strings.HasSuffix(name, ".BIN"), strings.HasSuffix(name, ".scexe"):
		return append([]byte("#!/bin/sh\nexit 0\n#####Startofarchive#####\n"), tgz(t, members)...)
	case strings.HasSuffix(name, ".EXE"):
		return append([]byte("MZ stub"), zipped(t, members)...)
	case strings.HasSuffix(name, ".rpm"):
		return rpm(t, members)
	case strings.HasSuffix(name, ".fwpkg"):
		return zipped(t, append(members, "payload.json", "{}"))
	}
	if outer, inner, nested := strings.Cut(members[0], ".tar.gz/"); nested {
		return zipped(t, []string{"readme.txt", "R", outer + ".tar.gz", string(tgz(t, []string{inner, members[1]}))})
	}
	return zipped(t, append(members, "readme.txt", "R"))
}

// imageOf is an image that says what it is, where it has a layout that does, for the boards that are described.
func imageOf(t *testing.T, i v1alpha1.ImageDescription) []byte {
	if strings.HasPrefix(path.Base(i.Path), "fw-ConnectX") {
		return adapterImage(t, i)
	}
	return []byte("FIRMWARE " + i.Version)
}

// adapterImage is an image of an adapter for the board.
func adapterImage(t *testing.T, i v1alpha1.ImageDescription) []byte {
	content, err := os.ReadFile("../pkg/imageinfo/testdata/fs5.bin") // whose section has no checksum
	require.NoError(t, err)
	const info = 0x3000
	var major, minor, sub uint16
	_, err = fmt.Sscanf(i.Version, "%d.%d.%d", &major, &minor, &sub)
	require.NoError(t, err)
	for at, v := range map[int]uint16{4: major, 8: minor, 10: sub} {
		binary.BigEndian.PutUint16(content[info+at:], v)
	}
	if len(i.BoardIDs) > 0 {
		copy(content[info+0x24:info+0x34], i.BoardIDs[0]+strings.Repeat("\x00", 16))
	}
	return content
}

// wholeFile is an image as a whole.
func wholeFile(t *testing.T, name string) []byte {
	shared := map[string]string{".cab": "fwupd.cab", ".bin": "nic.pldm"}[path.Ext(name)]
	switch {
	case strings.HasPrefix(name, "fw-ConnectX8"):
		shared = "fs5.bin"
	case strings.HasSuffix(name, ".bfb"):
		return []byte("Bf\x02\x13 BlueField")
	case shared == "":
		return append([]byte("#!/bin/sh\nexit 0\n#####Startofarchive#####\n"), tgz(t, []string{"setup", "S"})...)
	}
	content, err := os.ReadFile("../pkg/imageinfo/testdata/" + shared)
	require.NoError(t, err)
	return content
}

func zipped(t *testing.T, members []string) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(members); i += 2 {
		m, err := w.Create(members[i])
		require.NoError(t, err)
		_, err = m.Write([]byte(members[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func tgz(t *testing.T, members []string) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for i := 0; i < len(members); i += 2 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: members[i], Size: int64(len(members[i+1])), Mode: 0o600}))
		_, err := w.Write([]byte(members[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}

// rpm is a package with empty headers and the members as cpio.
func rpm(t *testing.T, members []string) []byte {
	var cpio bytes.Buffer
	for i := 0; i < len(members)+2; i += 2 {
		name, content := "TRAILER!!!", ""
		if i < len(members) {
			name, content = "./"+members[i], members[i+1]
		}
		fmt.Fprintf(&cpio, "070701%08x%08x%032x%08x%032x%08x%08x%s\x00", 1, 0o100644, 1, len(content), 0, len(name)+1, 0, name)
		cpio.WriteString(strings.Repeat("\x00", -cpio.Len()&3) + content)
		cpio.WriteString(strings.Repeat("\x00", -cpio.Len()&3))
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(cpio.Bytes())
	require.NoError(t, err)
	require.NoError(t, z.Close())
	header := "\x8e\xad\xe8\x01" + strings.Repeat("\x00", 12)
	return []byte("\xed\xab\xee\xdb" + strings.Repeat("\x00", 92) + header + header + packed.String())
}
