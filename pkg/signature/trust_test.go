package signature_test

import (
	"crypto/elliptic"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature/signaturetest"
)

const identities = "identities:\n- issuer: " + issuer + "\n  subject: " + subject + "\n"

func TestKeysOfADirectory(t *testing.T) {
	dir := t.TempDir()
	trust, err := signature.ReadTrust(filepath.Join(dir, "absent"))
	require.NoError(t, err)
	assert.Zero(t, trust.Len())

	public, _, err := minisign.GenerateKey(rand.Reader)
	require.NoError(t, err)
	text, err := public.MarshalText() // with its comment, as minisign.pub
	require.NoError(t, err)
	_, p256 := newECDSA(t, elliptic.P256())
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..data"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vendor.pub"), text, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "own.pem"), []byte(p256), 0o600))
	trust, err = signature.ReadTrust(dir)
	require.NoError(t, err)
	assert.Len(t, trust.Keys, 2)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "torn.pem"), []byte(p256[:20]), 0o600))
	_, err = signature.ReadTrust(dir)
	require.ErrorContains(t, err, "torn.pem", "a damaged key is not one that was never there")
}

func TestTrustedRootsOfADirectory(t *testing.T) {
	public, private := signaturetest.New(t), signaturetest.New(t)
	_, p256 := newECDSA(t, elliptic.P256())
	files := map[string]string{
		"vendor.pem":             p256,
		"trusted_root.json":      string(public.Root(t)),
		"identities.yaml":        identities,
		"acme-trusted_root.json": string(private.Root(t)),
		"acme-identities.yaml":   "identities:\n- issuer: https://acme.example.com\n  subjectRegExp: .*@acme\\.example\\.com\n",
	}
	write := func(change map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			if other, ok := change[name]; ok {
				text = other
			}
			if text != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
		}
		return dir
	}
	trust, err := signature.ReadTrust(write(nil))
	require.NoError(t, err)
	assert.Equal(t, 3, trust.Len())
	require.NoError(t, read(t, file).Verify(trust, public.Sign(t, subject, issuer, []byte(file)), now))
	require.NoError(t, read(t, file).Verify(trust, private.Sign(t, "fw@acme.example.com", "https://acme.example.com", []byte(file)), now))
	// Each root vouches for its own identities only: who runs one Sigstore certifies what he likes.
	requireReason(t, signature.Untrusted, read(t, file).Verify(trust, private.Sign(t, subject, issuer, []byte(file)), now))

	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"half a pair":           {map[string]string{"identities.yaml": ""}, "add "},
		"the other half":        {map[string]string{"acme-trusted_root.json": ""}, "add "},
		"a torn root":           {map[string]string{"trusted_root.json": "{"}, "trusted_root.json"},
		"a root without end":    {map[string]string{"trusted_root.json": strings.Repeat(" ", signature.MaxRootBytes+1)}, "at most"},
		"nobody":                {map[string]string{"identities.yaml": "identities: []"}, "nobody"},
		"an empty file":         {map[string]string{"identities.yaml": "\n"}, "nobody"},
		"no YAML":               {map[string]string{"identities.yaml": "{"}, "identities.yaml"},
		"a field that is wrong": {map[string]string{"identities.yaml": strings.Replace(identities, "subject", "email", 1)}, "email"},
		"nobody in particular":  {map[string]string{"identities.yaml": "identities:\n- issuer: x\n"}, "either subject"},
	} {
		_, err := signature.ReadTrust(write(c.change))
		require.ErrorContains(t, err, c.want, name)
	}
}
