package main

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keys makes a key as cosign does, with a password.
func keys(t *testing.T) (private, public string) {
	t.Helper()
	dir := t.TempDir()
	private, public = filepath.Join(dir, "cosign.key"), filepath.Join(dir, "cosign.pub")
	t.Setenv("COSIGN_PASSWORD", "open sesame")
	key, pub, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), func(bool) ([]byte, error) { return []byte("open sesame"), nil })
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(private, key, 0o600))
	require.NoError(t, os.WriteFile(public, pub, 0o600))
	return private, public
}

// gathered is a directory with what comes before the sealing.
func gathered(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"firmware.yaml", "node-firmware-operator-9.8.7.tgz"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	return dir
}

// What a person types to verify a release shows that it is genuine, and that a changed one is not.
func TestASealedReleaseCanBeVerified(t *testing.T) {
	t.Chdir("../..")
	dir := gathered(t)
	private, public := keys(t)
	require.NoError(t, do(t.Context(), []string{"seal", "-dry-run", "-version", "v9.8.7", "-registry", "registry.example.com/firmware", "-out", dir}))
	sums, err := os.ReadFile(filepath.Join(dir, sumsFile))
	require.NoError(t, err)
	signer, err := openKey(private)
	require.NoError(t, err)
	require.NoError(t, sealing{dir: dir}.signed(signer, sums))

	pem, err := os.ReadFile(public)
	require.NoError(t, err)
	key, err := cryptoutils.UnmarshalPEMToPublicKey(pem)
	require.NoError(t, err)
	verifier, err := signature.LoadVerifier(key, crypto.SHA256)
	require.NoError(t, err)
	verify := func() error {
		text, err := os.ReadFile(filepath.Join(dir, signatureFile))
		require.NoError(t, err)
		raw, err := base64.StdEncoding.DecodeString(string(text))
		require.NoError(t, err)
		list, err := os.ReadFile(filepath.Join(dir, sumsFile))
		require.NoError(t, err)
		if err := verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(list)); err != nil {
			return err
		}
		if _, err := exec.LookPath("openssl"); err == nil {
			line := "openssl dgst -sha256 -verify " + public + " -signature <(base64 -d " + signatureFile + ") " + sumsFile
			if _, err := run(t.Context(), nil, "bash", "-c", "cd "+dir+" && "+line); err != nil {
				return err
			}
		}
		_, err = run(t.Context(), nil, "sh", "-c", "cd "+dir+" && sha256sum --check --strict --ignore-missing "+sumsFile)
		return err
	}
	require.NoError(t, verify())

	install, err := os.ReadFile(filepath.Join(dir, installFile))
	require.NoError(t, err)
	for _, want := range []string{"image: registry.example.com/firmware/operator:v9.8.7", "image: registry.example.com/firmware/daemon:v9.8.7", "kind: CustomResourceDefinition"} {
		assert.Contains(t, string(install), want)
	}
	assert.NotContains(t, string(install), "localhost/")
	notes, err := os.ReadFile(filepath.Join(dir, notesFile))
	require.NoError(t, err)
	assert.NotContains(t, string(notes), "](docs/")
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters   map[string]any
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, provenanceFile))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &statement))
	assert.Equal(t, []string{"https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"}, []string{statement.Type, statement.PredicateType})
	head, err := run(t.Context(), nil, "git", "rev-parse", "HEAD")
	require.NoError(t, err)
	assert.Equal(t, strings.TrimSpace(head), statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"])
	assert.Equal(t, true, statement.Predicate.BuildDefinition.ExternalParameters["dryRun"], "it says what it is")
	assert.True(t, strings.HasPrefix(string(sums), "# node-firmware-operator v9.8.7\n"))
	var subjects []string
	for _, s := range statement.Subject {
		subjects = append(subjects, s.Name)
		assert.Contains(t, string(sums), s.Digest["sha256"]+"  "+s.Name)
	}
	assert.Equal(t, []string{notesFile, "firmware.yaml", installFile, "node-firmware-operator-9.8.7.tgz"}, subjects)
	assert.Contains(t, string(sums), provenanceFile)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "firmware.yaml"), []byte("another"), 0o600))
	require.Error(t, verify())
}

func TestWhatIsNoReleaseIsNotSealed(t *testing.T) {
	t.Chdir("../..")
	dir := gathered(t)
	private, _ := keys(t)
	seal := func(args ...string) error {
		return do(t.Context(), append([]string{"seal", "-out", dir, "-registry", "registry.example.com/firmware", "-version"}, args...))
	}
	require.ErrorContains(t, seal("9.8.7"), "want vMAJOR.MINOR.PATCH")
	require.ErrorContains(t, seal("v1.2.3", "-dry-run"), "the release lacks node-firmware-operator-1.2.3.tgz")
	require.ErrorContains(t, seal("v9.8.7", "-dry-run", "-key", private), "a dry run is not signed")
	require.ErrorContains(t, seal("v9.8.7", "-registry", "localhost/nodefirmware"), "name the one from which clusters pull")
	require.ErrorContains(t, do(t.Context(), []string{"check", "-version", "v9.8.7"}), "name the one from which clusters pull")
	require.ErrorContains(t, do(t.Context(), nil), "want pack, check or seal")
	t.Setenv("COSIGN_PASSWORD", "wrong")
	_, err := openKey(private)
	require.ErrorContains(t, err, "COSIGN_PASSWORD must be its password")
	_, rsa, err := cryptoutils.GeneratePEMEncodedRSAKeyPair(2048, cryptoutils.SkipPassword)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(private, rsa, 0o600))
	_, err = openKey(private)
	require.Error(t, err, "no private key of the kind that can be verified")

	s := sealing{version: "v9.8.7", dir: dir}
	_, err = s.sign()
	require.ErrorContains(t, err, "name the key that signs the release")
	require.ErrorContains(t, s.complete(), "the release lacks operator.tar")
	_, err = s.notes("# Changelog\n\n## [Unreleased]\n\n- More.\n\n## [9.8.6] - 2026-01-01\n\n- Less.\n")
	require.ErrorContains(t, err, "CHANGELOG.md says nothing under ## [9.8.7]")
	notes, err := s.notes("## [9.8.7] - 2026-01-02\n\n- See [that](docs/a.md#b).\n\n## [9.8.6]\n\n- Less.\n")
	require.NoError(t, err)
	assert.Equal(t, "- See [that]("+repository+"/blob/v9.8.7/docs/a.md#b).\n", string(notes))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 2, "nothing was written")

	_, err = sealing{dry: true}.notes("## [Unreleased]\n\n## [9.8.6]\n\n- Less.\n")
	require.NoError(t, err, "a dry run of a commit right after a release")

	t.Chdir(t.TempDir())
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	git := func(args ...string) {
		t.Helper()
		_, err := run(t.Context(), nil, append([]string{"git", "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		require.NoError(t, err)
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "-m", "first")
	_, err = s.commit(t.Context())
	require.ErrorContains(t, err, "does not have the tag v9.8.7")
	git("tag", "v9.8.7")
	commit, err := s.commit(t.Context())
	require.NoError(t, err)
	assert.Len(t, commit, 40)
	require.NoError(t, os.WriteFile("more", nil, 0o600))
	_, err = s.commit(t.Context())
	require.ErrorContains(t, err, "changes that are not committed")
}
