package main_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature/signaturetest"
)

// publisher signs firmware with a key of its own.
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

func (p publisher) sign(t *testing.T, content []byte) []byte {
	t.Helper()
	r := minisign.NewReader(bytes.NewReader(content))
	_, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	return r.Sign(p.private)
}

// writesNothingForAStolenOperator: whoever took the operator over admits jobs of its own and serves what it likes. It has no key of
// the publishers, one of whom signs as an identity of Sigstore, as the thief does too.
func writesNothingForAStolenOperator(t *testing.T, c *cluster, m *machine) {
	vendor, thief := newPublisher(t), newPublisher(t)
	keys := t.TempDir()
	sigstore := signaturetest.New(t)
	const issuer, release = "https://accounts.example.com", "release@example.com"
	for name, text := range map[string][]byte{
		"vendor.pub": []byte(vendor.public), "trusted_root.json": sigstore.Root(t),
		"identities.yaml": []byte("identities:\n- {issuer: " + issuer + ", subject: " + release + "}\n"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(keys, name), text, 0o600))
	}
	m.start(t, append(c.args, "--image-verification=Required", "--image-keys-dir="+keys)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("daemon:\n%s", m.log)
		}
	})
	card := c.device(t, byBoard(nic0PSID))
	stock := func(version string) (v1alpha1.Digest, []byte) { // the card would take each of them
		digest := c.stock(simhost.NICImage, simhost.ImageOptions{Version: version, PSID: nic0PSID})
		return digest, c.images[string(digest)]
	}
	claim := func(digest v1alpha1.Digest, signature []byte) {
		c.claims[string(digest)] = []artifact.Claim{{File: string(digest), Signature: signature}}
	}
	_, another := stock("22.41.9000")
	for _, attempt := range []struct {
		name, version string
		offer         func(v1alpha1.Digest, []byte)
		want          string
	}{
		{"unsigned", "22.41.1001", func(v1alpha1.Digest, []byte) {}, v1alpha1.ReasonSignatureMissing},
		{"thief", "22.41.1002", func(d v1alpha1.Digest, image []byte) { claim(d, thief.sign(t, image)) }, v1alpha1.ReasonSignatureUntrusted},
		{"borrowed", "22.41.1003", func(d v1alpha1.Digest, _ []byte) { claim(d, vendor.sign(t, another)) }, v1alpha1.ReasonSignatureInvalid},
		{"stranger", "22.41.1005", func(d v1alpha1.Digest, image []byte) {
			claim(d, sigstore.Sign(t, "thief@example.com", issuer, image))
		}, v1alpha1.ReasonSignatureUntrusted},
		{"forged", "22.41.1006", func(d v1alpha1.Digest, image []byte) {
			claim(d, signaturetest.New(t).Sign(t, release, issuer, image))
		}, v1alpha1.ReasonSignatureUntrusted},
		{"moved", "22.41.1007", func(d v1alpha1.Digest, _ []byte) {
			claim(d, sigstore.Sign(t, release, issuer, another))
		}, v1alpha1.ReasonSignatureInvalid},
	} {
		digest, image := stock(attempt.version)
		attempt.offer(digest, image)
		c.admit(t, attempt.name, update(card, attempt.version, digest))
		require.EventuallyWithT(t, func(ct *assert.CollectT) {
			failed := meta.FindStatusCondition(c.job(t, attempt.name).Status.Conditions, v1alpha1.ConditionFailed)
			if assert.NotNil(ct, failed) {
				assert.Equal(ct, attempt.want, failed.Reason, failed.Message)
				assert.Contains(ct, failed.Message, "nothing was written")
			}
		}, 5*time.Minute, 100*time.Millisecond, attempt.name)
		assert.Empty(t, m.writes(t), attempt.name)
	}

	running := card.Status.Firmware.Running
	for n, attempt := range []struct {
		name, version string
		sign          func([]byte) []byte
	}{
		{"genuine", "22.41.1004", func(image []byte) []byte { return vendor.sign(t, image) }},
		{"released", "22.41.1008", func(image []byte) []byte { return sigstore.Sign(t, release, issuer, image) }},
	} {
		digest, genuine := stock(attempt.version)
		claim(digest, attempt.sign(genuine))
		now := c.device(t, func(d v1alpha1.NodeDevice) bool { return byBoard(nic0PSID)(d) && d.Status.Firmware.Running == running })
		c.admit(t, attempt.name, update(now, attempt.version, digest))
		require.EventuallyWithT(t, func(ct *assert.CollectT) {
			j := c.job(t, attempt.name)
			assert.True(ct, meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionComplete), "%+v", j.Status)
		}, 5*time.Minute, 100*time.Millisecond, "what the publisher signed is flashed")
		assert.Len(t, m.writes(t), n+1)
		running = attempt.version
	}
}
