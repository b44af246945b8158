package signature_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const file = "FIRMWARE"

func read(t *testing.T, content string) signature.Subject {
	t.Helper()
	s, err := signature.Read(strings.NewReader(content))
	require.NoError(t, err)
	return s
}

func newMinisign(t *testing.T) (minisign.PrivateKey, []signature.Key) {
	t.Helper()
	public, private, err := minisign.GenerateKey(rand.Reader)
	require.NoError(t, err)
	keys, err := signature.ParseKeys(public.String())
	require.NoError(t, err)
	return private, keys
}

func newECDSA(t *testing.T, curve elliptic.Curve) (*ecdsa.PrivateKey, string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	require.NoError(t, err)
	return private, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func certificate(t *testing.T, key *ecdsa.PrivateKey, from, to time.Time) string {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vendor"}, NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func signECDSA(t *testing.T, key *ecdsa.PrivateKey, content string) []byte {
	t.Helper()
	sum := sha256.Sum256([]byte(content))
	sig, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	require.NoError(t, err)
	return sig
}

func signMinisign(key minisign.PrivateKey, content string) []byte {
	r := minisign.NewReader(strings.NewReader(content))
	buf := make([]byte, len(content))
	_, _ = r.Read(buf)
	return r.Sign(key)
}

func byKeys(keys []signature.Key) signature.Trust { return signature.Trust{Keys: keys} }

func mustParse(t *testing.T, text string) []signature.Key {
	t.Helper()
	keys, err := signature.ParseKeys(text)
	require.NoError(t, err)
	return keys
}

func TestOnlyASignatureOfThisFileByATrustedKeyHolds(t *testing.T) {
	mini, miniKeys := newMinisign(t)
	otherMini, _ := newMinisign(t)
	ec, ecText := newECDSA(t, elliptic.P256())
	ecKeys := mustParse(t, ecText)
	otherEC, _ := newECDSA(t, elliptic.P256())
	der := signECDSA(t, ec, file)
	good := signMinisign(mini, file)
	forged := strings.Replace(string(good), "timestamp:", "timestamp:9", 1)
	both := append(append([]signature.Key{}, miniKeys...), ecKeys...)

	for name, c := range map[string]struct {
		keys []signature.Key
		sig  []byte
		want signature.Reason
	}{
		"minisign":                      {keys: miniKeys, sig: good},
		"minisign among several keys":   {keys: both, sig: good},
		"ECDSA as openssl writes it":    {keys: ecKeys, sig: der},
		"ECDSA as cosign writes it":     {keys: both, sig: []byte(base64.StdEncoding.EncodeToString(der) + "\n")},
		"no signature":                  {keys: both, sig: nil, want: signature.Missing},
		"blanks":                        {keys: both, sig: []byte(" \n"), want: signature.Missing},
		"no key":                        {keys: nil, sig: good, want: signature.Untrusted},
		"minisign of another file":      {keys: miniKeys, sig: signMinisign(mini, "OTHER"), want: signature.Invalid},
		"minisign by another key":       {keys: miniKeys, sig: signMinisign(otherMini, file), want: signature.Untrusted},
		"minisign with another comment": {keys: miniKeys, sig: []byte(forged), want: signature.Invalid},
		"minisign of the old kind":      {keys: miniKeys, sig: minisign.Sign(mini, []byte(file)), want: signature.Invalid},
		"half a minisign signature":     {keys: miniKeys, sig: good[:len(good)/2], want: signature.Invalid},
		"minisign where only ECDSA is":  {keys: ecKeys, sig: good, want: signature.Untrusted},
		"ECDSA where only minisign is":  {keys: miniKeys, sig: der, want: signature.Untrusted},
		"ECDSA of another file":         {keys: ecKeys, sig: signECDSA(t, ec, "OTHER"), want: signature.Invalid},
		"ECDSA by another key":          {keys: ecKeys, sig: signECDSA(t, otherEC, file), want: signature.Invalid},
		"ECDSA cut":                     {keys: ecKeys, sig: der[:len(der)-1], want: signature.Invalid},
		"an error page":                 {keys: both, sig: []byte("<html>404</html>"), want: signature.Invalid},
		"a bundle":                      {keys: both, sig: []byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"}`), want: signature.Invalid},
		"endless":                       {keys: both, sig: []byte(strings.Repeat("x", signature.MaxBytes+1)), want: signature.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			err := read(t, file).Verify(byKeys(c.keys), c.sig, now)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			var failed *signature.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, c.want, failed.Reason, failed.Message)
		})
	}
}

