package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/imageinfo"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

type metadata struct {
	Files []fileRecord `json:"files"`
}

type fileRecord struct {
	URL    string        `json:"url"`
	Digest string        `json:"digest"`
	Images []imageRecord `json:"images"`
	// Signature of the file, and the fingerprint of the keys or identities it was verified with; empty for a file that need not be signed.
	Signature []byte `json:"signature,omitempty"`
	Keys      string `json:"keys,omitempty"`
}

type imageRecord struct {
	Path   string `json:"path,omitempty"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	// Kind is what the image is by its beginning, and Says what it says of itself; empty where that is nothing.
	Kind imageinfo.Kind       `json:"kind,omitempty"`
	Says []imageinfo.Firmware `json:"says,omitempty"`
}

// recorded finds the record of a file whose images are all in store and undamaged. One that does not fit its description, or of which it
// is not known for what it is, was stored for another spec, or by an operator that did not ask. It is fetched again, which says what is wrong.
func (s *Store) recorded(known metadata, f File) (fileRecord, bool) {
	for _, r := range known.Files {
		if r.URL != f.URL {
			continue
		}
		if digest := r.Digest; digest != f.Digest.String() && (!OCI(f.URL) || f.Digest != (inventory.Digest{})) { // an OCI reference has its own
			continue
		}
		if f.Signature != nil && !s.isSigned(r, f) {
			return fileRecord{}, false
		}
		for _, want := range f.Images {
			i := slices.IndexFunc(r.Images, func(got imageRecord) bool { return got.Path == want.Path })
			if i < 0 {
				return fileRecord{}, false
			}
			digest, err := inventory.ParseDigest(r.Images[i].Digest)
			if err != nil || fits(r.Images[i].Kind, r.Images[i].Says, want, want.Path) != nil || !want.isOf(digest) || s.check(digest) != nil {
				return fileRecord{}, false
			}
		}
		return r, true
	}
	return fileRecord{}, false
}

// isSigned reports whether the file was verified with these very keys, which count now, and whether what a node needs to do the same is in
// store.
func (s *Store) isSigned(r fileRecord, f File) bool {
	if len(r.Signature) == 0 || r.Keys != f.Signature.Trust.Fingerprint() || s.lapsed(r, f) != nil {
		return false
	}
	digest, err := inventory.ParseDigest(r.Digest)
	return err == nil && (f.isImage() || s.check(digest) == nil)
}

// lapsed says why a signature that held when the file was fetched does not hold now.
func (s *Store) lapsed(r fileRecord, f File) error {
	digest, err := inventory.ParseDigest(r.Digest)
	if err != nil {
		return err
	}
	return signature.Lapsed(f.Signature.Trust, digest, r.Signature, s.now())
}

// expired finds the record of a file that was verified with these keys, if its signature does not hold any more.
func (s *Store) expired(known metadata, f File) (fileRecord, bool) {
	for _, r := range known.Files {
		if r.URL == f.URL && f.Signature != nil && len(r.Signature) > 0 && r.Keys == f.Signature.Trust.Fingerprint() {
			return r, s.lapsed(r, f) != nil
		}
	}
	return fileRecord{}, false
}

// checkLapsed refuses a file in store whose signature expired, unless another signature is there by now that holds for what is in store: the
// file is not fetched again only to be refused.
func (s *Store) checkLapsed(ctx context.Context, fetcher *Fetcher, source string, f File) error {
	known, err := s.readMetadata(source)
	if err != nil {
		return nil //nolint:nilerr // what is not known has not expired
	}
	r, expired := s.expired(known, f)
	if !expired {
		return nil
	}
	if r.Signature, err = fetcher.FetchSignature(ctx, f.Signature.URL); err != nil {
		return err
	}
	const advice = "nothing of the file was fetched again. Put the key's new certificate, or the key without one, into spec.verification, or have the " +
		"file signed again"
	if err := s.lapsed(r, f); err != nil {
		return &Error{Reason: SignatureUntrusted, Err: fmt.Errorf("%s: %w; %s", redacted(f.URL), err, advice)}
	}
	digest, err := inventory.ParseDigest(r.Digest)
	if err != nil || s.check(digest) != nil {
		return nil //nolint:nilerr // what is not in store has to be fetched to be judged
	}
	return verifyFile(f, s.blob(digest), r.Signature, s.now(), advice)
}

func (s *Store) readMetadata(source string) (metadata, error) {
	var m metadata
	data, err := os.ReadFile(filepath.Join(s.sourceDir(source), metadataFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("read metadata of source %s: %w", source, err)
	}
	return m, nil
}

func (s *Store) writeMetadata(source string, m metadata) error {
	dir := s.sourceDir(source)
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write metadata of source %s: %w", source, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return transient(StorageFailed, "write metadata of source %s: %w", source, err)
	}
	tmp, err := s.temp()
	if err != nil {
		return err
	}
	defer discard(tmp)
	if _, err := tmp.Write(data); err != nil {
		return transient(StorageFailed, "write metadata of source %s: %w", source, err)
	}
	if err := errors.Join(tmp.Chmod(0o644), tmp.Sync()); err != nil {
		return transient(StorageFailed, "write metadata of source %s: %w", source, err)
	}
	s.changes()
	if err := os.Rename(tmp.Name(), filepath.Join(dir, metadataFile)); err != nil {
		return transient(StorageFailed, "write metadata of source %s: %w", source, err)
	}
	s.changes()
	return syncDir(dir)
}

// checkAgain is how long the result of reading an image counts. Media decay without a trace in the file system.
const checkAgain = 6 * time.Hour

// reading is the result of reading an image again.
type reading struct {
	file os.FileInfo
	at   time.Time
	err  error
}

// check reads an image in store and compares it with its digest, unless this process has done so within the last six hours
// and the file is the same. A missing or damaged image is an error that matches fs.ErrNotExist: what is damaged is not
// served, and it is fetched again as if it were missing.
func (s *Store) check(d inventory.Digest) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	file, err := os.Stat(s.blob(d))
	if err != nil {
		delete(s.read, d)
		return err
	}
	last, ok := s.read[d]
	if ok && sameFile(last.file, file) && s.now().Sub(last.at) < checkAgain {
		return last.err
	}
	err = s.rehash(d)
	s.read[d] = reading{file: file, at: s.now(), err: err}
	return err
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (s *Store) rehash(want inventory.Digest) error {
	file, err := os.Open(s.blob(want))
	if err != nil {
		return err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	if got := inventory.Digest(hash.Sum(nil)); got != want {
		return fmt.Errorf("it is damaged, its digest is %s: %w", got, fs.ErrNotExist)
	}
	return nil
}
