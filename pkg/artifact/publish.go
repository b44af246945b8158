package artifact

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Publish lays out the images of a source by version and board id and returns them in that order. All files must have
// been downloaded. Statements that are missing or damaged are written again. Two different images for the same board, or for any board, in the same version are an error.
func (s *Store) Publish(source string, files []File) ([]Image, error) {
	known, err := s.readMetadata(source)
	if err != nil {
		return nil, transient(StorageFailed, "publish source %s: %w", source, err)
	}
	var images []Image
	for _, f := range files {
		record, ok := s.recorded(known, f)
		if !ok {
			return nil, transient(StorageFailed, "publish source %s: %s is not in store", source, f.URL)
		}
		if err := s.restate(record); err != nil {
			return nil, err
		}
		images = append(images, imagesOf(record, f)...)
	}
	if err := checkUnique(images); err != nil {
		return nil, err
	}
	sortImages(images)
	if err := s.layOut(source, images); err != nil {
		return nil, err
	}
	// Files that the source no longer names are dropped from the metadata; the next Collect deletes their blobs.
	known.Files = slices.DeleteFunc(known.Files, func(r fileRecord) bool {
		return !slices.ContainsFunc(files, func(f File) bool { return f.URL == r.URL })
	})
	if err := s.writeMetadata(source, known); err != nil {
		return nil, err
	}
	return images, nil
}

// InStore returns the images of the files that are already verified and in store, in Publish's order. Callers use it while other files of
// the source are being fetched or have failed.
func (s *Store) InStore(source string, files []File) []Image {
	known, err := s.readMetadata(source)
	if err != nil {
		return nil
	}
	var images []Image
	for _, f := range files {
		if record, ok := s.recorded(known, f); ok {
			images = append(images, imagesOf(record, f)...)
		}
	}
	sortImages(images)
	return images
}

// imagesOf returns the images a file describes, with their recorded digests and sizes. The record must come from
// recorded.
func imagesOf(record fileRecord, f File) []Image {
	images := make([]Image, 0, len(f.Images))
	for _, d := range f.Images {
		for _, r := range record.Images {
			if digest, err := inventory.ParseDigest(r.Digest); err == nil && r.Path == d.Path {
				d.BoardIDs = boardsOf(d, r.Says)
				images = append(images, Image{Description: d, Digest: digest, Size: r.Size})
			}
		}
	}
	return images
}

func sortImages(images []Image) {
	slices.SortStableFunc(images, func(a, b Image) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(strings.Join(a.BoardIDs, ","), strings.Join(b.BoardIDs, ",")),
			cmp.Compare(a.Digest.String(), b.Digest.String()))
	})
}

func orAny(list []string) []string {
	if len(list) == 0 {
		return []string{anyBoard}
	}
	return list
}

// layOut builds the new tree of a source beside the old one and then replaces the old one.
func (s *Store) layOut(source string, images []Image) error {
	dir := filepath.Join(s.sourceDir(source), binariesDir)
	next := dir + ".next"
	fail := func(err error) error { return transient(StorageFailed, "lay out source %s: %w", source, err) }
	if err := errors.Join(os.RemoveAll(next), os.RemoveAll(dir+".old")); err != nil {
		return fail(err)
	}
	for _, i := range images {
		for _, board := range orAny(i.BoardIDs) {
			s.changes()
			place := filepath.Join(next, pathName(string(i.Version)), pathName(board))
			if err := os.MkdirAll(place, 0o755); err != nil {
				return fail(err)
			}
			if err := os.Link(s.blob(i.Digest), filepath.Join(place, fileName(i))); err != nil && !errors.Is(err, fs.ErrExist) {
				return fail(err)
			}
		}
	}
	s.changes()
	if err := replaceDir(next, dir, s.exchange); err != nil {
		return fail(err)
	}
	s.changes()
	return syncDir(s.sourceDir(source))
}

// replaceDir puts the directory next in the place of dir in one step, so that a crash leaves either the old or the new one there, and
// removes the old one. A file system that cannot exchange two directories has neither for a moment; the next look mends that.
func replaceDir(next, dir string, exchange func(a, b string) error) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) { // nothing is there yet
		return os.Rename(next, dir)
	}
	switch err := exchange(next, dir); {
	case err == nil:
		return os.RemoveAll(next)
	case !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	old := dir + ".old"
	if err := os.Rename(dir, old); err != nil {
		return err
	}
	return errors.Join(os.Rename(next, dir), os.RemoveAll(old))
}

// exchange exchanges two directories of one file system in one step.
func (s *Store) exchange(a, b string) error {
	err := exchangeDirs(a, b)
	s.changes()
	return err
}

// fileName returns a name that is unique among images of different classes and models in one version and board
// directory.
func fileName(i Image) string {
	return strings.ToLower(string(i.Class)) + "-" + i.Digest.String()[len("sha256:"):][:16] + ".bin"
}
