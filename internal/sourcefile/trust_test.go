package sourcefile

import (
	"crypto/rand"
	"os"
	"testing"

	"aead.dev/minisign"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature/signaturetest"
)

func TestWhoMustHaveSigned(t *testing.T) {
	public, _, err := minisign.GenerateKey(rand.Reader)
	require.NoError(t, err)
	root := string(signaturetest.New(t).Root(t))
	identities := []v1alpha1.SignerIdentity{{Issuer: "https://a", Subject: "b"}, {Issuer: "https://a", SubjectRegExp: "c.*"}}
	for name, c := range map[string]struct {
		v               *v1alpha1.SourceVerification
		keys, sigstores int
		want            string
	}{
		"nobody":       {},
		"keys":         {v: &v1alpha1.SourceVerification{Keys: []string{public.String(), public.String()}}, keys: 2},
		"identities":   {v: &v1alpha1.SourceVerification{TrustedRoot: root, Identities: identities}, sigstores: 1},
		"neither":      {v: &v1alpha1.SourceVerification{}, want: "either keys, or trustedRoot"},
		"both":         {v: &v1alpha1.SourceVerification{Keys: []string{public.String()}, TrustedRoot: root, Identities: identities}, want: "either keys, or trustedRoot"},
		"a wrong key":  {v: &v1alpha1.SourceVerification{Keys: []string{public.String(), "x"}}, want: "spec.verification.keys[1]"},
		"no identity":  {v: &v1alpha1.SourceVerification{TrustedRoot: root}, want: "spec.verification: "},
		"a wrong root": {v: &v1alpha1.SourceVerification{TrustedRoot: "{}", Identities: identities}, want: "spec.verification: read trusted root"},
	} {
		who, err := trustOf(c.v)
		if c.want != "" {
			require.ErrorContains(t, err, c.want, name)
			assert.Nil(t, who, name)
			continue
		}
		require.NoError(t, err, name)
		if c.keys+c.sigstores == 0 {
			assert.Nil(t, who, name)
			continue
		}
		assert.Len(t, who.Keys, c.keys, name)
		assert.Len(t, who.Sigstore, c.sigstores, name)
	}
}

// The example is for people who copy it.
func TestExampleHasValidRoot(t *testing.T) {
	text, err := os.ReadFile("../../docs/examples/firmwaresource-sigstore.yaml")
	require.NoError(t, err)
	var source v1alpha1.FirmwareSource
	require.NoError(t, yaml.UnmarshalStrict(text, &source))
	who, err := trustOf(source.Spec.Verification)
	require.NoError(t, err)
	assert.Len(t, who.Sigstore, 1)
}
