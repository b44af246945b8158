package source

import (
	"archive/zip"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature/signaturetest"
)

// publisher signs with a minisign key of his own.
type publisher struct {
	private minisign.PrivateKey
	public  string
}

func newPublisher(t *testing.T) publisher {
	t.Helper()
	public, private, err := minisign.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return publisher{private: private, public: public.String()}
}

func (p publisher) sign(t *testing.T, content string) string {
	t.Helper()
	r := minisign.NewReader(strings.NewReader(content))
	_, err := bytes.NewBuffer(nil).ReadFrom(r)
	require.NoError(t, err)
	return string(r.Sign(p.private))
}

// signed puts the signature beside the file.
func (b *bench) signed(f v1alpha1.FirmwareFile, sig string) v1alpha1.FirmwareFile {
	f.SignatureURL = f.URL + ".minisig"
	require.NoError(b.t, os.WriteFile(strings.TrimPrefix(f.SignatureURL, "file://"), []byte(sig), 0o600))
	return f
}

func (b *bench) createVerified(name string, v *v1alpha1.SourceVerification, files ...v1alpha1.FirmwareFile) {
	b.create(name, files...)
	b.edit(name, func(s *v1alpha1.FirmwareSource) { s.Spec.Verification = v })
}

// edit changes the spec, and counts the generation as the API server does.
func (b *bench) edit(name string, change func(*v1alpha1.FirmwareSource)) {
	s := b.get(name)
	change(s)
	s.Generation++
	require.NoError(b.t, b.client.Update(b.t.Context(), s))
}

func keysMode(keys ...string) *v1alpha1.SourceVerification {
	return &v1alpha1.SourceVerification{Keys: keys}
}

func (b *bench) stored() []string {
	entries, err := os.ReadDir(filepath.Join(filepath.Dir(b.store.Path(inventory.Digest{})), "."))
	require.NoError(b.t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func expiredKey(t *testing.T, content string) (certificate, sig string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(content))
	raw, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(raw)
}

func TestSaysWhetherFilesAreSigned(t *testing.T) {
	vendor := newPublisher(t)
	for name, c := range map[string]struct {
		verification *v1alpha1.SourceVerification
		want         string
	}{
		"not asked for": {want: "absent"},
		"signed":        {verification: keysMode(newPublisher(t).public, vendor.public), want: "True Succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			f := b.file("fw.bin", "FIRMWARE")
			if c.verification != nil {
				f = b.signed(f, vendor.sign(t, "FIRMWARE"))
			}
			b.createVerified("cx", c.verification, f)
			_, err := b.reconcile("cx")
			require.NoError(t, err)
			assert.Equal(t, c.want, b.reason("cx", "SignatureVerified"))
			assert.Equal(t, "True Succeeded", b.reason("cx", "Ready"))
			b.requireStatus("cx", status.CurrentStatus)
		})
	}
}

func TestASignatureThatDoesNotHoldIsLoud(t *testing.T) {
	vendor, stranger := newPublisher(t), newPublisher(t)
	certificate, old := expiredKey(t, "FIRMWARE")
	for name, c := range map[string]struct {
		key, sig string
		change   func(*bench, *v1alpha1.FirmwareFile)
		want     string
	}{
		"of another file": {key: vendor.public, sig: vendor.sign(t, "OTHER"), want: "SignatureInvalid"},
		"damaged":         {key: vendor.public, sig: vendor.sign(t, "FIRMWARE")[:90], want: "SignatureInvalid"},
		"too large":       {key: vendor.public, sig: strings.Repeat("x", signature.MaxBytes+1), want: "SignatureInvalid"},
		"another key":     {key: vendor.public, sig: stranger.sign(t, "FIRMWARE"), want: "SignatureUntrusted"},
		"expired":         {key: certificate, sig: old, want: "SignatureUntrusted"},
		"empty":           {key: vendor.public, want: "SignatureMissing"},
		"no such file": {key: vendor.public, want: "SignatureMissing", change: func(_ *bench, f *v1alpha1.FirmwareFile) {
			f.SignatureURL += ".gone"
		}},
		"no URL": {key: vendor.public, want: "SignatureMissing", change: func(_ *bench, f *v1alpha1.FirmwareFile) { f.SignatureURL = "" }},
		"404": {key: vendor.public, want: "SignatureMissing", change: func(b *bench, f *v1alpha1.FirmwareFile) {
			f.SignatureURL = answering(b.t, http.StatusNotFound) + "/fw.minisig"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			f := b.signed(b.file("fw.bin", "FIRMWARE"), c.sig)
			if c.change != nil {
				c.change(b, &f)
			}
			b.createVerified("cx", keysMode(c.key), f)
			got, err := b.reconcile("cx")
			require.NoError(t, err)
			assert.Equal(t, ctrl.Result{RequeueAfter: lookAgain}, got, "it is looked at again")
			assert.Equal(t, "False "+c.want, b.reason("cx", "Ready"))
			assert.Equal(t, "True "+c.want, b.reason("cx", "Stalled"))
			assert.Equal(t, "False "+c.want, b.reason("cx", "SignatureVerified"))
			b.requireStatus("cx", status.FailedStatus)
			assert.Contains(t, <-b.events.Events, "Warning "+c.want)
			assert.Empty(t, b.stored(), "nothing of it is kept")
			assert.Empty(t, b.get("cx").Status.Images)

			// In another process it is said once, and what holds by then is taken.
			b.start()
			before := b.get("cx").ResourceVersion
			_, err = b.reconcile("cx")
			require.NoError(t, err)
			assert.Equal(t, before, b.get("cx").ResourceVersion, "nothing changed, so nothing is written")
			assert.Empty(t, b.stored())
			if c.change == nil && c.key == vendor.public {
				b.signed(f, vendor.sign(t, "FIRMWARE"))
				_, err = b.reconcile("cx")
				require.NoError(t, err)
				assert.Equal(t, "True Succeeded", b.reason("cx", "SignatureVerified"))
				assert.Equal(t, "True Succeeded", b.reason("cx", "Ready"))
			}
		})
	}
}

