package catalog

import (
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/smallstep/pkcs7"
)

// Bounds of a jcat file: as it is downloaded, and its JSON, in bytes.
const (
	maxJcat     = 1 << 20
	maxJcatJSON = 8 << 20
)

// The kind of a blob that is a detached PKCS #7 signature, and the flag that says that its data is text (libjcat, JcatBlobKind and
// JcatBlobFlags).
const (
	jcatPKCS7 = 3
	jcatUTF8  = 1
)

// jcatFile is a jcat file (libjcat, README): gzip-compressed JSON with items, which stand for files, and blobs, which are
// signatures or checksums of a file. Nothing in it is signed itself. Checksums in it prove nothing and are not looked at.
type jcatFile struct {
	Major *int `json:"JcatVersionMajor"`
	Items []struct {
		ID      string   `json:"Id"`
		Aliases []string `json:"AliasIds"`
		Blobs   []struct {
			Kind  int    `json:"Kind"`
			Flags int    `json:"Flags"`
			Data  string `json:"Data"`
			// Target is there when the signature is of something else than the file itself, such as of its checksum.
			Target int `json:"Target"`
		} `json:"Blobs"`
	} `json:"Items"`
}

// VerifyJcat checks that file, which is known by name, has a detached PKCS #7 signature in the jcat file whose certificate leads to one
// of the roots at the time now. One good signature is enough; others, and those of GPG and Ed25519, are passed over: fwupd, for which LVFS
// signs, accepts PKCS #7 alone (fwupd, "Only Trusted"). The digest must be of SHA-2. It returns when the file was signed, as the signature
// says; zero where it does not. This does not prove that the metadata is the signer's latest: the caller compares the time with that of the
// metadata it used before.
func VerifyJcat(jcat, file []byte, name string, roots *x509.CertPool, now time.Time) (signed time.Time, err error) {
	parsed, err := parseJcat(jcat)
	if err != nil {
		return time.Time{}, err
	}
	found := false
	var refused []error
	for _, item := range parsed.Items {
		if item.ID != name && !slices.Contains(item.Aliases, name) {
			continue
		}
		found = true
		for _, b := range item.Blobs {
			if b.Kind != jcatPKCS7 || b.Target != 0 {
				continue
			}
			der, err := jcatData(b.Data, b.Flags)
			if err == nil {
				signed, err = verifyPKCS7(der, file, roots, now)
			}
			if err == nil {
				return signed, nil
			}
			if refused = append(refused, err); len(refused) == 8 {
				break
			}
		}
	}
	switch {
	case !found:
		return time.Time{}, fault(SignatureInvalid, "verify signature: the jcat file has no item %q", name)
	case len(refused) == 0:
		return time.Time{}, fault(SignatureInvalid, "verify signature: the jcat file has no PKCS #7 signature of %q", name)
	}
	return time.Time{}, fault(SignatureInvalid, "verify signature of %q: %w", name, errors.Join(refused...))
}

func parseJcat(text []byte) (*jcatFile, error) {
	if len(text) > maxJcat {
		return nil, fault(InvalidCatalog, "parse jcat: larger than %d bytes", maxJcat)
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, fault(SignatureInvalid, "parse jcat: %w", err)
	}
	z.Multistream(false) // LVFS' content network appends bytes of its own
	plain, err := io.ReadAll(io.LimitReader(z, maxJcatJSON+1))
	if err != nil {
		return nil, fault(SignatureInvalid, "parse jcat: %w", err)
	}
	if len(plain) > maxJcatJSON {
		return nil, fault(InvalidCatalog, "parse jcat: more than %d bytes after decompression", maxJcatJSON)
	}
	var out jcatFile
	if err := json.Unmarshal(plain, &out); err != nil {
		return nil, fault(SignatureInvalid, "parse jcat: %w", err)
	}
	if out.Major == nil || *out.Major != 0 {
		return nil, fault(SignatureInvalid, "parse jcat: the version is not 0.x")
	}
	return &out, nil
}

// jcatData returns the DER of a signature, which is PEM text or base64.
func jcatData(data string, flags int) ([]byte, error) {
	raw := []byte(data)
	if flags&jcatUTF8 == 0 {
		var err error
		if raw, err = base64.StdEncoding.DecodeString(data); err != nil {
			return nil, fmt.Errorf("decode blob: %w", err)
		}
	}
	if block, _ := pem.Decode(raw); block != nil {
		return block.Bytes, nil
	}
	if flags&jcatUTF8 != 0 {
		return nil, errors.New("decode blob: it is not PEM")
	}
	return raw, nil
}

// verifyPKCS7 returns the signing time, which is among the signed attributes (RFC 5652, 11.3), of the first signer; zero for none.
func verifyPKCS7(der, content []byte, roots *x509.CertPool, now time.Time) (signed time.Time, err error) {
	p, err := pkcs7.Parse(der)
	if err != nil {
		return signed, fmt.Errorf("parse PKCS #7: %w", err)
	}
	if len(p.Content) > 0 {
		return signed, errors.New("verify PKCS #7: the signature is not detached")
	}
	for _, s := range p.Signers {
		d := s.DigestAlgorithm.Algorithm
		if !d.Equal(pkcs7.OIDDigestAlgorithmSHA256) && !d.Equal(pkcs7.OIDDigestAlgorithmSHA384) && !d.Equal(pkcs7.OIDDigestAlgorithmSHA512) {
			return signed, fmt.Errorf("verify PKCS #7: the digest %s is not of SHA-2", d)
		}
	}
	p.Content = content
	if err := p.VerifyWithChainAtTime(roots, now); err != nil {
		return signed, fmt.Errorf("verify PKCS #7: %w", err)
	}
	if p.UnmarshalSignedAttribute(pkcs7.OIDAttributeSigningTime, &signed) != nil {
		return time.Time{}, nil // the attribute is optional
	}
	return signed.UTC(), nil
}

// ParseRoots reads certificates in PEM. It fails when there is none, or anything else.
func ParseRoots(text []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != "CERTIFICATE" {
			return nil, fault(SignatureInvalid, "parse signers: certificate %d is damaged or no certificate; paste the PEM text of the authority", n+1)
		}
		pool.AddCert(cert)
		text, n = rest, n+1
	}
	if n == 0 || len(bytes.TrimSpace(text)) > 0 {
		return nil, fault(SignatureInvalid, "parse signers: no certificate, or more than certificates; paste the PEM text of the authority")
	}
	return pool, nil
}
