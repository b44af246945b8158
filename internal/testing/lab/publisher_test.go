package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/mirror"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// The real operator, with its shipped rights, at a server that asks for a password, has a private authority, and hands out archives that
// somebody signed: what is not as it was declared ends in its reason, and leaves nothing in store.
func TestBelievesOnlyProvenMirror(t *testing.T) {
	t.Parallel()
	l := startLabWith(t, Options{})
	stranger, err := mirror.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stranger.Close()) })
	user, password := l.mirror.Credentials()

	rewrite := func(t *testing.T, file string, content []byte) {
		require.NoError(t, os.WriteFile(file, content, 0o600))
	}
	changed := func(t *testing.T, a mirror.Archive) []byte {
		content, err := os.ReadFile(a.File)
		require.NoError(t, err)
		content[len(content)/2] ^= 1
		return content
	}
	for i, c := range []struct {
		name   string
		change func(t *testing.T, a mirror.Archive, image []byte, spec *v1alpha1.FirmwareSourceSpec)
		want   string
		says   string
	}{
		{"a wrong password", func(t *testing.T, _ mirror.Archive, _ []byte, _ *v1alpha1.FirmwareSourceSpec) {
			require.NoError(t, l.putCredentials(t.Context(), user, "guessed"))
		}, v1alpha1.ReasonDownloadFailed, "401 Unauthorized"},
		{"no password", func(_ *testing.T, _ mirror.Archive, _ []byte, spec *v1alpha1.FirmwareSourceSpec) {
			spec.SecretRef = nil
		}, v1alpha1.ReasonDownloadFailed, "401 Unauthorized"},
		{"a foreign authority", func(t *testing.T, _ mirror.Archive, _ []byte, _ *v1alpha1.FirmwareSourceSpec) {
			require.NoError(t, l.putAuthority(t.Context(), stranger.Authority()))
		}, v1alpha1.ReasonDownloadFailed, "certificate is not trusted"},
		{"a changed archive", func(t *testing.T, a mirror.Archive, _ []byte, _ *v1alpha1.FirmwareSourceSpec) {
			rewrite(t, a.File, changed(t, a))
		}, v1alpha1.ReasonDigestMismatch, "its digest is"},
		{"a changed archive, with its digest", func(t *testing.T, a mirror.Archive, _ []byte, spec *v1alpha1.FirmwareSourceSpec) {
			content := changed(t, a)
			rewrite(t, a.File, content)
			sum := sha256.Sum256(content)
			spec.Files[0].Digest = v1alpha1.Digest("sha256:" + hex.EncodeToString(sum[:]))
		}, v1alpha1.ReasonSignatureInvalid, "is not of this file"},
		{"another signer", func(t *testing.T, a mirror.Archive, image []byte, _ *v1alpha1.FirmwareSourceSpec) {
			theirs, err := stranger.Publish(filepath.Base(a.Member), image)
			require.NoError(t, err)
			signature, err := os.ReadFile(theirs.SignatureFile)
			require.NoError(t, err)
			rewrite(t, a.SignatureFile, signature)
		}, v1alpha1.ReasonSignatureUntrusted, stranger.KeyID()},
		{"no signature", func(t *testing.T, a mirror.Archive, _ []byte, _ *v1alpha1.FirmwareSourceSpec) {
			require.NoError(t, os.Remove(a.SignatureFile))
		}, v1alpha1.ReasonSignatureMissing, "404"},
		{"an archive taken for an image", func(_ *testing.T, _ mirror.Archive, _ []byte, spec *v1alpha1.FirmwareSourceSpec) {
			spec.Files[0].Images[0].Path = ""
		}, v1alpha1.ReasonInvalidSpec, "is an archive"},
		{"the operator's own machine", func(_ *testing.T, _ mirror.Archive, _ []byte, spec *v1alpha1.FirmwareSourceSpec) {
			spec.Files[0].URL = strings.Replace(spec.Files[0].URL, mirror.Address, "127.0.0.1", 1)
		}, v1alpha1.ReasonDownloadFailed, "refused: address 127.0.0.1 is on this machine"},
		{"nothing", func(*testing.T, mirror.Archive, []byte, *v1alpha1.FirmwareSourceSpec) {}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) { // one after the other, because they share the Secret, the ConfigMap and the store
			require.NoError(t, l.putCredentials(t.Context(), user, password))
			require.NoError(t, l.putAuthority(t.Context(), l.mirror.Authority()))
			what := targetsOf("cx6dx")[0]
			what.source, what.file, what.image.Seed = fmt.Sprintf("case-%d", i), fmt.Sprintf("case-%d.bin", i), uint64(i)+1
			image := simhost.BuildImage(what.kind, what.image)
			archive, err := l.mirror.Publish(what.file, image)
			require.NoError(t, err)
			source := what.sourceOf(l, archive)
			c.change(t, archive, image, &source.Spec)
			require.NoError(t, l.admin.Create(t.Context(), source))
			if c.want == "" {
				eventually(t, "the source is Ready", func() bool { return l.ready(t.Context(), source) == "True "+v1alpha1.ReasonSucceeded })
				assert.Len(t, source.Status.Images, 1)
				assert.True(t, meta.IsStatusConditionTrue(source.Status.Conditions, v1alpha1.ConditionSignatureVerified))
				assert.Len(t, l.stored(t), 3, "the image, the signed archive, and what is known of the signature")
				return
			}
			eventually(t, "the source says "+c.want, func() bool { return l.ready(t.Context(), source) == "False "+c.want })
			assert.Contains(t, meta.FindStatusCondition(source.Status.Conditions, v1alpha1.ConditionReady).Message, c.says)
			assert.NotContains(t, fmt.Sprint(source.Status), password)
			assert.Empty(t, source.Status.Images)
			assert.Empty(t, l.stored(t))
			require.NoError(t, l.admin.Delete(t.Context(), source))
			eventually(t, "the source is gone", func() bool {
				return apierrors.IsNotFound(l.admin.Get(t.Context(), client.ObjectKeyFromObject(source), source))
			})
		})
	}
}

// ready reads the source again, and returns status and reason of its condition Ready.
func (l *Lab) ready(ctx context.Context, source *v1alpha1.FirmwareSource) string {
	if l.admin.Get(ctx, client.ObjectKeyFromObject(source), source) != nil {
		return ""
	}
	c := meta.FindStatusCondition(source.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// stored lists what the operator keeps of images, besides what it is just fetching.
func (l *Lab) stored(t *testing.T) (files []string) {
	t.Helper()
	store := filepath.Join(l.options.Dir, "operator", "store")
	for _, part := range []string{"blobs", "statements"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(store, part), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".tmp-") {
				files = append(files, path)
			}
			return err
		}))
	}
	return files
}
