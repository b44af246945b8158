package images_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/imageserver"
	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature/signaturetest"
)

const issuer, release = "https://accounts.example.com", "release@example.com"

// trustOf is the directory of a node that trusts the release engineers of that Sigstore.
func trustOf(t *testing.T, root []byte) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "trusted_root.json"), root, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "identities.yaml"),
		[]byte("identities:\n- issuer: "+issuer+"\n  subject: "+release+"\n"), 0o600))
	return dir
}

func TestANodeTakesWhatAnIdentityThatItTrustsSigned(t *testing.T) {
	vendor, other := signaturetest.New(t), signaturetest.New(t)
	archive := zipOf(t, map[string][]byte{memberPath: content})
	late := signaturetest.JSON(t, vendor.Bundle(t, release, issuer, content, time.Now().Add(time.Hour)))
	image := func(bundle []byte) func(*operator) {
		return func(o *operator) { o.holds(content, content, bundle) }
	}
	for name, c := range map[string]struct {
		offer func(*operator)
		want  signature.Reason // empty where it takes the image
	}{
		"the image": {offer: image(vendor.Sign(t, release, issuer, content))},
		"its archive": {offer: func(o *operator) {
			o.holds(archive, content, vendor.Sign(t, release, issuer, archive))
		}},
		"by somebody else":              {offer: image(vendor.Sign(t, "thief@example.com", issuer, content)), want: signature.Untrusted},
		"by another issuer":             {offer: image(vendor.Sign(t, release, "https://thief.example.com", content)), want: signature.Untrusted},
		"by a Sigstore of the thief":    {offer: image(other.Sign(t, release, issuer, content)), want: signature.Untrusted},
		"of another file":               {offer: image(vendor.Sign(t, release, issuer, archive)), want: signature.Invalid},
		"by a certificate that expired": {offer: image(late), want: signature.Untrusted},
		"by a key":                      {offer: image(newVendor(t).sign(t, content)), want: signature.Untrusted},
		"by nobody":                     {offer: image(nil), want: signature.Missing},
		"nothing at all":                {offer: func(o *operator) { o.files[digest(content)] = content }, want: signature.Missing},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOperator()
			c.offer(o)
			dir := trustOf(t, vendor.Root(t))
			s := newScene(t, o.ServeHTTP, func(c *images.Config) { c.KeysDir = dir })
			if c.want != "" {
				requireRefused(t, s, content, c.want)
				requireRefused(t, s, content, c.want)
				return
			}
			path, _, err := s.Fetch(t.Context(), digest(content))
			require.NoError(t, err)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, content, got)

			// Without the operator what was proven is proven again, also long after the certificate expired.
			o.away = true
			_, _, err = s.Fetch(t.Context(), digest(content))
			require.NoError(t, err)

			// An identity that is withdrawn counts at once.
			require.NoError(t, os.WriteFile(filepath.Join(dir, "identities.yaml"), []byte("identities:\n- {issuer: x, subject: y}\n"), 0o600))
			o.away = false
			requireRefused(t, s, content, signature.Untrusted)
		})
	}
}

func TestHalfRootLetsNothingPass(t *testing.T) {
	vendor := signaturetest.New(t)
	o := newOperator()
	o.holds(content, content, vendor.Sign(t, release, issuer, content))
	for _, lost := range []string{"trusted_root.json", "identities.yaml"} {
		dir := trustOf(t, vendor.Root(t))
		require.NoError(t, os.Remove(filepath.Join(dir, lost)))
		s := newScene(t, o.ServeHTTP, func(c *images.Config) { c.KeysDir = dir })
		_, _, err := s.Fetch(t.Context(), digest(content))
		require.ErrorContains(t, err, lost)
		require.NotErrorIs(t, err, images.ErrUnavailable)
	}
}

// From the file and the bundle of a publisher through the operator's store and image server to the image on the node.
func TestTheOperatorsOwnStatementsCarryBundles(t *testing.T) {
	vendor := signaturetest.New(t)
	root := vendor.Root(t)
	origin := t.TempDir()
	archive := zipOf(t, map[string][]byte{memberPath: content})
	require.NoError(t, os.WriteFile(filepath.Join(origin, "fw.zip"), archive, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(origin, "fw.zip.sigstore.json"), vendor.Sign(t, release, issuer, archive), 0o600))
	store, err := artifact.OpenStore(t.TempDir(), artifact.NewFetcher(artifact.FetchConfig{FileRoot: origin}), time.Now)
	require.NoError(t, err)
	who, err := signature.NewSigstore(root, []signature.Identity{{Issuer: issuer, Subject: release}})
	require.NoError(t, err)
	require.NoError(t, store.Download(t.Context(), "cx", artifact.File{
		URL: "file://" + origin + "/fw.zip", Digest: digest(archive),
		Images:    []artifact.Description{{Path: memberPath, Version: "1", BoardIDs: []string{"MT_1"}}},
		Signature: &artifact.Signature{URL: "file://" + origin + "/fw.zip.sigstore.json", Trust: signature.Trust{Sigstore: []signature.Sigstore{who}}},
	}))
	dir := trustOf(t, root)
	s := newScene(t, imageserver.Handler(store, anybody{}, testr.New(t), imageserver.Limits{}).ServeHTTP, func(c *images.Config) { c.KeysDir = dir })
	path, _, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, content, got)
}
