package signaturetest

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	prototiles "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	"github.com/sigstore/rekor-tiles/v2/pkg/types/hashedrekord"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstoresignature "github.com/sigstore/sigstore/pkg/signature"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"google.golang.org/protobuf/encoding/protojson"
)

// tilesOrigin is the name of the second log, which a checkpoint begins with.
const tilesOrigin = "tiles.localhost"

// tiles is the second log, as a trusted root names it.
func (s *Sigstore) tiles(t testing.TB) *root.TransparencyLog {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.tilesKey.Public())
	require.NoError(t, err)
	id := sha256.Sum256(der)
	return &root.TransparencyLog{
		BaseURL: "https://" + tilesOrigin, ID: id[:], PublicKey: s.tilesKey.Public(), HashFunc: crypto.SHA256, SignatureHashFunc: crypto.SHA256,
		ValidityPeriodStart: time.Now().Add(-time.Hour),
	}
}

// TilesBundle is the same as Bundle with an entry in a log of tiles (Rekor 2): it has a proof and a checkpoint, and says nothing of
// the time, so that the timestamp of the authority counts.
func (s *Sigstore) TilesBundle(t testing.TB, subject, issuer string, content []byte) *protobundle.Bundle {
	t.Helper()
	b := s.Bundle(t, subject, issuer, content, time.Now().Add(time.Minute))
	digest := b.GetMessageSignature().GetMessageDigest()
	signature := &prototiles.Signature{Content: b.GetMessageSignature().GetSignature(), Verifier: &prototiles.Verifier{
		KeyDetails: protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
		Verifier:   &prototiles.Verifier_X509Certificate{X509Certificate: b.GetVerificationMaterial().GetCertificate()},
	}}
	body, err := protojson.Marshal(&prototiles.Entry{Kind: "hashedrekord", ApiVersion: "0.0.2", Spec: &prototiles.Spec{
		Spec: &prototiles.Spec_HashedRekordV002{HashedRekordV002: &prototiles.HashedRekordLogEntryV002{Data: digest, Signature: signature}},
	}})
	require.NoError(t, err)
	leaf, err := hashedrekord.ToEntryHash(digest.GetDigest(), signature)
	require.NoError(t, err)
	b.VerificationMaterial.TlogEntries = []*protorekor.TransparencyLogEntry{{
		LogId: &protocommon.LogId{KeyId: s.tiles(t).ID}, KindVersion: &protorekor.KindVersion{Kind: "hashedrekord", Version: "0.0.2"},
		CanonicalizedBody: body,
		InclusionProof:    &protorekor.InclusionProof{TreeSize: 1, RootHash: leaf, Checkpoint: &protorekor.Checkpoint{Envelope: s.checkpoint(t, leaf)}},
	}}
	return b
}

// checkpoint signs that the log has one entry, whose hash is that of the root.
func (s *Sigstore) checkpoint(t testing.TB, root []byte) string {
	t.Helper()
	key, err := sigstoresignature.LoadECDSASignerVerifier(s.tilesKey, crypto.SHA256)
	require.NoError(t, err)
	signer, err := rekornote.NewNoteSigner(t.Context(), tilesOrigin, key)
	require.NoError(t, err)
	out, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n1\n%s\n", tilesOrigin, base64.StdEncoding.EncodeToString(root))}, signer)
	require.NoError(t, err)
	return string(out)
}
