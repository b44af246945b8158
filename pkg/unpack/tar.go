package unpack

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

func (w *walk) tar(in *source, format Format) error {
	unpacked, end, err := w.decompress(bufio.NewReaderSize(in.reader(), 64<<10), format)
	if err != nil {
		return err
	}
	defer end()
	archive := tar.NewReader(w.all(unpacked))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			if w.entries == 0 {
				return fmt.Errorf("%w: the tar archive is empty", ErrDamaged)
			}
			return nil
		}
		if err != nil {
			return damaged("not a readable tar archive", err)
		}
		if err := w.tarEntry(header, archive); err != nil {
			return err
		}
	}
}

func (w *walk) tarEntry(header *tar.Header, content io.Reader) error {
	if err := w.count(); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := clean(header.Name)
	if err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return nil
	case tar.TypeReg:
	case tar.TypeLink, tar.TypeSymlink:
		return fmt.Errorf("%w: %s is a link to %.200q", ErrUnsafe, name, header.Linkname)
	default:
		return fmt.Errorf("%w: %s is neither a file nor a directory (tar type %q)", ErrUnsafe, name, header.Typeflag)
	}
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // its holes would escape the limit on all bytes
			return fmt.Errorf("%w: %s is a sparse file, which is not supported", ErrUnsafe, name)
		}
	}
	return w.member(name, header.Size, func() (io.Reader, error) { return checked{name, content}, nil })
}

// decompress returns the tar archive within. end releases what it holds.
func (w *walk) decompress(in io.Reader, format Format) (out io.Reader, end func(), err error) {
	end = func() {}
	switch format {
	case TarGzip:
		if out, err = gzip.NewReader(in); err != nil {
			return nil, end, damaged("not a readable gzip file", err)
		}
	case TarXz:
		if out, err = xz.NewReader(in, w.limits.Memory); err != nil {
			return nil, end, damaged("not a readable xz file", xzMemory(err))
		}
		out = xzReader{out}
	case TarZstd:
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(w.limits.Memory)), zstd.WithDecoderMaxMemory(uint64(w.limits.Bytes))) //nolint:gosec // positive
		if err != nil {
			return nil, end, damaged("not a readable zstd file", zstdMemory(err))
		}
		out, end = zstdReader{z}, z.Close
	default:
		out = in
	}
	return out, end, nil
}

type xzReader struct{ r io.Reader }

func (x xzReader) Read(p []byte) (int, error) {
	n, err := x.r.Read(p)
	return n, xzMemory(err)
}

func xzMemory(err error) error {
	if errors.Is(err, xz.ErrMemlimit) {
		return fmt.Errorf("%w: unpacking the archive takes too much memory: %w", ErrTooLarge, err)
	}
	return err
}

type zstdReader struct{ r io.Reader }

func (z zstdReader) Read(p []byte) (int, error) {
	n, err := z.r.Read(p)
	return n, zstdMemory(err)
}

func zstdMemory(err error) error {
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return fmt.Errorf("%w: unpacking the archive takes too much memory: %w", ErrTooLarge, err)
	}
	return err
}
