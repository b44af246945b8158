package imageinfo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/imageinfo"
)

// The images of the labs say of themselves what their sources say of them, or nothing.
func TestSimulatedImagesAreHonest(t *testing.T) {
	guid := simhost.DefaultSpec("n1", 1).BIOS.GUID
	for kind, o := range map[simhost.ImageKind]simhost.ImageOptions{
		simhost.NICImage:  {Version: "22.41.1000", PSID: "MT_0000000359"},
		simhost.BIOSImage: {Version: "2.19.1", GUID: guid},
		simhost.NVMeImage: {Version: "1"},
		simhost.SCSIImage: {Version: "1"},
	} {
		path := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(path, simhost.BuildImage(kind, o), 0o600))
		f, err := os.Open(path)
		require.NoError(t, err)
		said, err := imageinfo.Read(t.Context(), f)
		require.NoError(t, err, kind)
		require.NoError(t, f.Close())
		if kind != simhost.BIOSImage {
			assert.Empty(t, said, kind)
			continue
		}
		require.Len(t, said, 1)
		assert.Contains(t, said[0].Boards, guid)
		if len(said[0].Versions) > 0 { // a number is not compared
			assert.Contains(t, said[0].Versions, o.Version)
		}
	}
}