func answering(t *testing.T, code int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	t.Cleanup(server.Close)
	return server.URL
}

func TestASignatureThatCannotBeFetchedNowIsTriedAgain(t *testing.T) {
	b := newBench(t)
	f := b.file("fw.bin", "FIRMWARE")
	f.SignatureURL = answering(t, http.StatusServiceUnavailable) + "/fw.minisig"
	b.createVerified("cx", keysMode(newPublisher(t).public), f)
	_, err := b.reconcile("cx")
	require.Error(t, err)
	assert.Equal(t, "False DownloadFailed", b.reason("cx", "Ready"))
	assert.Equal(t, "Unknown Pending", b.reason("cx", "SignatureVerified"))
	b.requireStatus("cx", status.InProgressStatus)
	assert.Empty(t, b.stored())
}

func TestUnusableKeysFetchNothing(t *testing.T) {
	for name, v := range map[string]*v1alpha1.SourceVerification{
		"nobody": {}, "none": keysMode("my key"), "a trusted root that is none": sigstoreMode([]byte("{}"), "release@example.com"),
		"no identity": {TrustedRoot: string(signaturetest.New(t).Root(t))},
		"both":        {Keys: []string{newPublisher(t).public}, TrustedRoot: string(signaturetest.New(t).Root(t))},
	} {
		b := newBench(t)
		b.createVerified("cx", v, b.file("fw.bin", "FIRMWARE"))
		_, err := b.reconcile("cx")
		require.NoError(t, err, name)
		assert.Equal(t, "False InvalidSpec", b.reason("cx", "Ready"), name)
		assert.Equal(t, "Unknown Pending", b.reason("cx", "SignatureVerified"), name)
		assert.Empty(t, b.stored(), name)
	}
}

func TestOtherKeysReverifyStore(t *testing.T) {
	vendor, successor := newPublisher(t), newPublisher(t)
	b := newBench(t)
	f := b.signed(b.file("fw.bin", "FIRMWARE"), vendor.sign(t, "FIRMWARE"))
	plain := f
	plain.SignatureURL = ""
	b.create("cx", plain)
	_, err := b.reconcile("cx")
	require.NoError(t, err)
	require.Len(t, b.get("cx").Status.Images, 1)

	b.edit("cx", func(s *v1alpha1.FirmwareSource) {
		s.Spec.Verification, s.Spec.Files[0].SignatureURL = keysMode(successor.public), f.SignatureURL
	})
	_, err = b.reconcile("cx")
	require.NoError(t, err)
	assert.Equal(t, "False SignatureUntrusted", b.reason("cx", "Ready"))
	assert.Empty(t, b.get("cx").Status.Images, "what was stored unsigned is not offered any more")

	b.edit("cx", func(s *v1alpha1.FirmwareSource) { s.Spec.Verification = keysMode(vendor.public) })
	_, err = b.reconcile("cx")
	require.NoError(t, err)
	assert.Equal(t, "True Succeeded", b.reason("cx", "SignatureVerified"))
	require.Len(t, b.get("cx").Status.Images, 1)
}

