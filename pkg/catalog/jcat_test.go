package catalog_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/smallstep/pkcs7"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

var signingDay = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// authority signs metadata.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "metadata"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: signingDay.AddDate(-1, 0, 0), NotAfter: signingDay.AddDate(1, 0, 0), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a authority) sign(t testing.TB, content []byte, digest asn1.ObjectIdentifier, detach bool) []byte {
	s, err := pkcs7.NewSignedData(content)
	require.NoError(t, err)
	s.SetDigestAlgorithm(digest)
	require.NoError(t, s.SignWithoutAttr(a.cert, a.key, pkcs7.SignerInfoConfig{}))
	if detach {
		s.Detach()
	}
	der, err := s.Finish()
	require.NoError(t, err)
	return der
}

type blob map[string]any

func pkcs7Blob(der []byte) blob {
	return blob{"Kind": 3, "Flags": 1, "Timestamp": 1, "Data": string(pem.EncodeToMemory(&pem.Block{Type: "PKCS7", Bytes: der}))}
}

func jcat(t testing.TB, id string, aliases []string, blobs ...blob) []byte {
	text, err := json.Marshal(map[string]any{"JcatVersionMajor": 0, "JcatVersionMinor": 1,
		"Items": []any{map[string]any{"Id": id, "AliasIds": aliases, "Blobs": blobs}}})
	require.NoError(t, err)
	return zipped(t, text)
}

func zipped(t testing.TB, text []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.Bytes()
}

func TestSignatureByNameOrAlias(t *testing.T) {
	a := newAuthority(t)
	content := []byte("metadata")
	roots, err := catalog.ParseRoots(a.pem())
	require.NoError(t, err)
	der := a.sign(t, content, pkcs7.OIDDigestAlgorithmSHA256, true)
	for name, text := range map[string][]byte{
		"by name":        jcat(t, "firmware.xml.gz", nil, pkcs7Blob(der)),
		"by alias":       jcat(t, "firmware-01234-stable.xml.gz", []string{"firmware.xml.gz"}, pkcs7Blob(der)),
		"as base64":      jcat(t, "firmware.xml.gz", nil, blob{"Kind": 3, "Flags": 0, "Data": base64.StdEncoding.EncodeToString(der)}),
		"beside another": jcat(t, "firmware.xml.gz", nil, pkcs7Blob(newAuthority(t).sign(t, content, pkcs7.OIDDigestAlgorithmSHA256, true)), pkcs7Blob(der)),
		"beside other kinds": jcat(t, "firmware.xml.gz", nil, blob{"Kind": 1, "Flags": 1, "Data": "00"}, blob{"Kind": 2, "Flags": 1, "Data": "-----BEGIN PGP SIGNATURE-----"},
			blob{"Kind": 9, "Flags": 0, "Data": "AAAA"}, pkcs7Blob([]byte{0x30, 0}), pkcs7Blob(der)),
		"with bytes after its end": append(jcat(t, "firmware.xml.gz", nil, pkcs7Blob(der)), "of the network"...),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := catalog.VerifyJcat(text, content, "firmware.xml.gz", roots, signingDay)
			require.NoError(t, err)
		})
	}
}

