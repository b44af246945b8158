package artifact

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestAnImageIsWhatItSaysItIs(t *testing.T) { // R001-16
	cab, err := os.ReadFile("../imageinfo/testdata/fwupd.cab")
	require.NoError(t, err)
	bios := func(version string, boards ...string) Description {
		return Description{Class: inventory.BIOS, Version: inventory.Version(version), BoardIDs: boards}
	}
	member := bios("2.19.1", "00000000-0000-0000-0000-000000000000")
	member.Path = "fw.cab"
	for name, tc := range map[string]struct {
		content []byte
		format  Format
		images  Description
		says    string
	}{
		"the right one":                    {cab, FormatImage, bios("2.19.1", "230C8B18-8D9B-53EC-838B-6CFC0383493A"), ""},
		"for any board":                    {cab, FormatImage, bios("2.19.1"), ""},
		"another version":                  {cab, FormatImage, bios("2.19.0"), "says that it is version 2.19.1, and the source says 2.19.0"},
		"a foreign GUID":                   {cab, FormatImage, bios("2.19.1", "00000000-0000-0000-0000-000000000000"), "says that it is for 230c8b18"},
		"a foreign GUID beside a good one": {cab, FormatImage, bios("2.19.1", "230c8b18-8d9b-53ec-838b-6cfc0383493a", "00000000-0000-0000-0000-000000000000"), "the source says for 00000000"},
		"damaged":                          {cab[:len(cab)-9], FormatImage, bios("2.19.1"), "cut off"},
		"a member of an archive":           {tarOf(t, "fw.cab", string(cab)), FormatTarGzip, member, "fw.cab says that it is for"},
		"an image that says nothing":       {[]byte("raw"), FormatImage, bios("2.19.1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			_, err := s.publish("src", s.file("a", tc.content, tc.format, tc.images))
			if tc.says == "" {
				require.NoError(t, err)
				return
			}
			reason, again := ReasonOf(err)
			assert.Equal(t, ImageMismatch, reason, "%v", err)
			assert.False(t, again)
			assert.ErrorContains(t, err, tc.says)
			stored, err := filepath.Glob(filepath.Join(s.root, "blobs", "*"))
			require.NoError(t, err)
			assert.Empty(t, stored)
		})
	}
}
