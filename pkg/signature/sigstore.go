package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

const (
	// MaxRootBytes bounds a trusted root. That of the public Sigstore has 7 KiB.
	MaxRootBytes = 32 << 10
	// MaxIdentities bounds the identities of one trusted root.
	MaxIdentities = 16
	// maxIdentityText bounds each text of an Identity, in bytes.
	maxIdentityText = 512
)

// Identity is a permitted signer: the subject that a Sigstore authority certifies, and the issuer that authenticated it.
type Identity struct {
	// Issuer is the URL of the OpenID Connect issuer that knew the signer.
	Issuer string `yaml:"issuer"`
	// Subject is the e-mail address or URI of the signer, or SubjectRegExp a regular expression of package regexp that
	// the whole of it matches; never both.
	Subject       string `yaml:"subject"`
	SubjectRegExp string `yaml:"subjectRegExp"`
}

// String names the identity for a message.
func (i Identity) String() string {
	if i.SubjectRegExp != "" {
		return fmt.Sprintf("/%s/ of %s", i.SubjectRegExp, i.Issuer)
	}
	return fmt.Sprintf("%s of %s", i.Subject, i.Issuer)
}

func (i Identity) matcher() (verify.CertificateIdentity, error) {
	var none verify.CertificateIdentity
	switch {
	case i.Issuer == "":
		return none, errors.New("has no issuer")
	case (i.Subject == "") == (i.SubjectRegExp == ""):
		return none, errors.New("needs either subject or subjectRegExp")
	case max(len(i.Issuer), len(i.Subject), len(i.SubjectRegExp)) > maxIdentityText:
		return none, fmt.Errorf("has a text of more than %d bytes", maxIdentityText)
	case i.Subject != "":
		return verify.NewShortCertificateIdentity(i.Issuer, "", i.Subject, "")
	}
	if _, err := regexp.Compile(i.SubjectRegExp); err != nil { // alone: within the anchors "a)|(b" would be one
		return none, fmt.Errorf("has an invalid subjectRegExp: %w", err)
	}
	return verify.NewShortCertificateIdentity(i.Issuer, "", "", `\A(?:`+i.SubjectRegExp+`)\z`)
}

// Sigstore is a trusted root of Sigstore with the identities that may sign under it. It needs no network.
type Sigstore struct {
	root       *root.TrustedRoot
	verifier   *verify.Verifier
	identities []Identity
	policy     []verify.PolicyOption
	sum        [sha256.Size]byte
}

// NewSigstore reads a trusted root, which is the trusted_root.json of a Sigstore (TrustedRoot of sigstore_trustroot.proto, media type
// "application/vnd.dev.sigstore.trustedroot+json;version=0.1"). What it lists is required of every bundle: an entry in a transparency log
// if it has tlogs, otherwise a timestamp of an authority; and a logged certificate if it has ctlogs.
func NewSigstore(trustedRoot []byte, identities []Identity) (Sigstore, error) {
	if len(trustedRoot) > MaxRootBytes {
		return Sigstore{}, fmt.Errorf("read trusted root: longer than %d bytes", MaxRootBytes)
	}
	parsed, err := parseRoot(trustedRoot)
	if err != nil {
		return Sigstore{}, err
	}
	switch {
	case len(identities) == 0:
		return Sigstore{}, errors.New("read identities: there is none, so nobody may sign")
	case len(identities) > MaxIdentities:
		return Sigstore{}, fmt.Errorf("read identities: more than %d", MaxIdentities)
	}
	s := Sigstore{root: parsed, identities: identities}
	for n, i := range identities {
		matcher, err := i.matcher()
		if err != nil {
			return Sigstore{}, fmt.Errorf("read identities: identities[%d] %w", n, err)
		}
		s.policy = append(s.policy, verify.WithCertificateIdentity(matcher))
	}
	if s.verifier, err = verify.NewVerifier(parsed, demands(parsed)...); err != nil {
		return Sigstore{}, fmt.Errorf("use trusted root: %w", err)
	}
	text, err := json.Marshal([]any{trustedRoot, identities})
	if err != nil {
		return Sigstore{}, fmt.Errorf("read identities: %w", err)
	}
	s.sum = sha256.Sum256(text)
	return s, nil
}

func parseRoot(text []byte) (*root.TrustedRoot, error) {
	var parsed *root.TrustedRoot
	err := sheltered(func() (err error) {
		parsed, err = root.NewTrustedRootFromJSON(text)
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read trusted root: %w; it is the trusted_root.json of the Sigstore that the publisher signs with", err)
	case len(parsed.FulcioCertificateAuthorities()) == 0:
		return nil, errors.New("read trusted root: it has no certificateAuthorities, so it certifies nobody")
	case len(parsed.RekorLogs()) == 0 && len(parsed.TimestampingAuthorities()) == 0:
		return nil, errors.New("read trusted root: it has neither tlogs nor timestampAuthorities, so nothing could say when a file was signed")
	}
	return parsed, nil
}

// demands are what a bundle has to have. A certificate is valid for minutes, so that it takes a witness of the time of the signature.
func demands(r *root.TrustedRoot) []verify.VerifierOption {
	var out []verify.VerifierOption
	if len(r.RekorLogs()) > 0 {
		out = append(out, verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1))
	} else {
		out = append(out, verify.WithSignedTimestamps(1))
	}
	if len(r.CTLogs()) > 0 {
		out = append(out, verify.WithSignedCertificateTimestamps(1))
	}
	return out
}

// sheltered makes an error of a panic of the library, which reads what strangers wrote.
func sheltered(read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it cannot be read: %v", p)
		}
	}()
	return read()
}

// better is the error that says more of two by different trusted roots: that of a root that knows the signer.
func better(a, b error) error {
	if a == nil || knowsNot(a) && !knowsNot(b) {
		return b
	}
	return a
}

func knowsNot(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Reason == Untrusted && !refused.untimely
}

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