// A statement is a file beside the image, and nodes refuse the image without it. One that is lost comes back without a download.
func TestRestoresLostStatement(t *testing.T) {
	vendor, image := newPublisher(t), inventory.Digest(sha256.Sum256([]byte("FIRMWARE")))
	b := newBench(t)
	f := b.signed(b.file("fw.bin", "FIRMWARE"), vendor.sign(t, "FIRMWARE"))
	plain := f
	plain.SignatureURL = ""
	b.create("unsigned", plain) // it keeps the image, and states nothing
	_, err := b.reconcile("unsigned")
	require.NoError(t, err)
	st, err := b.store.Statement(image)
	require.NoError(t, err)
	assert.Empty(t, st.Claims)

	b.createVerified("signed", keysMode(vendor.public), f)
	_, err = b.reconcile("signed")
	require.NoError(t, err)
	want, err := b.store.Statement(image)
	require.NoError(t, err)
	require.Len(t, want.Claims, 1)
	require.NoError(t, os.Remove(strings.TrimPrefix(f.URL, "file://"))) // nothing can be downloaded any more

	at := filepath.Join(filepath.Dir(b.store.Path(image)), "..", "statements", filepath.Base(b.store.Path(image))+".json")
	for name, harm := range map[string]func() error{
		"lost": func() error { return os.Remove(at) },
		"emptied": func() error {
			return errors.Join(os.Chmod(at, 0o600), os.WriteFile(at, []byte(`{"claims":[]}`), 0o600))
		},
		"damaged": func() error { return errors.Join(os.Chmod(at, 0o600), os.WriteFile(at, []byte("rot"), 0o600)) },
	} {
		require.NoError(t, harm(), name)
		b.start()
		_, err = b.reconcile("unsigned")
		require.NoError(t, err, name)
		if st, err := b.store.Statement(image); err == nil {
			assert.Empty(t, st.Claims, "%s: what was not verified states nothing", name)
		}
		_, err = b.reconcile("signed")
		require.NoError(t, err, name)
		st, err := b.store.Statement(image)
		require.NoError(t, err, name)
		assert.Equal(t, want, st, name)
		assert.Equal(t, "True Succeeded", b.reason("signed", "Ready"), name)
		require.Len(t, b.get("signed").Status.Images, 1, name)
	}
	b.requireStatus("signed", status.CurrentStatus)
}

// Who may write a source with keys of his own cannot take an image from the nodes that trust somebody else.
func TestForeignClaimsPushNothing(t *testing.T) {
	image := inventory.Digest(sha256.Sum256([]byte("FIRMWARE")))
	for _, first := range []bool{true, false} {
		b := newBench(t)
		add := func(name string) string {
			p := newPublisher(t)
			sig := p.sign(t, "FIRMWARE")
			b.createVerified(name, keysMode(p.public), b.signed(b.file(name+".bin", "FIRMWARE"), sig))
			_, err := b.reconcile(name)
			require.NoError(t, err)
			assert.Equal(t, "True Succeeded", b.reason(name, "Ready"), name)
			return sig
		}
		claims := func() (out []string) {
			st, err := b.store.Statement(image)
			require.NoError(t, err)
			for _, c := range st.Claims {
				out = append(out, string(c.Signature))
			}
			return out
		}
		foreign := func() {
			for i := range 20 {
				add(fmt.Sprintf("foreign-%d", i))
			}
		}
		if first {
			genuine := add("genuine")
			foreign()
			assert.Contains(t, claims(), genuine)
			assert.Len(t, claims(), 16)
			continue
		}
		foreign()
		before := claims()
		add("genuine")
		assert.Equal(t, before, claims(), "who came first keeps the place")
		for i := range 20 {
			if i != 7 {
				require.NoError(t, b.store.Remove(fmt.Sprintf("foreign-%d", i)))
			}
		}
		genuine := add("genuine-again")
		assert.Contains(t, claims(), genuine, "what no source has any more makes room")
	}
}

// A certificate that expires ends what its key vouches for at the source, before a node is drained to find out, and without another download.
func TestExpiredKeyEndsOffers(t *testing.T) {
	b := newBench(t)
	certificate, sig := expiredKey(t, "FIRMWARE")
	now := b.now
	b.now = now.Add(-36 * time.Hour)
	f := b.signed(b.file("fw.bin", "FIRMWARE"), sig)
	b.createVerified("cx", keysMode(certificate), f)
	result, err := b.reconcile("cx")
	require.NoError(t, err)
	require.Len(t, b.get("cx").Status.Images, 1)
	require.Equal(t, lookAgain, result.RequeueAfter)

	require.NoError(t, os.Remove(strings.TrimPrefix(f.URL, "file://"))) // a download would fail otherwise
	b.now = now
	result, err = b.reconcile("cx")
	require.NoError(t, err)
	assert.Equal(t, "False SignatureUntrusted", b.reason("cx", "Ready"))
	assert.Contains(t, b.message("cx", "Ready"), "and not now")
	assert.Contains(t, b.message("cx", "Ready"), "spec.verification")
	assert.Empty(t, b.get("cx").Status.Images, "nothing new is assigned")
	assert.Equal(t, lookAgain, result.RequeueAfter)
	before := b.get("cx")
	_, err = b.reconcile("cx")
	require.NoError(t, err)
	assert.Equal(t, before.ResourceVersion, b.get("cx").ResourceVersion)

	b.now = now.Add(-36 * time.Hour) // the operator's clock was wrong
	_, err = b.reconcile("cx")
	require.NoError(t, err)
	assert.Equal(t, "True Succeeded", b.reason("cx", "Ready"))
	require.Len(t, b.get("cx").Status.Images, 1)
}

