package images_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/imageserver"
	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

const memberPath = "card/fw.bin"

// vendor is a publisher of firmware.
type vendor struct {
	private minisign.PrivateKey
	public  string
}

func newVendor(t *testing.T) vendor {
	t.Helper()
	public, private, err := minisign.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return vendor{private: private, public: public.String()}
}

func (v vendor) sign(t *testing.T, content []byte) []byte {
	t.Helper()
	r := minisign.NewReader(bytes.NewReader(content))
	_, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	return r.Sign(v.private)
}

func zipOf(t *testing.T, members map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, body := range members {
		f, err := w.Create(name)
		require.NoError(t, err)
		_, err = f.Write(body)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// operator answers as the operator's image server does. What it serves for a digest, and what it claims, is its own affair: it
// may be taken over.
type operator struct {
	files  map[inventory.Digest][]byte
	claims map[inventory.Digest][]artifact.Claim
	away   bool
	asked  []string
}

func newOperator() *operator {
	return &operator{files: map[inventory.Digest][]byte{}, claims: map[inventory.Digest][]artifact.Claim{}}
}

func (o *operator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.asked = append(o.asked, r.URL.Path)
	if o.away {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	d, err := inventory.ParseDigest(filepath.Base(r.URL.Path))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if filepath.Dir(r.URL.Path)+"/" == imageserver.StatementPrefix {
		_ = json.NewEncoder(w).Encode(artifact.Statement{Claims: o.claims[d]})
		return
	}
	body, ok := o.files[d]
	if !ok {
		http.NotFound(w, r)
		return
	}
	serve(body)(w, r)
}

// holds puts a file into the store, under its own digest, and what it says of the image.
func (o *operator) holds(file []byte, image []byte, sig []byte) {
	o.files[digest(file)] = file
	c := artifact.Claim{File: digest(file).String(), Signature: sig}
	if !bytes.Equal(file, image) {
		c.Path = memberPath
	}
	o.claims[digest(image)] = append(o.claims[digest(image)], c)
}

// newGuarded is a node that has the keys and takes signed images only.
func newGuarded(t *testing.T, o *operator, keys ...string) *scene {
	t.Helper()
	dir := t.TempDir()
	for i, k := range keys {
		require.NoError(t, os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".pub"), []byte(k), 0o600))
	}
	return newScene(t, o.ServeHTTP, func(c *images.Config) { c.KeysDir, c.Verification = dir, images.VerifyRequired })
}

func requireRefused(t *testing.T, s *scene, image []byte, want signature.Reason) {
	t.Helper()
	path, _, err := s.Fetch(t.Context(), digest(image))
	require.Empty(t, path)
	var refused *signature.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, want, refused.Reason, err)
	require.ErrorAs(t, err, new(*driver.RejectedError), "trying again does not help")
	require.NotErrorIs(t, err, images.ErrUnavailable)
	assert.ErrorContains(t, err, "nothing was written")
}

func TestTakesImageSignedByOwnKey(t *testing.T) {
	v := newVendor(t)
	archive := zipOf(t, map[string][]byte{memberPath: content, "readme": []byte("read me")})
	for name, offer := range map[string]func(*operator){
		"an image":               func(o *operator) { o.holds(content, content, v.sign(t, content)) },
		"a member of an archive": func(o *operator) { o.holds(archive, content, v.sign(t, archive)) },
		"the second claim": func(o *operator) {
			o.holds(content, content, newVendor(t).sign(t, content))
			o.holds(archive, content, v.sign(t, archive))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOperator()
			offer(o)
			s := newGuarded(t, o, newVendor(t).public, v.public)
			path, size, err := s.Fetch(t.Context(), digest(content))
			require.NoError(t, err)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, content, got)
			assert.EqualValues(t, len(content), size)

			// In the middle of a job the network may be gone: what was proven here is proven again here.
			o.away, o.asked = true, nil
			again, _, err := s.Fetch(t.Context(), digest(content))
			require.NoError(t, err)
			assert.Equal(t, path, again)
			assert.Empty(t, o.asked)

			// A key that is withdrawn counts at once, also for what is here.
			o.away = false
			for _, e := range []string{"a.pub", "b.pub"} {
				require.NoError(t, os.WriteFile(filepath.Join(s.config.KeysDir, e), []byte(newVendor(t).public), 0o600))
			}
			_, _, err = s.Fetch(t.Context(), digest(content))
			require.ErrorAs(t, err, new(*signature.Error))
		})
	}
}

