package v1alpha1_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

// TestDescribeSourceGolden: what `kubectl describe` prints of a source that is Ready, and of one whose signature does not hold. The
// conditions are those that the operator writes.
func TestDescribeSourceGolden(t *testing.T) {
	env := apitest.New(t)
	var out strings.Builder
	for _, s := range []*v1alpha1.FirmwareSource{signedSource(), refusedSource()} {
		written := s.Status
		require.NoError(t, env.Client.Create(t.Context(), s))
		s.Status = written
		require.NoError(t, env.Client.Status().Update(t.Context(), s))
		out.WriteString("$ kubectl describe firmwaresource " + s.Name + "\n" + env.Describe(t, v1alpha1.GroupVersion.WithKind("FirmwareSource"), s.Name) + "\n")
	}
	golden.Equal(t, "testdata/describe-firmwaresource.golden", out.String())
}

// signedSource is one signed archive of a mirror, with two images in store.
func signedSource() *v1alpha1.FirmwareSource {
	nic := func(path, board string) v1alpha1.ImageDescription {
		return v1alpha1.ImageDescription{Path: path, Class: v1alpha1.ClassNIC, Vendor: "15b3", BoardIDs: []string{board}, Version: "22.41.1000"}
	}
	s := validSource()
	s.Spec = v1alpha1.FirmwareSourceSpec{
		Verification: &v1alpha1.SourceVerification{
			Keys: []string{"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"},
		},
		SecretRef: &v1alpha1.LocalReference{Name: "node-firmware-source-credentials"},
		CARef:     &v1alpha1.LocalReference{Name: "node-firmware-source-ca"},
		Files: []v1alpha1.FirmwareFile{{
			URL:          "https://mirror.example.com:8443/cx6dx-22.41.1000.tar.zst",
			SignatureURL: "https://mirror.example.com:8443/cx6dx-22.41.1000.tar.zst.minisig",
			Digest:       digest,
			Images:       []v1alpha1.ImageDescription{nic("MCX623106AC/fw.bin", "MT_0000000436"), nic("MCX623106AN/fw.bin", "MT_0000000359")},
		}},
	}
	s.Status = v1alpha1.FirmwareSourceStatus{ObservedGeneration: 1, Conditions: status.Source(nil, 1, someTime.Time, status.SourceFacts{
		Reached: status.SourceDone, Files: 1, Images: 2, Verification: s.Spec.Verification,
	})}
	for _, i := range s.Spec.Files[0].Images {
		s.Status.Images = append(s.Status.Images, v1alpha1.StoredImage{
			Version: i.Version, Class: i.Class, Vendor: i.Vendor, BoardIDs: i.BoardIDs, Digest: digest,
		})
	}
	return s
}

// refusedSource is the same source with an archive that somebody changed.
func refusedSource() *v1alpha1.FirmwareSource {
	s := signedSource()
	s.Name = "cx6dx-2242"
	s.Status.Images = nil
	s.Status.Conditions = status.Source(nil, 1, someTime.Time, status.SourceFacts{
		Reached: status.SourceFetching, Files: 1, Verification: s.Spec.Verification, Reason: v1alpha1.ReasonSignatureInvalid,
		Err: errors.New(s.Spec.Files[0].URL + ": the signature by the minisign key E7620F1842B4E81F is not of this file, or it or its comment was changed; " +
			"nothing of it was stored. Correct the signature, the key or the file, and find out why it was wrong"),
	})
	return s
}