// A publisher signs anew at the same address. Until that holds, its signature is asked for at each look, and the file never.
func TestSignedAnew(t *testing.T) {
	vendor, stranger := newPublisher(t), newPublisher(t)
	certificate, old := expiredKey(t, "FIRMWARE")
	for name, tc := range map[string]struct {
		sig, want string
	}{
		"as before":           {old, "False SignatureUntrusted"},
		"by another key":      {vendor.sign(t, "FIRMWARE"), "True Succeeded"},
		"by a stranger":       {stranger.sign(t, "FIRMWARE"), "False SignatureUntrusted"},
		"for another content": {vendor.sign(t, "OTHER"), "False SignatureInvalid"},
		"not at all":          {"", "False SignatureMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			now := b.now
			b.now = now.Add(-36 * time.Hour)
			f := b.signed(b.file("fw.bin", "FIRMWARE"), old)
			b.createVerified("cx", keysMode(certificate, vendor.public), f)
			_, err := b.reconcile("cx")
			require.NoError(t, err)
			require.Equal(t, "True Succeeded", b.reason("cx", "Ready"))
			b.now = now
			_, err = b.reconcile("cx")
			require.NoError(t, err)
			require.Equal(t, "False SignatureUntrusted", b.reason("cx", "Ready"))

			if tc.sig == "" {
				require.NoError(t, os.Remove(strings.TrimPrefix(f.SignatureURL, "file://")))
			} else {
				b.signed(f, tc.sig)
			}
			if !strings.HasPrefix(tc.want, "True") {
				require.NoError(t, os.Remove(strings.TrimPrefix(f.URL, "file://"))) // a download would fail otherwise
			}
			for range 2 {
				result, err := b.reconcile("cx")
				require.NoError(t, err)
				assert.Equal(t, tc.want, b.reason("cx", "Ready"))
				assert.Equal(t, lookAgain, result.RequeueAfter)
			}
			if strings.HasPrefix(tc.want, "False") {
				assert.Contains(t, b.message("cx", "Ready"), "looked at every 10 minutes")
			}
		})
	}
}

func TestTheStatementAndTheArchiveStayAsLongAsAnUnfinishedJobNeedsTheImage(t *testing.T) {
	vendor := newPublisher(t)
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	member, err := w.Create("card/fw.bin")
	require.NoError(t, err)
	_, err = member.Write([]byte("FIRMWARE"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	b := newBench(t)
	f := b.signed(b.file("fw.zip", archive.String()), vendor.sign(t, archive.String()))
	f.Images[0].Path = "card/fw.bin"
	b.createVerified("cx", keysMode(vendor.public), f)
	_, err = b.reconcile("cx")
	require.NoError(t, err)
	image := inventory.Digest(sha256.Sum256([]byte("FIRMWARE")))
	whole := inventory.Digest(sha256.Sum256(archive.Bytes()))
	st, err := b.store.Statement(image)
	require.NoError(t, err)
	require.Len(t, st.Claims, 1)
	assert.Equal(t, whole.String(), st.Claims[0].File)
	assert.Equal(t, "card/fw.bin", st.Claims[0].Path)
	assert.FileExists(t, b.store.Path(whole))

	// An archive that rots is fetched and verified again, as an image is.
	require.NoError(t, os.Chmod(b.store.Path(whole), 0o600))
	require.NoError(t, os.WriteFile(b.store.Path(whole), []byte("rot"), 0o600))
	b.start()
	_, err = b.reconcile("cx")
	require.NoError(t, err)
	kept, err := os.ReadFile(b.store.Path(whole))
	require.NoError(t, err)
	assert.Equal(t, archive.Bytes(), kept)

	needed := []inventory.Digest{image}
	inUse := func() ([]inventory.Digest, error) { return needed, nil }
	require.NoError(t, b.store.Remove("cx"))
	require.NoError(t, b.store.Collect(inUse))
	assert.FileExists(t, b.store.Path(whole))
	st, err = b.store.Statement(image)
	require.NoError(t, err)
	assert.Len(t, st.Claims, 1)

	needed = nil
	require.NoError(t, b.store.Collect(inUse))
	b.now = b.now.Add(time.Hour)
	require.NoError(t, b.store.Collect(inUse))
	assert.Empty(t, b.stored())
	st, err = b.store.Statement(image)
	require.NoError(t, err)
	assert.Empty(t, st.Claims)
}