// The files of testdata were written by minisign 0.11 and openssl 3.0; their private keys are gone.
func TestTakesForeignSignatures(t *testing.T) {
	data := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		return b
	}
	for sig, key := range map[string]string{"fw.bin.minisig": "minisign.pub", "fw.bin.sig": "openssl.pem"} {
		keys := mustParse(t, string(data(key)))
		require.NoError(t, read(t, string(data("fw.bin"))).Verify(byKeys(keys), data(sig), now), sig)
		require.Error(t, read(t, "FIRMWARE").Verify(byKeys(keys), data(sig), now), sig)
	}
	made := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	require.NoError(t, read(t, string(data("fw.bin"))).Verify(byKeys(mustParse(t, string(data("openssl-cert.pem")))), data("fw.bin.sig"), made))
	require.ErrorContains(t, read(t, string(data("fw.bin"))).Verify(byKeys(mustParse(t, string(data("minisign.pub")))), data("fw.bin.old.minisig"), now),
		"-H", "the kind that needs the whole file in memory")
}

func TestACertificateIsAKeyForAsLongAsItIsValid(t *testing.T) {
	key, _ := newECDSA(t, elliptic.P256())
	sig := signECDSA(t, key, file)
	valid := mustParse(t, certificate(t, key, now.Add(-time.Hour), now.Add(time.Hour)))
	require.NoError(t, read(t, file).Verify(byKeys(valid), sig, now))

	for name, keys := range map[string][]signature.Key{
		"over":    mustParse(t, certificate(t, key, now.Add(-2*time.Hour), now.Add(-time.Hour))),
		"not yet": mustParse(t, certificate(t, key, now.Add(time.Hour), now.Add(2*time.Hour))),
	} {
		var failed *signature.Error
		require.ErrorAs(t, read(t, file).Verify(byKeys(keys), sig, now), &failed, name)
		assert.Equal(t, signature.Untrusted, failed.Reason, name)
		require.NoError(t, read(t, file).Verify(byKeys(append(keys, valid...)), sig, now), "the key was renewed under a new certificate")
	}
}

func TestUnusableKeysAreAnError(t *testing.T) {
	_, p384 := newECDSA(t, elliptic.P384())
	private, p256 := newECDSA(t, elliptic.P256())
	der, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	for name, text := range map[string]string{
		"empty": "", "text": "my key", "another curve": p384, "damaged PEM": strings.Replace(p256, "M", "*", 1),
		"a private key": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		"text behind":   p256 + "-----BEGIN PUBLIC KEY-----\n", "too long": strings.Repeat("R", signature.MaxKeyBytes+1),
	} {
		_, err := signature.ParseKeys(text)
		require.Error(t, err, name)
	}
	assert.Len(t, mustParse(t, p256+p256), 2)
}

func FuzzVerify(f *testing.F) {
	public, private, err := minisign.GenerateKey(rand.Reader)
	require.NoError(f, err)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f, err)
	der, err := x509.MarshalPKIXPublicKey(stranger.Public())
	require.NoError(f, err)
	keys, err := signature.ParseKeys(public.String())
	require.NoError(f, err)
	more, err := signature.ParseKeys(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	require.NoError(f, err)
	f.Add(signMinisign(private, "OTHER"))
	f.Add([]byte("untrusted comment: x\n"))
	f.Add([]byte{0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01})
	f.Fuzz(func(t *testing.T, sig []byte) { // nobody can have signed this file
		s, err := signature.Read(strings.NewReader(file))
		require.NoError(t, err)
		require.Error(t, s.Verify(byKeys(append(keys, more...)), sig, now))
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3")
	f.Add("-----BEGIN PUBLIC KEY-----\nMA==\n-----END PUBLIC KEY-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := signature.ParseKeys(text)
		assert.Equal(t, err != nil, len(keys) == 0)
	})
}
