package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aead.dev/minisign"
	"go.yaml.in/yaml/v3"
)

const (
	// RootSuffix ends the name of a file with a trusted root of Sigstore.
	RootSuffix = "trusted_root.json"
	// IdentitiesSuffix ends the name of the file with the identities that may sign under it. Both names begin the same.
	IdentitiesSuffix = "identities.yaml"
	// MaxRoots bounds the trusted roots of one directory.
	MaxRoots = 8
)

// Trust is who may sign. One of them is enough.
type Trust struct {
	// Keys of those who sign with a key.
	Keys []Key
	// Sigstore names those who sign as an identity that an authority certifies.
	Sigstore []Sigstore
}

// Len is the number of keys and trusted roots.
func (t Trust) Len() int { return len(t.Keys) + len(t.Sigstore) }

// Fingerprint returns a text that differs for different sets of permitted signers.
func (t Trust) Fingerprint() string {
	hash := sha256.New()
	for _, k := range t.Keys {
		sum := sha256.Sum256(k.raw)
		hash.Write(sum[:])
	}
	for _, s := range t.Sigstore {
		hash.Write(s.sum[:])
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// ReadTrust reads a directory of those who may sign. Each file holds a text of ParseKeys, but for those whose names end with RootSuffix
// and IdentitiesSuffix, which come in pairs. Names that begin with a dot are skipped: in a mounted ConfigMap they are the kubelet's
// own. A directory that is not there holds none. One file that cannot be read, or half a pair, is an error, so that damage is not mistaken
// for absence.
func ReadTrust(dir string) (Trust, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return Trust{}, nil
	}
	if err != nil {
		return Trust{}, fmt.Errorf("list keys: %w", err)
	}
	var t Trust
	var roots, identities []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if prefix, ok := strings.CutSuffix(path, RootSuffix); ok {
			roots = append(roots, prefix)
			continue
		}
		if prefix, ok := strings.CutSuffix(path, IdentitiesSuffix); ok {
			identities = append(identities, prefix)
			continue
		}
		text, err := readFile(path, MaxKeyBytes)
		if err != nil {
			return Trust{}, err
		}
		found, err := ParseKeys(string(text))
		if err != nil {
			return Trust{}, fmt.Errorf("%s: %w", path, err)
		}
		if t.Keys = append(t.Keys, found...); len(t.Keys) > MaxKeys {
			return Trust{}, fmt.Errorf("read keys: more than %d in %s", MaxKeys, dir)
		}
	}
	for _, prefix := range identities {
		if !slices.Contains(roots, prefix) {
			return Trust{}, fmt.Errorf("%s has no trusted root beside it; add %s", prefix+IdentitiesSuffix, prefix+RootSuffix)
		}
	}
	if len(roots) > MaxRoots {
		return Trust{}, fmt.Errorf("read trusted roots: more than %d in %s", MaxRoots, dir)
	}
	for _, prefix := range roots {
		if !slices.Contains(identities, prefix) {
			return Trust{}, fmt.Errorf("%s names nobody who may sign; add %s", prefix+RootSuffix, prefix+IdentitiesSuffix)
		}
		s, err := readSigstore(prefix)
		if err != nil {
			return Trust{}, err
		}
		t.Sigstore = append(t.Sigstore, s)
	}
	return t, nil
}

func readSigstore(prefix string) (Sigstore, error) {
	root, err := readFile(prefix+RootSuffix, MaxRootBytes)
	if err != nil {
		return Sigstore{}, err
	}
	text, err := readFile(prefix+IdentitiesSuffix, MaxKeyBytes)
	if err != nil {
		return Sigstore{}, err
	}
	var list struct {
		Identities []Identity `yaml:"identities"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return Sigstore{}, fmt.Errorf("%s: read identities: %w", prefix+IdentitiesSuffix, err)
	}
	s, err := NewSigstore(root, list.Identities)
	if err != nil {
		return Sigstore{}, fmt.Errorf("%s with %s: %w", prefix+RootSuffix, filepath.Base(prefix+IdentitiesSuffix), err)
	}
	return s, nil
}

func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("read key %s: not a file of at most %d bytes", path, limit)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return text, nil
}

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
