package images

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

// Verification says whether an image must be signed.
type Verification string

const (
	// VerifyRequired refuses every image that nobody vouches for whom this machine trusts, also where it trusts nobody.
	VerifyRequired Verification = "Required"
	// VerifyIfKeys does the same where this machine has a key or a trusted root, and looks at no signature where it has none.
	VerifyIfKeys Verification = "IfKeys"
)

// refusal is the error of an image that is not signed as it must be.
type refusal struct{ cause *signature.Error }

func (r *refusal) Error() string { return r.cause.Message + "; nothing was written" }

// Unwrap makes the error one of a rejected image, and says why.
func (r *refusal) Unwrap() []error {
	return []error{&driver.RejectedError{Reason: r.cause.Message}, r.cause}
}

// Signed reports whether images must be signed, and who may. It reads that anew.
func (s *Store) Signed() (who signature.Trust, required bool, err error) {
	if s.config.KeysDir != "" {
		if who, err = signature.ReadTrust(s.config.KeysDir); err != nil {
			return signature.Trust{}, true, fmt.Errorf("verify images: %w", err)
		}
	}
	return who, s.config.Verification == VerifyRequired || who.Len() > 0, nil
}

// fetchSigned returns an image that a statement of the operator proves to be signed. The operator is not believed: what counts is
// that somebody whom this machine trusts signed the very bytes that the image was taken from here.
func (s *Store) fetchSigned(ctx context.Context, digest inventory.Digest, who signature.Trust) (path string, size int64, err error) {
	if who.Len() == 0 {
		return "", 0, &refusal{&signature.Error{Reason: signature.Untrusted, Message: fmt.Sprintf(
			"this node accepts only signed images (--image-verification), but has no key in %q to verify them with; mount the publisher's key there, or a "+
				"Sigstore trusted root with its identities",
			s.config.KeysDir)}}
	}
	// A statement that served before serves again where the network is down in the middle of a job.
	if known, err := s.knownStatement(digest); err == nil {
		if path, size, err = s.prove(ctx, digest, known, who); err == nil {
			return path, size, nil
		}
	}
	text, err := s.fetchStatement(ctx, digest)
	if err != nil {
		return "", 0, fmt.Errorf("fetch statement about image %s: %w", digest, err)
	}
	statement, err := artifact.ParseStatement(text)
	if err != nil {
		return "", 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if path, size, err = s.prove(ctx, digest, statement, who); err != nil {
		return "", 0, err
	}
	return path, size, s.keepStatement(digest, text)
}

// prove takes the image from the first claim that holds. A claim that could not be looked at for now is reported before one that
// does not hold.
func (s *Store) prove(ctx context.Context, digest inventory.Digest, statement artifact.Statement, who signature.Trust) (path string, size int64, err error) {
	var problem error = &refusal{&signature.Error{Reason: signature.Missing, Message: fmt.Sprintf(
		"this node accepts only signed images, but the operator has no signature for image %s; set spec.verification of its FirmwareSource "+
			"and a signatureURL for each file", digest)}}
	transient := false
	for _, c := range statement.Claims {
		path, size, err := s.proveClaim(ctx, digest, c, who)
		if err == nil {
			return path, size, nil
		}
		if refused := (*refusal)(nil); !transient {
			problem, transient = err, !errors.As(err, &refused)
		}
	}
	return "", 0, problem
}

func (s *Store) proveClaim(ctx context.Context, digest inventory.Digest, c artifact.Claim, who signature.Trust) (path string, size int64, err error) {
	file, err := inventory.ParseDigest(c.File)
	if err != nil {
		return "", 0, invalid("the operator's statement names no file: %v", err)
	}
	if c.Path == "" && file != digest {
		return "", 0, invalid("the signature offered by the operator is for %s, not for the image %s", file, digest)
	}
	path, size, err = s.image(ctx, file)
	if err != nil {
		return "", 0, err
	}
	if err := s.verifySignature(path, file, c.Signature, who); err != nil {
		if refused := (*refusal)(nil); errors.As(err, &refused) { // what nobody vouches for does not take the place of an image
			err = errors.Join(err, os.Remove(path))
		}
		return "", 0, err
	}
	if c.Path == "" {
		return path, size, nil
	}
	if err := s.extract(ctx, path, c, digest); err != nil {
		return "", 0, err
	}
	return s.held(digest)
}

// verifySignature reads the file that was fetched as want, and verifies its signature.
func (s *Store) verifySignature(path string, want inventory.Digest, sig []byte, who signature.Trust) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read signed file: %w", err)
	}
	defer file.Close()
	subject, err := signature.Read(file)
	if err != nil {
		return err
	}
	if subject.Digest() != want {
		return fmt.Errorf("read signed file %s: it changed on disk: %w", want, fs.ErrNotExist)
	}
	var refused *signature.Error
	if err := subject.Verify(who, sig, s.config.Now()); errors.As(err, &refused) {
		return &refusal{&signature.Error{Reason: refused.Reason, Message: fmt.Sprintf("verify %s with the keys and identities that this node trusts in %s: %s",
			want, s.config.KeysDir, refused.Message)}}
	} else if err != nil {
		return err
	}
	return nil
}