// The operator is taken over: it says and serves what it wants, and the job has the digest that it chose.
func TestAStolenOperatorIsRefused(t *testing.T) {
	v, thief := newVendor(t), newVendor(t)
	genuine := bytes.Repeat([]byte("genuine!"), 64<<10)
	archive := zipOf(t, map[string][]byte{memberPath: genuine})
	for name, c := range map[string]struct {
		offer func(*operator)
		want  signature.Reason
	}{
		"no statement": {offer: func(o *operator) { o.files[digest(content)] = content }, want: signature.Missing},
		"no signature": {offer: func(o *operator) { o.holds(content, content, nil) }, want: signature.Missing},
		"signed by the thief": {offer: func(o *operator) {
			o.holds(content, content, thief.sign(t, content))
		}, want: signature.Untrusted},
		"the right signature of another file": {offer: func(o *operator) {
			o.holds(content, content, v.sign(t, genuine))
		}, want: signature.Invalid},
		"a genuine file that is not the image": {offer: func(o *operator) {
			o.files[digest(genuine)] = genuine
			o.claims[digest(content)] = []artifact.Claim{{File: digest(genuine).String(), Signature: v.sign(t, genuine)}}
		}, want: signature.Invalid},
		"a genuine archive that holds another image": {offer: func(o *operator) {
			o.holds(archive, content, v.sign(t, archive))
			o.files[digest(content)] = content
		}, want: signature.Invalid},
		"a genuine archive without that member": {offer: func(o *operator) {
			o.holds(archive, content, v.sign(t, archive))
			o.claims[digest(content)][0].Path = "other/fw.bin"
		}, want: signature.Invalid},
		"an archive of its own": {offer: func(o *operator) {
			own := zipOf(t, map[string][]byte{memberPath: content})
			o.holds(own, content, v.sign(t, archive))
		}, want: signature.Invalid},
		"a digest that is none": {offer: func(o *operator) {
			o.claims[digest(content)] = []artifact.Claim{{File: "sha256:..", Signature: v.sign(t, content)}}
		}, want: signature.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOperator()
			c.offer(o)
			s := newGuarded(t, o, v.public)
			requireRefused(t, s, content, c.want)
			requireRefused(t, s, content, c.want) // what was fetched for it is no way around
		})
	}
}

func TestOtherBytesUnderARightDigestAreRefused(t *testing.T) {
	v := newVendor(t)
	other := bytes.Repeat([]byte("implants"), 64<<10)
	archive := zipOf(t, map[string][]byte{memberPath: content})
	for name, offer := range map[string]func(*operator){
		"image": func(o *operator) {
			o.holds(content, content, v.sign(t, content))
			o.files[digest(content)] = other
		},
		"archive": func(o *operator) {
			o.holds(archive, content, v.sign(t, archive))
			o.files[digest(archive)] = zipOf(t, map[string][]byte{memberPath: other})
			o.files[digest(content)] = other
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOperator()
			offer(o)
			s := newGuarded(t, o, v.public)
			path, _, err := s.Fetch(t.Context(), digest(content))
			require.ErrorIs(t, err, images.ErrUnavailable)
			assert.Empty(t, path)
		})
	}
}

func TestRefusesExpiredNodeKey(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	end := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	sum := sha256.Sum256(content)
	sig, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	require.NoError(t, err)
	o := newOperator()
	o.holds(content, content, sig)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vendor.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	now := end.Add(-time.Minute)
	s := newScene(t, o.ServeHTTP, func(c *images.Config) { c.KeysDir, c.Now = dir, func() time.Time { return now } })
	_, _, err = s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	now = end.Add(time.Minute)
	requireRefused(t, s, content, signature.Untrusted)
}

