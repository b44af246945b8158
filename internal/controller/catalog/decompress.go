package catalog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

// maxWindow bounds what a decompressor keeps for looking back, in bytes. xz -8 and zstd -19 need 32 and 8 MiB.
const maxWindow = 32 << 20

// The first bytes of compressed files.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	xzMagic   = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	cabMagic  = []byte("MSCF")
)

// decompress undoes gzip, xz and zstd, which it recognizes by the first bytes, as a stream. It refuses a cabinet rather than to hand it
// to a parser. How much may come out is for the parser to bound.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read catalog: %w", err)
	}
	var out io.Reader
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		out, err = gzip.NewReader(b)
	case bytes.HasPrefix(head, xzMagic):
		out, err = xz.NewReader(b, maxWindow)
	case bytes.HasPrefix(head, zstdMagic):
		out, err = zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	case bytes.HasPrefix(head, cabMagic):
		return nil, &catalog.Error{Reason: catalog.InvalidCatalog, Err: errors.New("decompress catalog: it is a cabinet; name the metadata itself")}
	default:
		return b, nil
	}
	if err = named(err); err != nil {
		var known *catalog.Error
		if !errors.As(err, &known) {
			err = &catalog.Error{Reason: catalog.InvalidCatalog, Err: fmt.Errorf("decompress catalog: %w", err)}
		}
		return nil, err
	}
	return decompressed{out}, nil
}

// decompressed names the reason of what a decompressor reports while it is read.
type decompressed struct{ r io.Reader }

func (d decompressed) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	return n, named(err)
}

// named gives errors of decompressors the reason they have: one that needs too much memory, and a file that ends in the middle.
func named(err error) error {
	switch {
	case errors.Is(err, xz.ErrMemlimit), errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return &catalog.Error{Reason: catalog.InvalidCatalog, Err: fmt.Errorf("decompress catalog: it needs more than %d MiB to look back: %w", maxWindow>>20, err)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &catalog.Error{Reason: catalog.DownloadFailed, Err: errors.New("decompress catalog: it ends in the middle")}
	}
	return err
}
