package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"aead.dev/minisign"
)

const (
	// MaxKeys bounds the keys of one source or one directory.
	MaxKeys = 64
	// MaxKeyBytes bounds the text of one key.
	MaxKeyBytes = 16 << 10
)

// Key is a public key: one of minisign (Ed25519), or an ECDSA key on the curve P-256.
type Key struct {
	minisign *minisign.PublicKey
	ecdsa    *ecdsa.PublicKey
	// notBefore and notAfter bound the use of a key that came as a certificate; zero for one that came without.
	notBefore, notAfter time.Time
	raw                 []byte
}

// String names the key for a message.
func (k Key) String() string {
	if k.minisign != nil {
		return fmt.Sprintf("minisign key %016X", k.minisign.ID())
	}
	return "ECDSA P-256 key"
}

// ParseKeys reads the keys of one text: a minisign public key, with or without its comment, or blocks of PEM of the type PUBLIC
// KEY or CERTIFICATE, which hold ECDSA keys on the curve P-256. A certificate stands for its key and expires with the certificate; its
// issuer is not checked, because the person who chose it trusts the key itself.
func ParseKeys(text string) ([]Key, error) {
	if len(text) > MaxKeyBytes {
		return nil, fmt.Errorf("read key: longer than %d bytes", MaxKeyBytes)
	}
	if !strings.Contains(text, "-----BEGIN ") {
		var key minisign.PublicKey
		if err := key.UnmarshalText([]byte(strings.TrimSpace(text))); err != nil {
			return nil, errors.New("read key: neither a minisign public key (RW...) nor PEM")
		}
		return []Key{{minisign: &key, raw: []byte(key.String())}}, nil
	}
	var keys []Key
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(bytes.TrimSpace(rest)) > 0 || len(keys) == 0 {
				return nil, errors.New("read key: damaged PEM")
			}
			return keys, nil
		}
		key, err := parseBlock(block)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
}

func parseBlock(block *pem.Block) (Key, error) {
	var public any
	key := Key{raw: block.Bytes}
	switch block.Type {
	case "PUBLIC KEY":
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return Key{}, fmt.Errorf("read public key: %w", err)
		}
		public = parsed
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return Key{}, fmt.Errorf("read certificate: %w", err)
		}
		public, key.notBefore, key.notAfter = certificate.PublicKey, certificate.NotBefore, certificate.NotAfter
	default:
		return Key{}, fmt.Errorf("read key: a PEM block of type %q; want PUBLIC KEY or CERTIFICATE", block.Type)
	}
	var ok bool
	if key.ecdsa, ok = public.(*ecdsa.PublicKey); !ok || key.ecdsa.Curve != elliptic.P256() {
		return Key{}, errors.New("read key: not an ECDSA key on the curve P-256")
	}
	return key, nil
}
