package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

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
	file, err := os.Open(path)
	if err != nil {
		return nil, transient(StorageFailed, "read image store: %w", err)
	}
	defer file.Close()
	subject, err := signature.Read(file)
	if err != nil {
		return nil, transient(StorageFailed, "read image store: %w", err)
	}
	var refused *signature.Error
	switch err := subject.Verify(f.Signature.Trust, text, now); {
	case errors.As(err, &refused):
		return nil, &Error{Reason: Reason(refused.Reason), Err: fmt.Errorf("%s: %w; nothing of it was stored. Correct the signature, the key "+
			"or the file, and find out why it was wrong, then edit the source: it is not tried again before that", redacted(f.URL), err)}
	case err != nil:
		return nil, err
	}
	return text, nil
}
