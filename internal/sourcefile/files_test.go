package sourcefile_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/sourcefile"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func source(files ...v1alpha1.FirmwareFile) *v1alpha1.FirmwareSource {
	return &v1alpha1.FirmwareSource{Spec: v1alpha1.FirmwareSourceSpec{Files: files}}
}

func TestFilesOfASource(t *testing.T) {
	digest := inventory.Digest{0xab}
	got, err := sourcefile.Of(source(
		v1alpha1.FirmwareFile{URL: "https://a.example/fw.bin", Digest: v1alpha1.Digest(digest.String()), Images: []v1alpha1.ImageDescription{{
			Class: v1alpha1.ClassNIC, Vendor: "15b3", Models: []string{"101d"}, BoardIDs: []string{"MT_1"}, Version: " 22.41.1000 ",
		}}},
		v1alpha1.FirmwareFile{URL: "oci://a.example/fw@sha256:0", Images: []v1alpha1.ImageDescription{{Path: "fw.bin"}, {Path: "b.bin"}}},
	))
	require.NoError(t, err)
	assert.Equal(t, []artifact.File{
		{URL: "https://a.example/fw.bin", Digest: digest, Images: []artifact.Description{{
			Class: inventory.NIC, Vendor: "15b3", Models: []string{"101d"}, BoardIDs: []string{"MT_1"}, Version: "22.41.1000",
		}}},
		{URL: "oci://a.example/fw@sha256:0", Images: []artifact.Description{{Path: "fw.bin"}, {Path: "b.bin"}}},
	}, got, "a reference names the digest itself")
}

func TestRejectsUnusableSpec(t *testing.T) {
	nobody := source()
	nobody.Spec.Verification = &v1alpha1.SourceVerification{}
	for says, src := range map[string]*v1alpha1.FirmwareSource{
		"nothing is fetched": nobody,
		"digest":             source(v1alpha1.FirmwareFile{URL: "https://a.example/fw.bin", Digest: "abc"}),
	} {
		_, err := sourcefile.Of(src)
		require.ErrorContains(t, err, says)
		reason, again := artifact.ReasonOf(err)
		assert.Equal(t, artifact.InvalidSpec, reason)
		assert.False(t, again)
	}
}
