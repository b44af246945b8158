package artifact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

const (
	// MaxStatementBytes bounds a Statement as it is served.
	MaxStatementBytes = 1 << 20
	// maxClaims bounds the claims of a Statement.
	maxClaims = 16
)

// Statement lists the signed files that an image is, or is part of. It is only a hint: the reader verifies each claim with its own keys.
type Statement struct {
	// Claims are alternatives: the image is genuine if one of them holds.
	Claims []Claim `json:"claims"`
}

// Claim says that a file is signed, and that the image is that file or a member of it.
type Claim struct {
	// File is the digest of the file, under which it is served as images are.
	File string `json:"file"`
	// Path of the image within the file, which is an archive then; empty where the image is the file itself.
	Path string `json:"path,omitempty"`
	// Signature of the file, as its publisher wrote it.
	Signature []byte `json:"signature"`
	// Keys is the fingerprint of the keys or identities that a source verified it with.
	Keys string `json:"keys,omitempty"`
}

// ParseStatement reads a Statement that was served.
func ParseStatement(text []byte) (Statement, error) {
	var s Statement
	if len(text) > MaxStatementBytes {
		return s, fmt.Errorf("read statement: longer than %d bytes", MaxStatementBytes)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read statement: %w", err)
	}
	if len(s.Claims) > maxClaims {
		return s, fmt.Errorf("read statement: more than %d claims", maxClaims)
	}
	return s, nil
}

// Statement returns what is known of the signatures of an image, as it is served. It has no claims where none was verified.
func (s *Store) Statement(image inventory.Digest) (Statement, error) {
	text, err := os.ReadFile(s.statement(image))
	if errors.Is(err, fs.ErrNotExist) {
		return Statement{}, nil
	}
	if err != nil {
		return Statement{}, fmt.Errorf("read statement: %w", err)
	}
	return ParseStatement(text)
}

// state adds a claim to the statements of the images of a record. They stay as long as the image does, also when its source
// is edited, because an unfinished job may need them.
func (s *Store) state(r fileRecord) error {
	for _, i := range r.Images {
		image, err := inventory.ParseDigest(i.Digest)
		if err != nil {
			return err
		}
		known, err := s.Statement(image)
		if err != nil {
			known = Statement{} // damaged
		}
		claims, err := s.place(known.Claims, r.claim(i))
		if err != nil {
			return err
		}
		if claims == nil {
			s.fetcher.config.Log.Warn("An image has as many signed files as are kept, so nodes are not told of one more", "image", i.Digest, "url", r.URL)
			continue
		}
		if err := s.writeStatement(image, Statement{Claims: claims}); err != nil {
			return err
		}
	}
	return nil
}

// claim is what a record says about one of its images.
func (r fileRecord) claim(i imageRecord) Claim {
	return Claim{File: r.Digest, Path: i.Path, Signature: r.Signature, Keys: r.Keys}
}

// same reports whether two claims say the same, in the name of the same signers.
func (c Claim) same(o Claim) bool { return c.File == o.File && c.Path == o.Path && c.Keys == o.Keys }

// place adds a claim. It takes the place of the one that says the same, or where there is no room of the oldest by the same signers, or of the
// oldest that no source makes any more. None of others goes: who may write a source could otherwise take an image from the nodes that trust
// somebody else. It returns nil where there is no place.
func (s *Store) place(claims []Claim, c Claim) ([]Claim, error) {
	at := slices.IndexFunc(claims, c.same)
	if at < 0 && len(claims) >= maxClaims {
		if at = slices.IndexFunc(claims, func(o Claim) bool { return o.Keys == c.Keys }); at < 0 {
			type signed struct{ file, keys string }
			present := map[signed]bool{}
			if err := s.records(func(r fileRecord) { present[signed{r.Digest, r.Keys}] = true }); err != nil {
				return nil, err
			}
			if at = slices.IndexFunc(claims, func(o Claim) bool { return !present[signed{o.File, o.Keys}] }); at < 0 {
				return nil, nil
			}
		}
	}
	if at >= 0 {
		claims = slices.Delete(claims, at, at+1)
	}
	return append(claims, c), nil
}

