package engine_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aead.dev/minisign"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/imageserver"
	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The operator is taken over. It plans a job with a digest of its choice, and serves and says what it likes; the card would take the
// image. No job of it writes anything, or takes the node out of service.
func TestNoWriteByStolenOperator(t *testing.T) {
	vendor, thief := newSigner(t), newSigner(t)
	image := drivertest.ImageBytes("BOARD_nic0", "2.0")
	implant := append(bytes.Clone(image), "implant"...)
	for name, c := range map[string]struct {
		served, signature []byte
		want              step.Reason // empty for a job that succeeds
	}{
		"what the publisher signed":              {served: image, signature: vendor.sign(t, image)},
		"no signature":                           {served: image, want: step.SignatureMissing},
		"a signature of its own":                 {served: image, signature: thief.sign(t, image), want: step.SignatureUntrusted},
		"the publisher's signature of another":   {served: image, signature: vendor.sign(t, implant), want: step.SignatureInvalid},
		"other bytes under the right digest":     {served: implant, signature: vendor.sign(t, image), want: step.ImageUnavailable},
		"other bytes, signed, under that digest": {served: implant, signature: vendor.sign(t, implant), want: step.ImageUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			config := stolen(t, vendor, image, c.served, c.signature) // outside of the bubble, whose clock stands while it is waited for
			synctest.Test(t, func(t *testing.T) {
				m := enginetest.New(t)
				id := m.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset)
				config.Dir = filepath.Join(m.Dir, "images")
				store, err := images.Open(config)
				require.NoError(t, err)
				m.Store = store
				j := m.Job("j", id)
				require.Equal(t, digestOf(image).String(), j.Updates[0].Digest)
				view := m.Run(j)
				if c.want == "" {
					requireComplete(t, m, view, "j")
					return
				}
				requireFailed(t, view, "j", c.want, false)
				assert.Empty(t, m.Sim.Operations())
				assert.Equal(t, inventory.Version("1.0"), m.Sim.Firmware("nic0").Running)
				assert.Zero(t, m.Window.Scheduled, "the node stays in service")
				// A signature that is missing may come: the image is tried again without a person. What is signed wrong is not.
				again := c.want == step.SignatureMissing || c.want == step.ImageUnavailable
				assert.Equal(t, again, view.Devices["nic0"].LastFailure == nil)
			})
		})
	}
}

type signer struct {
	private minisign.PrivateKey
	public  string
}

func newSigner(t *testing.T) signer {
	t.Helper()
	public, private, err := minisign.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return signer{private: private, public: public.String()}
}

func (s signer) sign(t *testing.T, content []byte) []byte {
	t.Helper()
	r := minisign.NewReader(bytes.NewReader(content))
	_, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	return r.Sign(s.private)
}

func digestOf(content []byte) inventory.Digest { return sha256.Sum256(content) }

// stolen is a node with the key of the publisher, and the operator that serves it bytes and a signature for the image.
func stolen(t *testing.T, vendor signer, image, served, signature []byte) images.Config {
	t.Helper()
	digest := digestOf(image).String()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, imageserver.StatementPrefix) {
			var s artifact.Statement
			if signature != nil {
				s.Claims = []artifact.Claim{{File: digest, Signature: signature}}
			}
			_ = json.NewEncoder(w).Encode(s)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(served))
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	require.NoError(t, os.Mkdir(keys, 0o700))
	for path, text := range map[string][]byte{
		filepath.Join(keys, "vendor.pub"): []byte(vendor.public), filepath.Join(dir, "token"): []byte("token"),
		filepath.Join(dir, "ca.crt"): pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	} {
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
	return images.Config{
		Server: server.URL, CAFile: filepath.Join(dir, "ca.crt"), TokenFile: filepath.Join(dir, "token"), Attempts: 1,
		KeysDir: keys, Verification: images.VerifyRequired,
	}
}
