package source

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature/signaturetest"
)

const issuer, release = "https://accounts.example.com", "release@example.com"

func sigstoreMode(root []byte, subjects ...string) *v1alpha1.SourceVerification {
	v := &v1alpha1.SourceVerification{TrustedRoot: string(root)}
	for _, s := range subjects {
		v.Identities = append(v.Identities, v1alpha1.SignerIdentity{Issuer: issuer, Subject: s})
	}
	return v
}

func TestTrustsSigningIdentity(t *testing.T) {
	vendor, other := signaturetest.New(t), signaturetest.New(t)
	late := signaturetest.JSON(t, vendor.Bundle(t, release, issuer, []byte("FIRMWARE"), time.Now().Add(time.Hour)))
	for name, c := range map[string]struct {
		bundle []byte
		want   string // empty for a source that is ready
	}{
		"by the identity":               {bundle: vendor.Sign(t, release, issuer, []byte("FIRMWARE"))},
		"by another identity":           {bundle: vendor.Sign(t, "intern@example.com", issuer, []byte("FIRMWARE")), want: "SignatureUntrusted"},
		"by another issuer":             {bundle: vendor.Sign(t, release, "https://evil.example.com", []byte("FIRMWARE")), want: "SignatureUntrusted"},
		"by another Sigstore":           {bundle: other.Sign(t, release, issuer, []byte("FIRMWARE")), want: "SignatureUntrusted"},
		"of another file":               {bundle: vendor.Sign(t, release, issuer, []byte("OTHER")), want: "SignatureInvalid"},
		"by a certificate that expired": {bundle: late, want: "SignatureUntrusted"},
		"by a key":                      {bundle: []byte(newPublisher(t).sign(t, "FIRMWARE")), want: "SignatureUntrusted"},
		"an error page":                 {bundle: []byte("<html>404</html>"), want: "SignatureInvalid"},
		"nothing":                       {want: "SignatureMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.createVerified("cx", sigstoreMode(vendor.Root(t), release), b.signed(b.file("fw.bin", "FIRMWARE"), string(c.bundle)))
			got, err := b.reconcile("cx")
			require.NoError(t, err)
			if c.want == "" {
				assert.Equal(t, "True Succeeded", b.reason("cx", "Ready"))
				assert.Equal(t, "True Succeeded", b.reason("cx", "SignatureVerified"))
				assert.Contains(t, meta.FindStatusCondition(b.get("cx").Status.Conditions, "SignatureVerified").Message, "an identity of spec.verification")
				b.requireStatus("cx", status.CurrentStatus)
				st, err := b.store.Statement(inventory.Digest(sha256.Sum256([]byte("FIRMWARE"))))
				require.NoError(t, err)
				require.Len(t, st.Claims, 1)
				assert.Equal(t, c.bundle, st.Claims[0].Signature, "nodes get the bundle as it is")
				return
			}
			assert.Equal(t, ctrl.Result{RequeueAfter: lookAgain}, got, "it is looked at again")
			for _, kind := range []string{"Ready", "SignatureVerified"} {
				assert.Equal(t, "False "+c.want, b.reason("cx", kind))
			}
			b.requireStatus("cx", status.FailedStatus)
			assert.Empty(t, b.stored(), "nothing of it is kept")
		})
	}
}

func TestOtherIdentitiesAndRootsVerifyWhatIsInStoreAgain(t *testing.T) {
	vendor := signaturetest.New(t)
	root := vendor.Root(t)
	b := newBench(t)
	b.createVerified("cx", sigstoreMode(root, release), b.signed(b.file("fw.bin", "FIRMWARE"), string(vendor.Sign(t, release, issuer, []byte("FIRMWARE")))))
	for _, c := range []struct {
		v    *v1alpha1.SourceVerification
		want string
	}{
		{sigstoreMode(root, release), "True Succeeded"},
		{sigstoreMode(root, "successor@example.com"), "False SignatureUntrusted"},
		{sigstoreMode(root, "successor@example.com", release), "True Succeeded"},
		{sigstoreMode(signaturetest.New(t).Root(t), release), "False SignatureUntrusted"},
		{keysMode(newPublisher(t).public), "False SignatureUntrusted"},
		{sigstoreMode(root, release), "True Succeeded"},
	} {
		b.edit("cx", func(s *v1alpha1.FirmwareSource) { s.Spec.Verification = c.v })
		_, err := b.reconcile("cx")
		require.NoError(t, err)
		assert.Equal(t, c.want, b.reason("cx", "SignatureVerified"))
		assert.Equal(t, c.want == "True Succeeded", len(b.get("cx").Status.Images) == 1, "an image that nobody of the spec signed is not offered")
	}
}
