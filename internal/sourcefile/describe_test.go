package sourcefile_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
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

func shared(t *testing.T, name string) string {
	content, err := os.ReadFile("../../pkg/imageinfo/testdata/" + name)
	require.NoError(t, err)
	return string(content)
}

func zipOf(t *testing.T, members ...string) string {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := 0; i < len(members); i += 2 {
		m, err := w.Create(members[i])
		require.NoError(t, err)
		_, err = m.Write([]byte(members[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.String()
}

func tgzOf(t *testing.T, members ...string) string {
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
	return out.String()
}

const packageXML = `<?xml version="1.0" encoding="utf-16"?><SoftwareComponent schemaVersion="2.0" vendorVersion="2.19.1" dellVersion="2.19.1">
<ComponentType value="BIOS"><Display lang="en">BIOS</Display></ComponentType>
<SupportedSystems><Brand key="3"><Model systemID="08FF"><Display lang="en">R650</Display></Model></Brand></SupportedSystems></SoftwareComponent>`

const nicXML = `<SoftwareComponent vendorVersion="22.41.10.00"><ComponentType value="FRMW"/><SupportedDevices><Device><PCIInfo vendorID="15B3" deviceID="101D"/></Device></SupportedDevices></SoftwareComponent>`

// What is written is a source that the store takes as it is.
func TestDescribesFilesOfVendors(t *testing.T) { // R001-16
	script := "#!/bin/sh\nexit 0\n#####Startofarchive#####\n"
	for name, tc := range map[string]struct {
		file, content string
		options       sourcefile.Options
		want          []v1alpha1.ImageDescription
		fillIn        []string
	}{
		"an image of an adapter": {"fw-ConnectX6Dx-22.41.1000.bin", shared(t, "fs3.bin"), sourcefile.Options{},
			[]v1alpha1.ImageDescription{{Class: "NIC", BoardIDs: []string{"MT_0000000436"}, Version: "22.41.1000"}}, nil},
		"in a zip, with others": {"fw.zip", zipOf(t, "readme.txt", "R", "fw.bin", shared(t, "fs3.bin"), "page.html", "<html>"), sourcefile.Options{},
			[]v1alpha1.ImageDescription{{Path: "fw.bin", Class: "NIC", BoardIDs: []string{"MT_0000000436"}, Version: "22.41.1000"}}, nil},
		"in a tar in a zip": {"NVM.zip", zipOf(t, "Linux.tar.gz", tgzOf(t, "a/fw.bin", shared(t, "fs5.bin"))), sourcefile.Options{},
			[]v1alpha1.ImageDescription{{Path: "Linux.tar.gz/a/fw.bin", Class: "NIC", BoardIDs: []string{"MT_0000001069"}, Version: "40.43.1014"}}, nil},
		"a cabinet": {"a.cab", shared(t, "fwupd.cab"), sourcefile.Options{Class: "BIOS"},
			[]v1alpha1.ImageDescription{{Class: "BIOS", BoardIDs: []string{"230c8b18-8d9b-53ec-838b-6cfc0383493a", "3db22676-3287-51ae-9d3d-1a7f7eb9cf91"}, Version: "2.19.1"}}, nil},
		"a cabinet of which the class is guessed": {"a.cab", shared(t, "fwupd.cab"), sourcefile.Options{},
			[]v1alpha1.ImageDescription{{Class: "BIOS", BoardIDs: []string{"230c8b18-8d9b-53ec-838b-6cfc0383493a", "3db22676-3287-51ae-9d3d-1a7f7eb9cf91"}, Version: "2.19.1"}},
			[]string{"may be for a drive"}},
		"a PLDM package": {"E810 4.80.bin", shared(t, "nic.pldm"), sourcefile.Options{},
			[]v1alpha1.ImageDescription{{Class: "NIC", Vendor: "8086", Models: []string{"1592"}, Version: "4.80"}}, []string{"controller or a drive", "4.80, 4.80 set, bundle 4.80"}},
		"a capsule": {"bios.cap", shared(t, "bios.cap"), sourcefile.Options{Version: "2.19.1.0"},
			[]v1alpha1.ImageDescription{{Class: "BIOS", BoardIDs: []string{"230c8b18-8d9b-53ec-838b-6cfc0383493a"}, Version: "2.19.1.0"}}, nil},
		"a script of Dell's, as it is": {"BIOS.BIN", script + tgzOf(t, "package.xml", packageXML, "payload/bios.hdr", "HDR"), sourcefile.Options{Whole: true, Models: []string{"PowerEdge R650"}},
			[]v1alpha1.ImageDescription{{Class: "BIOS", Models: []string{"PowerEdge R650"}, Version: "2.19.1"}}, []string{"version of the package"}},
		"what is in it": {"BIOS.BIN", script + tgzOf(t, "package.xml", packageXML, "payload/bios.hdr", "HDR"), sourcefile.Options{},
			[]v1alpha1.ImageDescription{{Path: "payload/bios.hdr", Class: "BIOS", Models: nil, Version: "2.19.1"}}, []string{"version of the package", "models or boardIDs"}},
		"a program of Dell's": {"NIC.EXE", "MZ stub" + zipOf(t, "package.xml", nicXML, "payload/fw.bin", shared(t, "fs3.bin")), sourcefile.Options{},
			[]v1alpha1.ImageDescription{{Path: "payload/fw.bin", Class: "NIC", Vendor: "15b3", Models: []string{"101d"}, BoardIDs: []string{"MT_0000000436"}, Version: "22.41.1000"}}, nil},
		"a drive's image": {"fw.bin", "FIRMWARE", sourcefile.Options{Class: "Disk", Models: []string{"MZ1L21T9HCLS-00A07"}, Version: "GDC7102Q"},
			[]v1alpha1.ImageDescription{{Class: "Disk", Models: []string{"MZ1L21T9HCLS-00A07"}, Version: "GDC7102Q"}}, nil},
		"one of which nothing is known": {"fw.bin", "FIRMWARE", sourcefile.Options{Class: "Disk"},
			[]v1alpha1.ImageDescription{{Class: "Disk", Version: "FILL-IN"}}, []string{"as a device that runs it reports it", "models or boardIDs"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, tc.file)
			require.NoError(t, os.WriteFile(path, []byte(tc.content), 0o600))
			tc.options.URL = "file://" + strings.ReplaceAll(path, " ", "%20")
			text, err := sourcefile.Describe(t.Context(), []string{path}, tc.options)
			if tc.fillIn == nil {
				require.NoError(t, err)
				assert.NotContains(t, string(text), "# FILL IN")
			} else {
				require.ErrorIs(t, err, sourcefile.ErrFillIn)
			}
			for _, s := range tc.fillIn {
				assert.Regexp(t, "(?m)# FILL IN: .*"+s, string(text))
			}
			var source v1alpha1.FirmwareSource
			require.NoError(t, yaml.UnmarshalStrict(text, &source), "%s", text)
			require.Len(t, source.Spec.Files, 1)
			assert.Equal(t, tc.want, source.Spec.Files[0].Images, "%s", text)

			files, err := sourcefile.Of(&source)
			require.NoError(t, err)
			store, err := artifact.OpenStore(t.TempDir(), artifact.NewFetcher(artifact.FetchConfig{FileRoot: dir}), nil)
			require.NoError(t, err)
			err = store.Download(t.Context(), "src", files[0])
			if strings.Contains(strings.Join(tc.fillIn, ""), "models or boardIDs") {
				reason, _ := artifact.ReasonOf(err)
				assert.Equal(t, artifact.BoardsUnknown, reason)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestWritesWhereFilesAre(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "FW ConnectX_6.bin"), filepath.Join(dir, "two.bin")
	require.NoError(t, os.WriteFile(one, []byte(shared(t, "fs3.bin")), 0o600))
	require.NoError(t, os.WriteFile(two, []byte(shared(t, "fs5.bin")), 0o600))
	var source v1alpha1.FirmwareSource
	read := func(o sourcefile.Options, files ...string) error {
		text, err := sourcefile.Describe(t.Context(), files, o)
		source = v1alpha1.FirmwareSource{}
		require.NoError(t, yaml.UnmarshalStrict(text, &source), "%s", text)
		return err
	}
	require.ErrorIs(t, read(sourcefile.Options{}, one), sourcefile.ErrFillIn)
	assert.Equal(t, "fw-connectx-6", source.Name)
	assert.Equal(t, "https://firmware.example.com/FW%20ConnectX_6.bin", source.Spec.Files[0].URL)
	require.NoError(t, read(sourcefile.Options{URL: "https://mirror.example/fw/", Name: "mine"}, one, two))
	assert.Equal(t, "mine", source.Name)
	assert.Equal(t, "https://mirror.example/fw/two.bin", source.Spec.Files[1].URL)
	require.NoError(t, read(sourcefile.Options{URL: "https://mirror.example/x.bin"}, one))
	assert.Equal(t, "https://mirror.example/x.bin", source.Spec.Files[0].URL)
}

// What cannot be described says why, and nothing is written.
func TestSaysWhatCannotBeDescribed(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		options sourcefile.Options
		says    string
	}{
		"a page":                     {"<!DOCTYPE html><html>", sourcefile.Options{}, "it begins like an HTML page, and no image does; it cannot be an image"},
		"a damaged image":            {shared(t, "fs3.bin")[:0x1600], sourcefile.Options{}, "refers to"},
		"nothing":                    {"", sourcefile.Options{}, "it is empty"},
		"an unknown image":           {"FIRMWARE", sourcefile.Options{}, "give --class NIC, StorageController, Disk or BIOS"},
		"a wrong class":              {"FIRMWARE", sourcefile.Options{Class: "Drive"}, `--class "Drive": want NIC`},
		"an archive without images":  {zipOf(t, "a.txt", "A", "b.html", "<html>"), sourcefile.Options{}, "name the images with --path: it holds a.txt, b.html"},
		"an archive as a whole":      {zipOf(t, "a.bin", "A"), sourcefile.Options{Whole: true}, "an archive (Zip) that nothing runs"},
		"a path that is not there":   {zipOf(t, "a.bin", "A"), sourcefile.Options{Paths: []string{"b.bin"}}, "the archive does not hold it; it holds a.bin"},
		"a path of no image":         {zipOf(t, "a.bin", "<html>"), sourcefile.Options{Paths: []string{"a.bin"}}, "begins like an HTML page"},
		"an archive that climbs":     {zipOf(t, "../a.bin", "A"), sourcefile.Options{}, "escapes the archive"},
		"a zip within a zip":         {zipOf(t, "a.bin", zipOf(t, "b", "B")), sourcefile.Options{Paths: []string{"a.bin"}}, "is itself an archive, a zip archive"},
		"more images than there may": {zipOf(t, manyMembers()...), sourcefile.Options{Class: "Disk"}, "65 members look like images, the limit is 64"},
	} {
		path := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(path, []byte(tc.content), 0o600))
		text, err := sourcefile.Describe(t.Context(), []string{path}, tc.options)
		require.ErrorContains(t, err, tc.says, name)
		assert.NotErrorIs(t, err, sourcefile.ErrFillIn, name)
		assert.Empty(t, text, name)
	}
	_, err := sourcefile.Describe(t.Context(), []string{"/no/such/file"}, sourcefile.Options{})
	assert.EqualError(t, err, "describe /no/such/file: read file: no such file or directory")
	_, err = sourcefile.Describe(t.Context(), []string{"a", "b"}, sourcefile.Options{URL: "https://x.example/a"})
	assert.ErrorContains(t, err, "ends in a slash")
}

func manyMembers() []string {
	var out []string
	for i := range 65 {
		out = append(out, strings.Repeat("a", i+1)+".bin", "FIRMWARE")
	}
	return out
}
