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
// the publisher.
func writesNothingForAStolenOperator(t *testing.T, c *cluster, m *machine) {
	vendor, thief := newPublisher(t), newPublisher(t)
	keys := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(keys, "vendor.pub"), []byte(vendor.public), 0o600))
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
		c.claims[string(digest)] = []artifact.Claim{{File: string(digest), Format: artifact.FormatImage, Signature: signature}}
	}
	_, another := stock("22.41.9000")
	for _, attempt := range []struct {
		name, version string
		offer         func(v1alpha1.Digest, []byte)
		want          string
	}{
		{"n1-unsigned", "22.41.1001", func(v1alpha1.Digest, []byte) {}, v1alpha1.ReasonSignatureMissing},
		{"n1-thief", "22.41.1002", func(d v1alpha1.Digest, image []byte) { claim(d, thief.sign(t, image)) }, v1alpha1.ReasonSignatureKeyUnknown},
		{"n1-borrowed", "22.41.1003", func(d v1alpha1.Digest, _ []byte) { claim(d, vendor.sign(t, another)) }, v1alpha1.ReasonSignatureInvalid},
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
		}, time.Minute, 100*time.Millisecond, attempt.name)
		assert.Empty(t, m.writes(t), attempt.name)
	}

	digest, genuine := stock("22.41.1004")
	claim(digest, vendor.sign(t, genuine))
	c.admit(t, "n1-genuine", update(card, "22.41.1004", digest))
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		j := c.job(t, "n1-genuine")
		assert.True(ct, meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionComplete), "%+v", j.Status)
	}, time.Minute, 100*time.Millisecond, "what the publisher signed is flashed")
	assert.Len(t, m.writes(t), 1)
}
