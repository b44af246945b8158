package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// The types of PEM blocks of keys.
const (
	privateType = "PRIVATE KEY"
	publicType  = "PUBLIC KEY"
)

// NewKey returns a new private key, ECDSA P-256 as PKCS #8 in PEM.
func NewKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateType, Bytes: der}), nil
}

// ReadKey reads a private key, ECDSA as PKCS #8 in PEM.
func ReadKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != privateType {
		return nil, errors.New("it is no private key in PEM (PKCS #8)")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	signing, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it is a key of type %T, and ECDSA is needed", key)
	}
	return signing, nil
}

// Text is what is signed: the record as compact JSON with sorted keys (RFC 8785).
func Text(r v1alpha1.SanitizationRecord) ([]byte, error) {
	plain, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	out, err := jsoncanonicalizer.Transform(plain)
	if err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	return out, nil
}

// Sign returns the certificate of that name.
func Sign(name string, r v1alpha1.SanitizationRecord, key *ecdsa.PrivateKey) (*v1alpha1.SanitizationCertificate, error) {
	signed, err := Text(r)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(signed)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return nil, fmt.Errorf("sign certificate %s: %w", name, err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("write public key: %w", err)
	}
	return &v1alpha1.SanitizationCertificate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SanitizationCertificateSpec{
		Record: r, Signature: signature, PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: publicType, Bytes: der})),
	}}, nil
}

// PublicKey is a key that certificates are verified with.
type PublicKey struct{ *ecdsa.PublicKey }

// ReadPublicKey reads a public key, ECDSA in PEM.
func ReadPublicKey(text []byte) (PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != publicType {
		return PublicKey{}, errors.New("it is no public key in PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return PublicKey{}, fmt.Errorf("read public key: %w", err)
	}
	verifying, ok := key.(*ecdsa.PublicKey)
	if !ok {
		return PublicKey{}, fmt.Errorf("it is a key of type %T, and ECDSA is needed", key)
	}
	return PublicKey{verifying}, nil
}

// Fingerprint is the SHA-256 of the key's SubjectPublicKeyInfo, in hexadecimal digits.
func (k PublicKey) Fingerprint() string {
	der, _ := x509.MarshalPKIXPublicKey(k.PublicKey) // it was read from that
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// Verify fails unless the record is as it was when somebody signed it who has the key.
func (k PublicKey) Verify(c *v1alpha1.SanitizationCertificate) error {
	signed, err := Text(c.Spec.Record)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(signed); !ecdsa.VerifyASN1(k.PublicKey, sum[:], c.Spec.Signature) {
		return fmt.Errorf("the signature of certificate %s is not valid for the key %s: the record was changed, or another key signed it", c.Name, k.Fingerprint())
	}
	return nil
}
