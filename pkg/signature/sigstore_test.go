package signature_test

import (
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/sigstore-go/pkg/testing/data"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature/signaturetest"
)

const (
	issuer  = "https://accounts.example.com"
	subject = "release@example.com"
)

func identity(issuer, subject string) signature.Identity {
	return signature.Identity{Issuer: issuer, Subject: subject}
}

func matching(subject string) signature.Identity {
	return signature.Identity{Issuer: issuer, SubjectRegExp: subject}
}

func trusted(t *testing.T, root []byte, identities ...signature.Identity) signature.Trust {
	t.Helper()
	if len(identities) == 0 {
		identities = []signature.Identity{identity(issuer, subject)}
	}
	s, err := signature.NewSigstore(root, identities)
	require.NoError(t, err)
	return signature.Trust{Sigstore: []signature.Sigstore{s}}
}

func withKeys(t signature.Trust, keys []signature.Key) signature.Trust {
	t.Keys = keys
	return t
}

func requireReason(t *testing.T, want signature.Reason, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	var failed *signature.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, want, failed.Reason, failed.Message)
}

// changed is a bundle after a change.
func changed(t *testing.T, b *protobundle.Bundle, change func(*protobundle.Bundle)) []byte {
	t.Helper()
	change(b)
	return signaturetest.JSON(t, b)
}

func withoutLog(b *protobundle.Bundle)    { b.VerificationMaterial.TlogEntries = nil }
func withoutStamps(b *protobundle.Bundle) { b.VerificationMaterial.TimestampVerificationData = nil }

func withoutLogs(r *prototrustroot.TrustedRoot) { r.Tlogs = nil }

// until ends the periods of what a trusted root names.
func until(end time.Time, which func(*prototrustroot.TrustedRoot) []*protocommon.TimeRange) func(*prototrustroot.TrustedRoot) {
	return func(r *prototrustroot.TrustedRoot) {
		for _, period := range which(r) {
			period.End = timestamppb.New(end)
		}
	}
}

func authorities(r *prototrustroot.TrustedRoot) (out []*protocommon.TimeRange) {
	for _, a := range r.CertificateAuthorities {
		out = append(out, a.ValidFor)
	}
	return out
}

func logs(r *prototrustroot.TrustedRoot) (out []*protocommon.TimeRange) {
	for _, l := range r.Tlogs {
		out = append(out, l.PublicKey.ValidFor)
	}
	return out
}

func stampers(r *prototrustroot.TrustedRoot) (out []*protocommon.TimeRange) {
	for _, a := range r.TimestampAuthorities {
		out = append(out, a.ValidFor)
	}
	return out
}