func TestWhetherImagesMustBeSignedIsThePolicyOfTheNode(t *testing.T) {
	v := newVendor(t)
	for name, c := range map[string]struct {
		policy images.Verification
		keys   []string
		want   signature.Reason
	}{
		"required and a key":    {policy: images.VerifyRequired, keys: []string{v.public}, want: signature.Missing},
		"required and no key":   {policy: images.VerifyRequired, want: signature.Untrusted},
		"if keys and a key":     {policy: images.VerifyIfKeys, keys: []string{v.public}, want: signature.Missing},
		"if keys and no key":    {policy: images.VerifyIfKeys},
		"by default if keys":    {keys: []string{v.public}, want: signature.Missing},
		"by default and no key": {},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOperator()
			o.files[digest(content)] = content // an unsigned image
			s := newGuarded(t, o, c.keys...)
			s.config.Verification = c.policy
			var err error
			s.Store, err = images.Open(s.config)
			require.NoError(t, err)
			who, required, err := s.Signed()
			require.NoError(t, err)
			assert.Equal(t, len(c.keys), who.Len())
			assert.Equal(t, c.want != "", required)
			if c.want != "" {
				requireRefused(t, s, content, c.want)
				return
			}
			_, _, err = s.Fetch(t.Context(), digest(content))
			require.NoError(t, err)
		})
	}
}

func TestUnreadableKeyPassesNothing(t *testing.T) {
	o := newOperator()
	o.files[digest(content)] = content
	s := newGuarded(t, o, "not a key")
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.ErrorContains(t, err, "a.pub")
	require.NotErrorIs(t, err, images.ErrUnavailable)
}

func TestAsksUncertainOperatorAgain(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"away":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"old":      http.NotFound,
		"refuses":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"not JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, artifact.MaxStatementBytes+1))
		},
		"too many claims": func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(artifact.Statement{Claims: make([]artifact.Claim, 17)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVendor(t)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "vendor.pub"), []byte(v.public), 0o600))
			s := newScene(t, answer, func(c *images.Config) { c.KeysDir = dir })
			_, _, err := s.Fetch(t.Context(), digest(content))
			require.ErrorIs(t, err, images.ErrUnavailable)
			require.NotErrorAs(t, err, new(*driver.RejectedError))
		})
	}
}

type anybody struct{}

func (anybody) Authenticate(context.Context, string, string) (string, error) { return "daemon", nil }

// The store and the image server of the operator itself, from the signed archive of a publisher to the image on the node.
func TestTheOperatorsOwnStatementsProveItsImages(t *testing.T) {
	v := newVendor(t)
	origin := t.TempDir()
	archive := zipOf(t, map[string][]byte{memberPath: content})
	require.NoError(t, os.WriteFile(filepath.Join(origin, "fw.zip"), archive, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(origin, "fw.zip.minisig"), v.sign(t, archive), 0o600))
	store, err := artifact.OpenStore(t.TempDir(), artifact.NewFetcher(artifact.FetchConfig{FileRoot: origin}), time.Now)
	require.NoError(t, err)
	keys, err := signature.ParseKeys(v.public)
	require.NoError(t, err)
	require.NoError(t, store.Download(t.Context(), "cx", artifact.File{
		URL: "file://" + origin + "/fw.zip", Digest: digest(archive),
		Images:    []artifact.Description{{Path: memberPath, Version: "1", BoardIDs: []string{"MT_1"}}},
		Signature: &artifact.Signature{URL: "file://" + origin + "/fw.zip.minisig", Trust: signature.Trust{Keys: keys}},
	}))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vendor.pub"), []byte(v.public), 0o600))
	s := newScene(t, imageserver.Handler(store, anybody{}, testr.New(t), imageserver.Limits{}).ServeHTTP, func(c *images.Config) {
		c.KeysDir, c.Verification = dir, images.VerifyRequired
	})
	path, _, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, content, got)
}
