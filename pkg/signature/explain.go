package signature

import (
	"crypto/x509"
	"encoding/hex"
	"errors"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// renew says what helps where a trusted root is too old, or another one.
const renew = "if the publisher signs with that Sigstore, get its trusted root as it is today (cosign trusted-root create, or the trusted_root.json that it publishes)"

// explain says why a bundle was refused: the library has said that it is, and its error is a text. The same stages are taken again in
// the same order, and the first that fails is the reason. It never makes a refusal good.
func (s Sigstore) explain(b *bundle.Bundle, leaf *x509.Certificate, cause error) error {
	if nobody := (*verify.ErrNoMatchingCertificateIdentity)(nil); errors.As(cause, &nobody) {
		signer, err := certificate.SummarizeCertificate(leaf)
		if err != nil {
			return refuse(Untrusted, "the certificate that signed names nobody: %v", err)
		}
		return refuse(Untrusted, "the file was signed by %q, as %q knew, which is none of those who may: %s; find out who that is before you add it",
			signer.SubjectAlternativeName, signer.Issuer, s.names())
	}
	logged, err := s.verifier.VerifyTransparencyLogInclusion(b)
	if err != nil {
		return s.explainLog(b, leaf, err)
	}
	times, err := s.verifier.VerifyObserverTimestamps(b, logged)
	if err != nil {
		return s.explainTime(b, err)
	}
	for _, at := range times {
		chains, err := verify.VerifyLeafCertificate(at.Timestamp, leaf, s.root)
		if err != nil {
			return s.explainCertificate(leaf, at.Timestamp)
		}
		if len(s.root.CTLogs()) == 0 {
			continue
		}
		if err := verify.VerifySignedCertificateTimestamp(chains, 1, s.root); err != nil {
			return refuse(Untrusted, "no certificate log (ctlogs) of the trusted root vouches for the certificate that signed (%v); %s", err, renew)
		}
	}
	return refuse(Invalid, "the bundle does not hold: %v; the file, the signature or the certificate is another one", cause)
}

func (s Sigstore) explainLog(b *bundle.Bundle, leaf *x509.Certificate, cause error) error {
	entries, err := b.TlogEntries()
	if err != nil || len(entries) == 0 {
		return refuse(Invalid, "the bundle has no entry of a transparency log, and the trusted root names such logs (tlogs), so it must; sign with the log")
	}
	known := false
	for _, e := range entries {
		log, ok := s.root.RekorLogs()[hex.EncodeToString([]byte(e.LogKeyID()))]
		if !ok {
			continue
		}
		known = true
		if at := e.IntegratedTime(); !at.IsZero() && outside(at, leaf.NotBefore, leaf.NotAfter) {
			return untimely("the file was entered into the transparency log at %s, when the certificate that signed was not valid: it was from %s to %s",
				utc(at), utc(leaf.NotBefore), utc(leaf.NotAfter))
		} else if !at.IsZero() && outside(at, log.ValidityPeriodStart, log.ValidityPeriodEnd) {
			return untimely("the file was entered into the transparency log at %s, and the trusted root knows the key of that log from %s to %s; %s",
				utc(at), utc(log.ValidityPeriodStart), utc(log.ValidityPeriodEnd), renew)
		}
	}
	if !known {
		return refuse(Untrusted, "the bundle has an entry of the transparency log %s, which the trusted root does not know; %s", logsOf(entries), renew)
	}
	return refuse(Invalid, "the bundle's entry of the transparency log does not hold: %v", cause)
}

func logsOf(entries []*tlog.Entry) string { return hex.EncodeToString([]byte(entries[0].LogKeyID())) }

func (s Sigstore) explainTime(b *bundle.Bundle, cause error) error {
	stamps, err := b.Timestamps()
	if err != nil || len(stamps) == 0 {
		return refuse(Invalid, "nothing in the bundle says when the file was signed; sign with a timestamp authority (cosign: --timestamp-server-url)")
	}
	if len(s.root.TimestampingAuthorities()) == 0 {
		return refuse(Untrusted, "the bundle has a timestamp, and the trusted root knows no timestamp authority; %s", renew)
	}
	if content, err := b.SignatureContent(); err == nil {
		for _, a := range s.root.TimestampingAuthorities() {
			for _, stamp := range stamps {
				if at, from, to, ok := stampedOutside(a, stamp, content.Signature()); ok {
					return untimely("the timestamp is of %s, and the trusted root knows its authority from %s to %s; %s", utc(at), utc(from), utc(to), renew)
				}
			}
		}
	}
	return refuse(Invalid, "no timestamp of the bundle is one of this signature by an authority of the trusted root: %v", cause)
}

// stampedOutside reports whether the authority made the timestamp at a time for which the trusted root does not know it.
func stampedOutside(a root.TimestampingAuthority, stamp, signed []byte) (at, from, to time.Time, ok bool) {
	known, is := a.(*root.SigstoreTimestampingAuthority)
	if !is {
		return at, from, to, false
	}
	from, to = known.ValidityPeriodStart, known.ValidityPeriodEnd
	always := *known
	always.ValidityPeriodStart, always.ValidityPeriodEnd = time.Time{}, time.Time{}
	made, err := always.Verify(stamp, signed)
	if err != nil {
		return at, from, to, false
	}
	return made.Time, from, to, outside(made.Time, from, to)
}

func (s Sigstore) explainCertificate(leaf *x509.Certificate, at time.Time) error {
	if outside(at, leaf.NotBefore, leaf.NotAfter) {
		return untimely("the file was signed at %s, when the certificate that signed was not valid: it was from %s to %s",
			utc(at), utc(leaf.NotBefore), utc(leaf.NotAfter))
	}
	for _, a := range s.root.FulcioCertificateAuthorities() {
		known, ok := a.(*root.FulcioCertificateAuthority)
		if !ok {
			continue
		}
		always := *known
		always.ValidityPeriodStart, always.ValidityPeriodEnd = time.Time{}, time.Time{}
		if _, err := always.Verify(leaf, at); err == nil {
			return untimely("the file was signed at %s, and the trusted root knows the authority of the certificate from %s to %s; %s",
				utc(at), utc(known.ValidityPeriodStart), utc(known.ValidityPeriodEnd), renew)
		}
	}
	return refuse(Untrusted, "the certificate that signed is of the authority %q, which the trusted root does not know; %s", leaf.Issuer, renew)
}

// outside reports whether a time is outside of a period; a zero limit is none.
func outside(at, from, to time.Time) bool {
	return !from.IsZero() && at.Before(from) || !to.IsZero() && at.After(to)
}

func utc(t time.Time) string {
	if t.IsZero() {
		return "(no limit)"
	}
	return t.UTC().Format(time.RFC3339)
}
