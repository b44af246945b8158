package signaturetest

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/smallstep/pkcs7"
	"github.com/stretchr/testify/require"
)

// Authority signs metadata as LVFS does. Its certificate is valid for centuries, so that no clock of a test is outside of it.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority with a key of its own.
func NewAuthority(t testing.TB) Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "metadata"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return Authority{certificate, key}
}

// PEM is its certificate.
func (a Authority) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

// Jcat is the signature of a file, with the present time in it.
func (a Authority) Jcat(t testing.TB, name, content string) string {
	t.Helper()
	return a.jcat(t, (*pkcs7.SignedData).AddSigner, name, content)
}

// UndatedJcat is a signature that does not say when it was made.
func (a Authority) UndatedJcat(t testing.TB, name, content string) string {
	t.Helper()
	return a.jcat(t, (*pkcs7.SignedData).SignWithoutAttr, name, content)
}

type signing func(*pkcs7.SignedData, *x509.Certificate, crypto.PrivateKey, pkcs7.SignerInfoConfig) error

func (a Authority) jcat(t testing.TB, sign signing, name, content string) string {
	t.Helper()
	s, err := pkcs7.NewSignedData([]byte(content))
	require.NoError(t, err)
	s.SetDigestAlgorithm(pkcs7.OIDDigestAlgorithmSHA256)
	require.NoError(t, sign(s, a.certificate, a.key, pkcs7.SignerInfoConfig{}))
	s.Detach()
	signature, err := s.Finish()
	require.NoError(t, err)
	text, err := json.Marshal(map[string]any{"JcatVersionMajor": 0, "JcatVersionMinor": 1, "Items": []any{map[string]any{"Id": name, "Blobs": []any{
		map[string]any{"Kind": 3, "Flags": 1, "Data": string(pem.EncodeToMemory(&pem.Block{Type: "PKCS7", Bytes: signature}))}}}}})
	require.NoError(t, err)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err = z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.String()
}