func TestOnlyABundleOfThisFileByATrustedIdentityHolds(t *testing.T) {
	sigstore, other := signaturetest.New(t), signaturetest.New(t)
	root := sigstore.Root(t)
	soon := time.Now().Add(time.Minute)
	longAgo := time.Now().Add(-3 * time.Hour)
	good := func() *protobundle.Bundle { return sigstore.Bundle(t, subject, issuer, []byte(file), soon) }
	tiled := func() *protobundle.Bundle { return sigstore.TilesBundle(t, subject, issuer, []byte(file)) }
	genuine := signaturetest.JSON(t, good())
	ec, ecText := newECDSA(t, elliptic.P256())
	ecKeys := mustParse(t, ecText)
	_, miniKeys := newMinisign(t)
	sum := sha256.Sum256([]byte(file))
	byKey := func(content string) []byte {
		return signaturetest.JSON(t, &protobundle.Bundle{
			MediaType: signaturetest.MediaType, Content: signaturetest.Message(sum[:], signECDSA(t, ec, content)),
			VerificationMaterial: &protobundle.VerificationMaterial{
				Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "vendor"}},
			},
		})
	}
	both := trusted(t, other.Root(t))
	both.Sigstore = append(both.Sigstore, trusted(t, root).Sigstore...)

	for name, c := range map[string]struct {
		trust signature.Trust
		sig   []byte
		want  signature.Reason
		says  string
	}{
		"by the identity":                       {trust: trusted(t, root), sig: genuine},
		"with blanks around it":                 {trust: trusted(t, root), sig: []byte("\n" + string(genuine) + "\n")},
		"by one of several identities":          {trust: trusted(t, root, identity(issuer, "x@example.com"), identity(issuer, subject)), sig: genuine},
		"by an identity of a pattern":           {trust: trusted(t, root, matching(`.*@example\.com`)), sig: genuine},
		"under the second root":                 {trust: both, sig: genuine},
		"where keys are trusted too":            {trust: withKeys(trusted(t, root), miniKeys), sig: genuine},
		"with a timestamp and no log":           {trust: trusted(t, sigstore.Root(t, withoutLogs)), sig: changed(t, good(), withoutLog)},
		"with a log and no timestamp":           {trust: trusted(t, root), sig: changed(t, good(), withoutStamps)},
		"in a log of tiles with a timestamp":    {trust: trusted(t, root), sig: signaturetest.JSON(t, tiled())},
		"in a log of tiles without a timestamp": {trust: trusted(t, root), want: signature.Invalid, says: "says when", sig: changed(t, tiled(), withoutStamps)},
		"of another signature in a log of tiles": {trust: trusted(t, root), want: signature.Invalid, says: "transparency log",
			sig: changed(t, tiled(), func(b *protobundle.Bundle) {
				b.VerificationMaterial.TlogEntries = tiled().VerificationMaterial.TlogEntries
			})},
		"with a timestamp where no authority is known": {want: signature.Untrusted, says: "knows no timestamp authority",
			trust: trusted(t, sigstore.Root(t, func(r *prototrustroot.TrustedRoot) { r.TimestampAuthorities = nil })), sig: signaturetest.JSON(t, tiled())},
		"by a key, in a bundle":                 {trust: byKeys(ecKeys), sig: byKey(file)},
		"by a key where identities are trusted": {trust: trusted(t, root), sig: byKey(file), want: signature.Untrusted, says: "verification.keys"},
		"by a key, of another file":             {trust: byKeys(ecKeys), sig: byKey("OTHER"), want: signature.Invalid},
		"by a key of another kind":              {trust: byKeys(miniKeys), sig: byKey(file), want: signature.Untrusted},
		"by an identity where keys are trusted": {trust: byKeys(ecKeys), sig: genuine, want: signature.Untrusted, says: "verification.trustedRoot"},
		"of another file": {trust: trusted(t, root), want: signature.Invalid, says: "and not this one",
			sig: sigstore.Sign(t, subject, issuer, []byte("OTHER"))},
		"of another file with this one's sha256": {trust: trusted(t, sigstore.Root(t, withoutLogs)), want: signature.Invalid,
			sig: changed(t, sigstore.Bundle(t, subject, issuer, []byte("OTHER"), soon), func(b *protobundle.Bundle) {
				withoutLog(b)
				b.Content.(*protobundle.Bundle_MessageSignature).MessageSignature.MessageDigest.Digest = sum[:]
			})},
		"of another file in the log": {trust: trusted(t, root), want: signature.Invalid, says: "transparency log",
			sig: changed(t, good(), func(b *protobundle.Bundle) {
				b.VerificationMaterial.TlogEntries = sigstore.Bundle(t, subject, issuer, []byte("OTHER"), soon).VerificationMaterial.TlogEntries
			})},
		"by another subject": {trust: trusted(t, root), want: signature.Untrusted, says: "intern@example.com",
			sig: sigstore.Sign(t, "intern@example.com", issuer, []byte(file))},
		"by another issuer": {trust: trusted(t, root), want: signature.Untrusted, says: "https://evil.example.com",
			sig: sigstore.Sign(t, subject, "https://evil.example.com", []byte(file))},
		"by a subject that only begins like the pattern": {trust: trusted(t, root, matching(`release@example\.com`)), want: signature.Untrusted,
			sig: sigstore.Sign(t, subject+".evil.org", issuer, []byte(file))},
		"by a subject that only ends like a part of the pattern": {trust: trusted(t, root, matching(`a|release@example\.com`)), want: signature.Untrusted,
			sig: sigstore.Sign(t, "evil-"+subject, issuer, []byte(file))},
		"by an authority that is not known": {trust: trusted(t, root), want: signature.Untrusted, says: "the transparency log",
			sig: other.Sign(t, subject, issuer, []byte(file))},
		"by an authority that is not known, in a known log": {want: signature.Untrusted, says: "the authority",
			trust: trusted(t, sigstore.Root(t, func(r *prototrustroot.TrustedRoot) {
				r.CertificateAuthorities = parse(t, other.Root(t)).CertificateAuthorities
			})), sig: genuine},
		"without an entry of a log": {trust: trusted(t, root), want: signature.Invalid, says: "no entry of a transparency log",
			sig: changed(t, good(), withoutLog)},
		"without log and time": {trust: trusted(t, sigstore.Root(t, withoutLogs)), want: signature.Invalid, says: "says when",
			sig: changed(t, good(), func(b *protobundle.Bundle) { withoutLog(b); withoutStamps(b) })},
		"with a timestamp of another signature": {trust: trusted(t, sigstore.Root(t, withoutLogs)), want: signature.Invalid, says: "no timestamp",
			sig: changed(t, good(), func(b *protobundle.Bundle) {
				withoutLog(b)
				b.VerificationMaterial.TimestampVerificationData = good().VerificationMaterial.TimestampVerificationData
			})},
		"entered after its certificate expired": {trust: trusted(t, root), want: signature.Untrusted, says: "was not valid",
			sig: signaturetest.JSON(t, sigstore.Bundle(t, subject, issuer, []byte(file), time.Now().Add(30*time.Minute)))},
		"under a root that knew the authority before": {trust: trusted(t, sigstore.Root(t, until(longAgo, authorities))), want: signature.Untrusted,
			says: "trusted root as it is today", sig: genuine},
		"under a root that knew the log before": {trust: trusted(t, sigstore.Root(t, until(longAgo, logs))), want: signature.Untrusted,
			says: "trusted root as it is today", sig: genuine},
		"under a root that knew the timestamp authority before": {want: signature.Untrusted, says: "trusted root as it is today",
			trust: trusted(t, sigstore.Root(t, withoutLogs, until(longAgo, stampers))), sig: changed(t, good(), withoutLog)},
		"by a certificate that was not logged": {want: signature.Untrusted, says: "ctlogs",
			trust: trusted(t, sigstore.Root(t, func(r *prototrustroot.TrustedRoot) { r.Ctlogs = r.Tlogs })), sig: genuine},
		"an attestation": {trust: trusted(t, root), want: signature.Invalid, says: "attestation",
			sig: changed(t, good(), func(b *protobundle.Bundle) {
				b.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{Payload: []byte("{}"), PayloadType: "application/vnd.in-toto+json",
					Signatures: []*protodsse.Signature{{Sig: []byte("x")}}}}
			})},
		"of a sha512": {trust: trusted(t, root), want: signature.Invalid, says: "SHA2_512",
			sig: changed(t, good(), func(b *protobundle.Bundle) {
				b.Content.(*protobundle.Bundle_MessageSignature).MessageSignature.MessageDigest.Algorithm = protocommon.HashAlgorithm_SHA2_512
			})},
		"of old cosign": {trust: trusted(t, root), want: signature.Invalid, says: "--new-bundle-format",
			sig: []byte(`{"base64Signature":"` + base64.StdEncoding.EncodeToString(signECDSA(t, ec, file)) + `","cert":"","rekorBundle":{}}`)},
		"of a version to come": {trust: trusted(t, root), want: signature.Invalid,
			sig: changed(t, good(), func(b *protobundle.Bundle) { b.MediaType = "application/vnd.dev.sigstore.bundle.v0.4+json" })},
		"cut":             {trust: trusted(t, root), want: signature.Invalid, says: "damaged", sig: genuine[:len(genuine)/2]},
		"empty":           {trust: trusted(t, root), want: signature.Missing},
		"nothing in it":   {trust: trusted(t, root), want: signature.Invalid, sig: []byte("{}")},
		"too long":        {trust: trusted(t, root), want: signature.Invalid, sig: []byte("{" + strings.Repeat(" ", signature.MaxBytes) + "}")},
		"an error page":   {trust: trusted(t, root), want: signature.Invalid, sig: []byte("<html>404</html>")},
		"a bare ECDSA":    {trust: trusted(t, root), want: signature.Invalid, says: "cosign sign-blob", sig: signECDSA(t, ec, file)},
		"nobody is known": {want: signature.Untrusted, sig: genuine},
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(genuine), signature.MaxBytes/2, "a bundle has room")
			err := read(t, file).Verify(c.trust, c.sig, now)
			requireReason(t, c.want, err)
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
			}
		})
	}
}

