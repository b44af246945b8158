package signature

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// sha256Name is what a bundle calls the hash that is supported (HashAlgorithm of sigstore_common.proto).
const sha256Name = "SHA2_256"

// verifyBundle verifies a bundle of Sigstore (Bundle of sigstore_bundle.proto, versions 0.1 to 0.3). One that names a certificate is
// verified with the trusted roots. One that was signed with a key names none, and its signature is one by a key.
func (s Subject) verifyBundle(trust Trust, text []byte, now time.Time) error {
	var verdict error
	err := sheltered(func() error {
		b, err := parseBundle(text)
		if err != nil {
			return err
		}
		verdict = s.verifyParsed(trust, b, now)
		return nil
	})
	if err != nil {
		return refuse(Invalid, "the signature is a damaged sigstore bundle: %v", err)
	}
	return verdict
}

func parseBundle(text []byte) (*bundle.Bundle, error) {
	var old struct {
		Signature string `json:"base64Signature"`
	}
	if json.Unmarshal(text, &old) == nil && old.Signature != "" {
		return nil, fmt.Errorf("it is in the format of cosign before version 3; sign with cosign sign-blob --new-bundle-format --bundle")
	}
	var b bundle.Bundle
	if err := b.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	return &b, nil
}

func (s Subject) verifyParsed(trust Trust, b *bundle.Bundle, now time.Time) error {
	message, ok := b.Content.(*protobundle.Bundle_MessageSignature)
	if !ok {
		return refuse(Invalid, "the bundle holds an attestation (DSSE), which is not supported; sign the file itself, with cosign sign-blob --bundle")
	}
	digest := message.MessageSignature.GetMessageDigest()
	switch {
	case digest.GetAlgorithm().String() != sha256Name:
		return refuse(Invalid, "the bundle signs a hash of the kind %s, which is not supported; sign with an ECDSA key on the curve P-256, as cosign does",
			digest.GetAlgorithm())
	case !bytes.Equal(digest.GetDigest(), s.sha256[:]):
		return refuse(Invalid, "the bundle signs the file with the sha256 %x, and not this one, which has %s", digest.GetDigest(), s.sha256)
	}
	content, err := b.VerificationContent()
	if err != nil {
		return refuse(Invalid, "the signature is a damaged sigstore bundle: %v", err)
	}
	leaf := content.Certificate()
	if leaf == nil {
		if len(trust.Keys) == 0 {
			return refuse(Untrusted, "the bundle was signed with a key, and only identities of sigstore are trusted; trust its public key instead "+
				"(in a FirmwareSource: verification.keys), or sign without a key")
		}
		return s.verifyDER(trust.Keys, message.MessageSignature.GetSignature(), now)
	}
	if len(trust.Sigstore) == 0 {
		return refuse(Untrusted, "the bundle was signed as an identity of sigstore, and only keys are trusted; give a trusted root and the identities "+
			"that may sign (in a FirmwareSource: verification.trustedRoot and identities), or sign with a key")
	}
	var refused error
	for _, authority := range trust.Sigstore {
		err := authority.verify(s, b, leaf)
		if err == nil {
			return nil
		}
		refused = better(refused, err)
	}
	return refused
}

func (s Sigstore) verify(file Subject, b *bundle.Bundle, leaf *x509.Certificate) error {
	policy := verify.NewPolicy(verify.WithArtifactDigest("sha256", file.sha256[:]), s.policy...)
	if _, err := s.verifier.Verify(b, policy); err != nil {
		return s.explain(b, leaf, err)
	}
	return nil
}

func (s Sigstore) names() string {
	var out []string
	for _, i := range s.identities {
		out = append(out, i.String())
	}
	return strings.Join(out, ", ")
}
