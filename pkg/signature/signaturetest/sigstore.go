package signaturetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	prototrustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// MediaType is that of the bundles of Sign.
const MediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// Sigstore is a Sigstore of its own: a certificate authority, two transparency logs and a timestamp authority, whose keys are in memory.
// What it issues is valid for some minutes from its making on, and no verifier asks a clock.
type Sigstore struct {
	virtual  *ca.VirtualSigstore
	tilesKey *ecdsa.PrivateKey
}

// New makes a Sigstore.
func New(t testing.TB) *Sigstore {
	t.Helper()
	virtual, err := ca.NewVirtualSigstore()
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return &Sigstore{virtual: virtual, tilesKey: key}
}

// Root is its trusted_root.json, after the changes. It knows no certificate log.
func (s *Sigstore) Root(t testing.TB, changes ...func(*prototrustroot.TrustedRoot)) []byte {
	t.Helper()
	logs := withRawIDs(t, s.virtual.RekorLogs())
	logs["tiles"] = s.tiles(t)
	r, err := root.NewTrustedRoot(root.TrustedRootMediaType01, s.virtual.FulcioCertificateAuthorities(), nil, s.virtual.TimestampingAuthorities(), logs)
	require.NoError(t, err)
	text, err := r.MarshalJSON()
	require.NoError(t, err)
	var out prototrustroot.TrustedRoot
	require.NoError(t, protojson.Unmarshal(text, &out))
	for _, change := range changes {
		change(&out)
	}
	text, err = protojson.Marshal(&out)
	require.NoError(t, err)
	return text
}

// withRawIDs are the logs as a trusted root names them: the virtual ones have the text of their ids for an id.
func withRawIDs(t testing.TB, logs map[string]*root.TransparencyLog) map[string]*root.TransparencyLog {
	t.Helper()
	for id, log := range logs {
		raw, err := hex.DecodeString(id)
		require.NoError(t, err)
		log.ID = raw
	}
	return logs
}

// Sign is the bundle of a file as "cosign sign-blob --bundle" writes it, signed by the subject as the issuer knows it.
func (s *Sigstore) Sign(t testing.TB, subject, issuer string, content []byte) []byte {
	t.Helper()
	return JSON(t, s.Bundle(t, subject, issuer, content, time.Now().Add(time.Minute)))
}

// Bundle is the same before it is written, with the time at which it was entered into the log.
func (s *Sigstore) Bundle(t testing.TB, subject, issuer string, content []byte, entered time.Time) *protobundle.Bundle {
	t.Helper()
	signed, err := s.virtual.SignAtTime(subject, issuer, content, entered)
	require.NoError(t, err)
	verification, err := signed.VerificationContent()
	require.NoError(t, err)
	sig, err := signed.SignatureContent()
	require.NoError(t, err)
	stamps, err := signed.Timestamps()
	require.NoError(t, err)
	material := &protobundle.VerificationMaterial{
		Content: &protobundle.VerificationMaterial_Certificate{
			Certificate: &protocommon.X509Certificate{RawBytes: verification.Certificate().Raw},
		},
		TlogEntries:               []*protorekor.TransparencyLogEntry{s.entry(t, signed)},
		TimestampVerificationData: &protobundle.TimestampVerificationData{},
	}
	for _, stamp := range stamps {
		material.TimestampVerificationData.Rfc3161Timestamps = append(material.TimestampVerificationData.Rfc3161Timestamps,
			&protocommon.RFC3161SignedTimestamp{SignedTimestamp: stamp})
	}
	return &protobundle.Bundle{MediaType: MediaType, VerificationMaterial: material, Content: Message(sig.MessageSignatureContent().Digest(), sig.Signature())}
}

// entry is that of the log with its promise, to which the proof of its inclusion is added.
func (s *Sigstore) entry(t testing.TB, signed *ca.TestEntity) *protorekor.TransparencyLogEntry {
	t.Helper()
	entries, err := signed.TlogEntries()
	require.NoError(t, err)
	require.Len(t, entries, 1)
	out, ok := proto.Clone(entries[0].TransparencyLogEntry()).(*protorekor.TransparencyLogEntry)
	require.True(t, ok)
	out.KindVersion = &protorekor.KindVersion{Kind: "hashedrekord", Version: "0.0.1"}
	promise, err := s.virtual.RekorSignPayload(tlog.RekorPayload{
		Body: entries[0].Body(), IntegratedTime: out.GetIntegratedTime(), LogIndex: out.GetLogIndex(), LogID: hex.EncodeToString(out.GetLogId().GetKeyId()),
	})
	require.NoError(t, err)
	out.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: promise}
	p, err := s.virtual.GetInclusionProof(out.GetCanonicalizedBody())
	require.NoError(t, err)
	rootHash, err := hex.DecodeString(*p.RootHash)
	require.NoError(t, err)
	out.InclusionProof = &protorekor.InclusionProof{
		LogIndex: *p.LogIndex, RootHash: rootHash, TreeSize: *p.TreeSize, Checkpoint: &protorekor.Checkpoint{Envelope: *p.Checkpoint},
	}
	return out
}

// Message is the content of a bundle that signs a file with that sha256.
func Message(sha256, signature []byte) *protobundle.Bundle_MessageSignature {
	return &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{
		MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sha256}, Signature: signature,
	}}
}

// JSON writes a bundle.
func JSON(t testing.TB, b *protobundle.Bundle) []byte {
	t.Helper()
	text, err := protojson.Marshal(b)
	require.NoError(t, err)
	return text
}