// The bundle and the root are of a Sigstore in a cluster and of cosign, and come with the library.
func TestTakesCosignBundle(t *testing.T) {
	b, err := data.Bundle(t, "othername.sigstore.json").MarshalJSON()
	require.NoError(t, err)
	root, err := data.TrustedRoot(t, "scaffolding.json").MarshalJSON()
	require.NoError(t, err)
	who := identity("http://oidc.local:8080", "foo!oidc.local")
	require.NoError(t, read(t, "blob\n").Verify(trusted(t, root, who), b, now), "with a certificate that was logged")
	requireReason(t, signature.Invalid, read(t, "blob").Verify(trusted(t, root, who), b, now))
	requireReason(t, signature.Untrusted, read(t, "blob\n").Verify(trusted(t, root, identity("http://oidc.local:8080", "foo@oidc.local")), b, now))

	attestation, err := data.Bundle(t, "sigstore.js@2.0.0-provenance.sigstore.json").MarshalJSON()
	require.NoError(t, err)
	public, err := data.TrustedRoot(t, "public-good.json").MarshalJSON()
	require.NoError(t, err)
	requireReason(t, signature.Invalid, read(t, file).Verify(trusted(t, public), attestation, now))
}

func TestRefusesBadRootOrIdentity(t *testing.T) {
	sigstore := signaturetest.New(t)
	one := []signature.Identity{identity(issuer, subject)}
	without := func(change func(*prototrustroot.TrustedRoot)) []byte { return sigstore.Root(t, change) }
	for name, c := range map[string]struct {
		root       []byte
		identities []signature.Identity
		want       string
	}{
		"no root":            {identities: one, want: "trusted root"},
		"no JSON":            {root: []byte("root"), identities: one, want: "trusted root"},
		"another document":   {root: []byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"}`), identities: one, want: "media type"},
		"too long":           {root: []byte("{" + strings.Repeat(" ", signature.MaxRootBytes) + "}"), identities: one, want: "longer than"},
		"no authorities":     {root: without(func(r *prototrustroot.TrustedRoot) { r.CertificateAuthorities = nil }), identities: one, want: "certificateAuthorities"},
		"no time":            {root: without(func(r *prototrustroot.TrustedRoot) { r.Tlogs, r.TimestampAuthorities = nil, nil }), identities: one, want: "timestampAuthorities"},
		"nobody":             {root: sigstore.Root(t), want: "nobody"},
		"no issuer":          {root: sigstore.Root(t), identities: []signature.Identity{identity("", subject)}, want: "identities[0] has no issuer"},
		"no subject":         {root: sigstore.Root(t), identities: []signature.Identity{identity(issuer, "")}, want: "either subject or subjectRegExp"},
		"two subjects":       {root: sigstore.Root(t), identities: []signature.Identity{{Issuer: issuer, Subject: "a", SubjectRegExp: "b"}}, want: "either"},
		"no expression":      {root: sigstore.Root(t), identities: []signature.Identity{matching("(")}, want: "subjectRegExp"},
		"out of the anchors": {root: sigstore.Root(t), identities: []signature.Identity{matching("a)|(b")}, want: "subjectRegExp"},
		"too many":           {root: sigstore.Root(t), identities: make([]signature.Identity, signature.MaxIdentities+1), want: "more than"},
		"too long a text":    {root: sigstore.Root(t), identities: []signature.Identity{identity(issuer, strings.Repeat("x", 513))}, want: "512"},
	} {
		_, err := signature.NewSigstore(c.root, c.identities)
		require.Error(t, err, name)
		assert.ErrorContains(t, err, c.want, name)
	}
}

func TestFingerprintsTellRootsAndIdentitiesApart(t *testing.T) {
	a, b := signaturetest.New(t), signaturetest.New(t)
	rootOfA := a.Root(t)
	seen := map[string]string{}
	for name, trust := range map[string]signature.Trust{
		"none":             {},
		"a":                trusted(t, rootOfA),
		"b":                trusted(t, b.Root(t)),
		"another subject":  trusted(t, rootOfA, identity(issuer, "x")),
		"a pattern":        trusted(t, rootOfA, matching("x")),
		"another issuer":   trusted(t, rootOfA, identity("https://x", subject)),
		"two of one issue": trusted(t, rootOfA, identity(issuer, subject), identity(issuer, "x")),
	} {
		assert.Empty(t, seen[trust.Fingerprint()], name)
		seen[trust.Fingerprint()] = name
	}
	assert.Equal(t, "a", seen[trusted(t, rootOfA).Fingerprint()], "it is the same in another process")
}

func FuzzBundle(f *testing.F) {
	sigstore := signaturetest.New(f)
	root := sigstore.Root(f)
	genuine := sigstore.Sign(f, subject, issuer, []byte(file))
	s, err := signature.NewSigstore(root, []signature.Identity{identity(issuer, subject)})
	require.NoError(f, err)
	trust := signature.Trust{Sigstore: []signature.Sigstore{s}}
	f.Add(genuine)
	f.Add([]byte("{}"))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","messageSignature":{},"verificationMaterial":{"certificate":{}}}`))
	f.Add([]byte(strings.ReplaceAll(string(genuine), "inclusionProof", "inclusionPromise")))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := signature.Read(strings.NewReader("OTHER"))
		require.NoError(t, err)
		require.ErrorAs(t, file.Verify(trust, text, now), new(*signature.Error), "no bundle is one of this file")
	})
}

func FuzzTrustedRoot(f *testing.F) {
	f.Add(signaturetest.New(f).Root(f))
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1","tlogs":[{}],"certificateAuthorities":[{}]}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		_, _ = signature.NewSigstore(text, []signature.Identity{identity(issuer, subject)})
	})
}

func parse(t *testing.T, root []byte) *prototrustroot.TrustedRoot {
	t.Helper()
	var out prototrustroot.TrustedRoot
	require.NoError(t, protojson.Unmarshal(root, &out))
	return &out
}

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

func BenchmarkBundle(b *testing.B) {
	sigstore := signaturetest.New(b)
	root, bundle := sigstore.Root(b), sigstore.Sign(b, subject, issuer, []byte(file))
	b.ReportAllocs()
	for b.Loop() {
		s, err := signature.NewSigstore(root, []signature.Identity{identity(issuer, subject)})
		require.NoError(b, err)
		subject, err := signature.Read(strings.NewReader(file))
		require.NoError(b, err)
		require.NoError(b, subject.Verify(signature.Trust{Sigstore: []signature.Sigstore{s}}, bundle, now))
	}
}
