package artifact

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Images are taken out of what vendors ship; the same file without a path is an image as a whole where a profile can run it.
func TestTakesImagesFromVendorsPackages(t *testing.T) { // R001-16
	rpm, err := os.ReadFile("../unpack/testdata/zstd.rpm")
	require.NoError(t, err)
	in := func(path string) Description {
		return Description{Path: path, Class: inventory.BIOS, Models: []string{"R650"}, Version: "2.19.1"}
	}
	exe := append([]byte("MZ stub"), zipOf(t, "payload/fw.bin", "FW", "package.xml", "<x/>")...)
	script := append([]byte("#!/bin/sh\nexit 0\n#####Startofarchive#####\n"), tarOf(t, "payload/fw.bin", "FW", "setup", "#!/bin/sh")...)
	nested := zipOf(t, "readme.txt", "R", "Linux.tar.gz", string(tarOf(t, "E810/fw.bin", "FW", "E810/tool", "T")))
	for name, tc := range map[string]struct {
		content []byte
		path    string
		want    string
		says    string
	}{
		"a program":                {exe, "payload/fw.bin", "FW", ""},
		"a program as a whole":     {exe, "", string(exe), ""},
		"a script":                 {script, "payload/fw.bin", "FW", ""},
		"a script as a whole":      {script, "", string(script), ""},
		"an RPM package":           {rpm, "usr/lib/firmware-nic/dir/two.bin", "TWO", ""},
		"an RPM package's link":    {rpm, "usr/lib/firmware-nic/link.bin", "", "does not hold usr/lib/firmware-nic/link.bin"},
		"an RPM package, whole":    {rpm, "", "", "is an archive (RPM): give each image"},
		"an archive in an archive": {nested, "Linux.tar.gz/E810/fw.bin", "FW", ""},
		"what it lacks":            {nested, "Linux.tar.gz/E810/other.bin", "", "does not hold Linux.tar.gz/E810/other.bin"},
		"the archive in it":        {nested, "Linux.tar.gz", "", "name the image in it, as Linux.tar.gz/PATH"},
		"what is below a file":     {nested, "readme.txt/fw.bin", "", "readme.txt is a file and no directory or archive"},
		"a script without archive": {[]byte("#!/bin/sh\nexit 0\n"), "fw.bin", "", "nor a program with a zip"},
		"a bundle for BlueField":   {[]byte("Bf\x02\x13 and more"), "fw.bin", "", "BlueField bundle (BFB), which is not unpacked here: it is an image as a whole"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			images, err := s.publish("src", s.file("a", tc.content, in(tc.path)))
			if tc.says != "" {
				require.ErrorContains(t, err, tc.says)
				_, again := ReasonOf(err)
				assert.False(t, again)
				assert.Empty(t, s.everything())
				return
			}
			require.NoError(t, err)
			require.Len(t, images, 1)
			got, err := os.ReadFile(s.store.Path(images[0].Digest))
			require.NoError(t, err)
			assert.Equal(t, tc.want, string(got))
		})
	}

	// The node takes the image out of a signed archive itself.
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer out.Close()
	path := filepath.Join(t.TempDir(), "nested.zip")
	require.NoError(t, os.WriteFile(path, nested, 0o600))
	require.NoError(t, Extract(t.Context(), path, "Linux.tar.gz/E810/fw.bin", out))
	got, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	assert.Equal(t, "FW", string(got))
}
