package artifact

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"strings"
)

// Bounds of an archive against decompression bombs. Real firmware bundles stay far below them.
const (
	maxEntries       = 20_000
	maxArchiveBytes  = 8 << 30
	maxImageBytes    = 1 << 30
	maxCompression   = 200     // times the compressed size, once past compressionGrace
	compressionGrace = 1 << 20 // bytes that may be reached at any ratio
)

// take is called with each listed image of a file and its content.
type take func(path string, content io.Reader) error

// Extract copies the member of the archive at name to dst, within the bounds of any archive. A member that is missing or is there
// twice is an *Error, as is an archive that cannot be read.
func Extract(name string, format Format, member string, dst io.Writer) error {
	return unpack(name, format, []string{member}, func(_ string, content io.Reader) error {
		_, err := io.Copy(storageWriter{dst}, content)
		var storage *storageError
		if errors.As(err, &storage) {
			return transient(StorageFailed, "unpack %s: %w", member, storage.err)
		}
		return err
	})
}

// unpack calls out with each wanted member of the archive at name, exactly once. Other members are skipped; a wanted
// member that is missing or occurs twice is an error.
func unpack(name string, format Format, wanted []string, out take) error {
	missing := make(map[string]bool, len(wanted))
	for _, w := range wanted {
		missing[w] = true
	}
	found := func(member string, content io.Reader) error {
		member = strings.TrimPrefix(path.Clean(member), "./")
		pending, want := missing[member]
		switch {
		case !want:
			return nil
		case !pending:
			return permanent(UnpackFailed, "unpack: %s is in the archive twice", member)
		}
		missing[member] = false
		return out(member, &boundedReader{r: content, left: maxImageBytes, what: member})
	}
	var err error
	switch format {
	case FormatZip:
		err = walkZip(name, found)
	case FormatTarGzip:
		err = walkTarGzip(name, found)
	default:
		return permanent(InvalidSpec, "unpack: format %q is not an archive", format)
	}
	if err != nil {
		return err
	}
	for _, w := range wanted {
		if missing[w] {
			return permanent(UnpackFailed, "unpack: the archive does not hold %s; correct the path in the source", w)
		}
	}
	return nil
}

func walkZip(name string, found take) error {
	archive, err := zip.OpenReader(name)
	if err != nil {
		return permanent(UnpackFailed, "unpack: not a readable zip archive: %w", err)
	}
	defer archive.Close()
	if len(archive.File) > maxEntries {
		return permanent(TooLarge, "unpack: the archive has %d entries, the limit is %d", len(archive.File), maxEntries)
	}
	info, err := os.Stat(name)
	if err != nil {
		return transient(StorageFailed, "unpack: %w", err)
	}
	all := &boundedReader{left: unpackedLimit(info), what: "the archive"}
	for _, f := range archive.File {
		if !f.Mode().IsRegular() {
			continue
		}
		content, err := f.Open()
		if err != nil {
			return permanent(UnpackFailed, "unpack %s: %w", f.Name, err)
		}
		all.r = content
		err = found(f.Name, all)
		_ = content.Close()
		if err != nil {
			return unpackError(f.Name, err)
		}
	}
	return nil
}

func walkTarGzip(name string, found take) error {
	file, err := os.Open(name)
	if err != nil {
		return transient(StorageFailed, "unpack: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return transient(StorageFailed, "unpack: %w", err)
	}
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return permanent(UnpackFailed, "unpack: not a readable gzip file: %w", err)
	}
	archive := tar.NewReader(&boundedReader{r: unzipped, left: unpackedLimit(info), what: "the archive"})
	for entries := 1; ; entries++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unpackError("archive", err)
		}
		if entries > maxEntries {
			return permanent(TooLarge, "unpack: the archive has more than %d entries", maxEntries)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := found(header.Name, archive); err != nil {
			return unpackError(header.Name, err)
		}
	}
}

// unpackedLimit is the number of bytes that may be unpacked from an archive in total.
func unpackedLimit(archive os.FileInfo) int64 {
	return min(int64(maxArchiveBytes), max(compressionGrace, archive.Size()*maxCompression))
}

func unpackError(name string, err error) error {
	var classified *Error
	if errors.As(err, &classified) {
		return classified
	}
	return permanent(UnpackFailed, "unpack %s: %w", name, err)
}

// boundedReader fails with TooLarge where an io.LimitReader would silently end.
type boundedReader struct {
	r    io.Reader
	left int64
	what string
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var one [1]byte
		if n, err := b.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, permanent(TooLarge, "unpack: %s exceeds its size limit", b.what)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}
