package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"aead.dev/minisign"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// MaxBytes bounds a signature. A bundle with two timestamps has 20 KiB. A statement has room for one of this size in each of its claims.
const MaxBytes = 32 << 10

// Reason says why a signature does not hold. The values are the condition reasons of the API.
type Reason string

// The reasons.
const (
	// Missing: there is no signature.
	Missing Reason = "SignatureMissing"
	// Invalid: it is damaged, is none, or is not of this file.
	Invalid Reason = "SignatureInvalid"
	// Untrusted: it is by a key, an identity, an authority or a log that is not among those that are trusted, or not at that time: the key
	// is not valid now, or a certificate, or what vouches for it, was not when the file was signed.
	Untrusted Reason = "SignatureUntrusted"
)

// Error says why a signature does not hold. Trying again does not help.
type Error struct {
	Reason  Reason
	Message string
	// untimely is true where the signer is known and the time is wrong.
	untimely bool
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func refuse(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Message: fmt.Sprintf(format, args...)}
}

func untimely(format string, args ...any) error {
	return &Error{Reason: Untrusted, Message: fmt.Sprintf(format, args...), untimely: true}
}

// Subject is a file whose signature is to be verified, read once.
type Subject struct {
	sha256 inventory.Digest
	reader *minisign.Reader
}

// Read reads a file to its end, in constant memory.
func Read(file io.Reader) (Subject, error) {
	hash := sha256.New()
	reader := minisign.NewReader(file)
	if _, err := io.Copy(hash, reader); err != nil {
		return Subject{}, fmt.Errorf("read signed file: %w", err)
	}
	return Subject{sha256: inventory.Digest(hash.Sum(nil)), reader: reader}, nil
}

// Digest is the sha256 of the file.
func (s Subject) Digest() inventory.Digest { return s.sha256 }

// Verify returns nil if the signature is one of the file by one of those who may sign, and an *Error otherwise. It takes the format
// that minisign writes (hashed, its default since 0.10), an ECDSA signature of the file's sha256 in DER, bare as openssl writes
// it or in base64 as cosign does, and a bundle of Sigstore. now decides whether a key that came as a certificate has expired; a bundle
// carries its own proof of the time.
func (s Subject) Verify(trust Trust, signature []byte, now time.Time) error {
	trimmed := bytes.TrimSpace(signature)
	switch {
	case trust.Len() == 0:
		return refuse(Untrusted, "there is no key to verify the signature with")
	case len(trimmed) == 0:
		return refuse(Missing, "there is no signature")
	case len(signature) > MaxBytes:
		return refuse(Invalid, "the signature is longer than %d bytes", MaxBytes)
	case trimmed[0] == '{':
		return s.verifyBundle(trust, trimmed, now)
	case bytes.HasPrefix(trimmed, []byte("untrusted comment:")):
		return s.verifyMinisign(trust.Keys, signature)
	case len(trust.Keys) == 0:
		return refuse(Invalid, "the signature is no sigstore bundle, and only identities of sigstore are trusted; sign with cosign sign-blob --bundle, or "+
			"trust the key that signed")
	}
	return s.verifyECDSA(trust.Keys, signature, now)
}

// Lapsed says why the signature of a file, which held, does not hold at another time: the key came as a certificate, which expired. It is nil
// where time does not matter, and says nothing else about the signature.
func Lapsed(trust Trust, file inventory.Digest, signature []byte, now time.Time) error {
	expires := slices.ContainsFunc(trust.Keys, func(k Key) bool { return !k.notAfter.IsZero() })
	if !expires || bytes.HasPrefix(bytes.TrimSpace(signature), []byte("untrusted comment:")) { // minisign's, which needs the whole file
		return nil
	}
	var refused *Error
	if err := (Subject{sha256: file}).Verify(trust, signature, now); errors.As(err, &refused) && refused.untimely {
		return err
	}
	return nil
}

func (s Subject) verifyMinisign(keys []Key, text []byte) error {
	var parsed minisign.Signature
	if err := parsed.UnmarshalText(text); err != nil {
		return refuse(Invalid, "the signature is damaged: %v", err)
	}
	if parsed.Algorithm != minisign.HashEdDSA {
		return refuse(Invalid, "the signature is of minisign's old kind, which is not of the file's hash; sign with minisign 0.10 or newer, or with -H")
	}
	known := false
	for _, k := range keys {
		if k.minisign == nil || k.minisign.ID() != parsed.KeyID {
			continue
		}
		if known = true; s.reader.Verify(*k.minisign, text) {
			return nil
		}
	}
	if !known {
		return refuse(Untrusted, "the signature is by the minisign key %016X, which is not one of the trusted keys", parsed.KeyID)
	}
	return refuse(Invalid, "the signature by the minisign key %016X is not of this file, or it or its comment was changed", parsed.KeyID)
}

func (s Subject) verifyECDSA(keys []Key, raw []byte, now time.Time) error {
	der := raw
	if decoded, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(raw))); err == nil {
		der = decoded
	}
	return s.verifyDER(keys, der, now)
}

func (s Subject) verifyDER(keys []Key, der []byte, now time.Time) error {
	if !slices.ContainsFunc(keys, func(k Key) bool { return k.ecdsa != nil }) {
		return refuse(Untrusted, "the signature is none of minisign, and no trusted key is of another kind")
	}
	var expired *Key
	for _, k := range keys {
		if k.ecdsa == nil || !ecdsa.VerifyASN1(k.ecdsa, s.sha256[:], der) {
			continue
		}
		if k.notAfter.IsZero() || !now.Before(k.notBefore) && !now.After(k.notAfter) {
			return nil
		}
		expired = &k
	}
	if expired != nil {
		return untimely("the certificate of the key that signed is valid from %s to %s, and not now",
			expired.notBefore.UTC().Format(time.RFC3339), expired.notAfter.UTC().Format(time.RFC3339))
	}
	return refuse(Invalid, "the signature is not one of this file by a trusted key: the file, the signature or the key is another one")
}