func TestABadSignatureIsRefused(t *testing.T) {
	a, content := newAuthority(t), []byte("metadata")
	roots, err := catalog.ParseRoots(a.pem())
	require.NoError(t, err)
	good := a.sign(t, content, pkcs7.OIDDigestAlgorithmSHA256, true)
	name := "firmware.xml.gz"
	for what, c := range map[string]struct {
		jcat, file []byte
		at         time.Time
	}{
		"other bytes":          {jcat(t, name, nil, pkcs7Blob(good)), []byte("metadatA"), signingDay},
		"another file":         {jcat(t, "other.xml.gz", nil, pkcs7Blob(good)), content, signingDay},
		"nobody's key":         {jcat(t, name, nil, pkcs7Blob(newAuthority(t).sign(t, content, pkcs7.OIDDigestAlgorithmSHA256, true))), content, signingDay},
		"expired":              {jcat(t, name, nil, pkcs7Blob(good)), content, signingDay.AddDate(2, 0, 0)},
		"not valid yet":        {jcat(t, name, nil, pkcs7Blob(good)), content, signingDay.AddDate(-2, 0, 0)},
		"with its own content": {jcat(t, name, nil, pkcs7Blob(a.sign(t, content, pkcs7.OIDDigestAlgorithmSHA256, false))), content, signingDay},
		"a digest of SHA-1":    {jcat(t, name, nil, pkcs7Blob(a.sign(t, content, pkcs7.OIDDigestAlgorithmSHA1, true))), content, signingDay},
		"a checksum alone":     {jcat(t, name, nil, blob{"Kind": 1, "Flags": 1, "Data": "45447b7afbd5e544f7d0f1df0fccd26014d9850130abd3f020b89ff96b82079f"}), content, signingDay},
		"Ed25519 alone":        {jcat(t, name, nil, blob{"Kind": 9, "Flags": 0, "Data": base64.StdEncoding.EncodeToString(make([]byte, 64))}), content, signingDay},
		"GPG alone":            {jcat(t, name, nil, blob{"Kind": 2, "Flags": 1, "Data": "-----BEGIN PGP SIGNATURE-----"}), content, signingDay},
		"of something else":    {jcat(t, name, nil, blob{"Kind": 3, "Flags": 1, "Target": 1, "Data": pkcs7Blob(good)["Data"]}), content, signingDay},
		"no signature":         {jcat(t, name, nil), content, signingDay},
		"no PEM":               {jcat(t, name, nil, blob{"Kind": 3, "Flags": 1, "Data": "x"}), content, signingDay},
		"no PKCS #7":           {jcat(t, name, nil, pkcs7Blob([]byte{0x30, 0})), content, signingDay},
		"no gzip":              {[]byte("404"), content, signingDay},
		"no JSON":              {zipped(t, []byte("404")), content, signingDay},
		"no version":           {zipped(t, []byte("{}")), content, signingDay},
		"cut off":              {jcat(t, name, nil, pkcs7Blob(good))[:100], content, signingDay},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := catalog.VerifyJcat(c.jcat, c.file, name, roots, c.at)
			require.Error(t, err)
			t.Log(err)
			assert.Equal(t, catalog.SignatureInvalid, catalog.ReasonOf(err))
		})
	}
	bomb := zipped(t, bytes.Repeat([]byte(" "), 9<<20))
	for _, large := range [][]byte{bomb, make([]byte, 2<<20)} {
		_, err := catalog.VerifyJcat(large, content, name, roots, signingDay)
		assert.Equal(t, catalog.InvalidCatalog, catalog.ReasonOf(err))
	}
}

func TestSignersMustBeCertificates(t *testing.T) {
	a := newAuthority(t)
	key, err := x509.MarshalPKCS8PrivateKey(a.key)
	require.NoError(t, err)
	for name, text := range map[string][]byte{
		"nothing": nil, "a text": []byte("x"), "a certificate and a text": append(a.pem(), "x"...),
		"a key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := catalog.ParseRoots(text)
			require.Error(t, err)
		})
	}
	_, err = catalog.ParseRoots(append(a.pem(), newAuthority(t).pem()...))
	require.NoError(t, err)
}

func FuzzJcat(f *testing.F) {
	a := newAuthority(f)
	roots, err := catalog.ParseRoots(a.pem())
	require.NoError(f, err)
	good := jcat(f, "f", nil, pkcs7Blob(a.sign(f, []byte("metadata"), pkcs7.OIDDigestAlgorithmSHA256, true)))
	f.Add(good)
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := catalog.VerifyJcat(text, []byte("other metadata"), "f", roots, signingDay)
		require.Error(t, err)
	})
}