// restate adds the claims of a record that was verified where a statement lacks them: without one, nodes refuse the image for as long as
// its file is in store and is not downloaded again.
func (s *Store) restate(r fileRecord) error {
	if len(r.Signature) == 0 {
		return nil
	}
	for _, i := range r.Images {
		image, err := inventory.ParseDigest(i.Digest)
		if err != nil {
			return err
		}
		known, err := s.Statement(image)
		if err != nil || !slices.ContainsFunc(known.Claims, r.claim(i).same) {
			return s.state(r)
		}
	}
	return nil
}

func (s *Store) writeStatement(image inventory.Digest, st Statement) error {
	text, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("write statement: %w", err)
	}
	tmp, err := s.temp()
	if err != nil {
		return err
	}
	defer discard(tmp)
	if _, err := tmp.Write(text); err != nil {
		return transient(StorageFailed, "write statement: %w", err)
	}
	if err := errors.Join(tmp.Chmod(0o444), tmp.Sync()); err != nil {
		return transient(StorageFailed, "write statement: %w", err)
	}
	s.changes()
	if err := os.Rename(tmp.Name(), s.statement(image)); err != nil {
		return transient(StorageFailed, "write statement: %w", err)
	}
	s.changes()
	return syncDir(filepath.Join(s.root, statementsDir))
}

func (s *Store) statement(image inventory.Digest) string {
	return filepath.Join(s.root, statementsDir, filepath.Base(s.blob(image))+".json")
}

// signedFiles are the paths of the archives that the statement of an image names.
func (s *Store) signedFiles(image inventory.Digest) []string {
	known, err := s.Statement(image)
	if err != nil {
		return nil
	}
	var out []string
	for _, c := range known.Claims {
		if file, err := inventory.ParseDigest(c.File); err == nil && file != image {
			out = append(out, s.blob(file))
		}
	}
	return out
}

// FetchSignature fetches the signature at rawURL, with the limits of a file except for its size. If there is none, the error is an *Error
// with reason SignatureMissing; if it is too large, the reason is SignatureInvalid.
func (f *Fetcher) FetchSignature(ctx context.Context, rawURL string) ([]byte, error) {
	if rawURL == "" {
		return nil, permanent(SignatureMissing, "the file has no signatureURL, and the source takes signed files only")
	}
	var text bytes.Buffer
	err := f.receive(ctx, rawURL, signature.MaxBytes, &text)
	var failed *Error
	switch {
	case errors.As(err, &failed) && failed.absent:
		return nil, permanent(SignatureMissing, "fetch signature: %w", failed.Err)
	case errors.As(err, &failed) && failed.large:
		return nil, permanent(SignatureInvalid, "fetch signature: %w", failed.Err)
	case err != nil:
		return nil, err
	}
	return text.Bytes(), nil
}

// checkSignature fetches the signature of a file that was downloaded to the path, verifies it and returns it.
func (s *Store) checkSignature(ctx context.Context, fetcher *Fetcher, f File, path string, now time.Time) ([]byte, error) {
	text, err := fetcher.FetchSignature(ctx, f.Signature.URL)
	if err != nil {
		return nil, err
	}
	return text, verifyFile(f, path, text, now, "nothing of it was stored. Correct the signature, the key or the file, and find out why it was wrong")
}

// verifyFile verifies the signature of a file at a path. The advice is for people, and part of a refusal.
func verifyFile(f File, path string, sig []byte, now time.Time, advice string) error {
	file, err := os.Open(path)
	if err != nil {
		return transient(StorageFailed, "read image store: %w", err)
	}
	defer file.Close()
	subject, err := signature.Read(file)
	if err != nil {
		return transient(StorageFailed, "read image store: %w", err)
	}
	var refused *signature.Error
	if err := subject.Verify(f.Signature.Trust, sig, now); errors.As(err, &refused) {
		return &Error{Reason: Reason(refused.Reason), Err: fmt.Errorf("%s: %w; %s", redacted(f.URL), err, advice)}
	} else if err != nil {
		return err
	}
	return nil
}