// extract takes the image out of an archive whose signature holds, unless the archive has another one at that path. The archive is
// parsed here, and only after its signature was verified. An image that is here already is compared and not written again, so that a
// disk that became full does not stop a job half-way. What is not the image in the end keeps no room.
func (s *Store) extract(ctx context.Context, archive string, c artifact.Claim, want inventory.Digest) error {
	if _, _, err := s.held(want); err == nil {
		return member(ctx, archive, c, want, io.Discard)
	}
	if err := s.makeRoom(want, 0, 0); err != nil {
		return s.unusable("is full; make room there", err)
	}
	part, err := s.open(s.partial(want))
	if err != nil {
		return fmt.Errorf("open partial image: %w", err)
	}
	defer part.Close()
	if err := restart(part); err != nil {
		return err
	}
	if err = member(ctx, archive, c, want, part); err == nil {
		err = part.Sync()
	}
	switch {
	case isFull(err):
		return errors.Join(s.unusable("is full; make room there", err), s.discard(want))
	case err != nil:
		return errors.Join(err, s.discard(want))
	}
	return s.commit(want)
}

// member copies the member of an archive that the claim names, and compares its digest.
func member(ctx context.Context, archive string, c artifact.Claim, want inventory.Digest, to io.Writer) error {
	sum := sha256.New()
	err := artifact.Extract(ctx, archive, c.Path, io.MultiWriter(to, sum))
	if reason, _ := artifact.ReasonOf(err); err != nil && (reason == artifact.StorageFailed || ctx.Err() != nil) {
		return fmt.Errorf("take image out of its archive: %w", err)
	}
	if err != nil {
		return invalid("take image out of the signed archive: %v", err)
	}
	if got := inventory.Digest(sum.Sum(nil)); got != want {
		return invalid("the signed archive holds the image %s at %q, and the job is for %s", got, c.Path, want)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &refusal{&signature.Error{Reason: signature.Invalid, Message: fmt.Sprintf(format, args...)}}
}

// statementSuffix ends the name of the statement that is kept beside an image. It goes with the image.
const statementSuffix = ".statement"

// knownStatement is the statement that proved an image before.
func (s *Store) knownStatement(image inventory.Digest) (artifact.Statement, error) {
	text, err := os.ReadFile(s.path(image) + statementSuffix)
	if err != nil {
		return artifact.Statement{}, fmt.Errorf("read statement: %w", err)
	}
	return artifact.ParseStatement(text)
}

// keepStatement keeps a statement that proved an image. One that is torn by a crash is fetched again.
func (s *Store) keepStatement(image inventory.Digest, text []byte) error {
	if err := os.WriteFile(s.path(image)+statementSuffix, text, 0o600); err != nil {
		return fmt.Errorf("keep statement: %w", err)
	}
	return nil
}

// fetchStatement asks the operator who signed what the image came from.
func (s *Store) fetchStatement(ctx context.Context, image inventory.Digest) ([]byte, error) {
	failed := tries{store: s}
	for {
		var text []byte
		err := s.connected(func(client *http.Client) (err error) {
			client.Timeout = s.config.StallTimeout
			text, err = s.requestStatement(ctx, client, image)
			return err
		})
		switch {
		case err == nil:
			return text, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		case errors.Is(err, errDone):
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		if err := failed.pause(ctx, err); err != nil {
			return nil, err
		}
	}
}

func (s *Store) requestStatement(ctx context.Context, client *http.Client, image inventory.Digest) ([]byte, error) {
	token, err := os.ReadFile(s.config.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read token for the image server: %w", err)
	}
	url := strings.TrimSuffix(s.config.Server, "/") + "/statements/" + image.String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: make request: %w", errDone, err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("request statement: %w", err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%w: the operator knows nothing of signatures; update it", errDone)
	case res.StatusCode != http.StatusOK:
		return nil, s.refused(res, image)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, artifact.MaxStatementBytes+1))
	if err != nil {
		return nil, fmt.Errorf("receive statement: %w", err)
	}
	return text, nil
}
