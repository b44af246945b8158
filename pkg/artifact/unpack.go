package artifact

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/unpack"
)

// unpackTimeout bounds the unpacking of one archive. The largest that is permitted takes about a minute.
const unpackTimeout = 10 * time.Minute

// take is called with each listed image of a file and its content.
type take func(path string, content io.Reader) error

// Extract copies the member of the archive at name to dst, within the bounds of any archive. A member that is missing or is there
// twice is an *Error, as is an archive that cannot be read.
func Extract(ctx context.Context, name string, member string, dst io.Writer) error {
	return extract(ctx, name, []string{member}, func(_ string, content io.Reader) error {
		_, err := io.Copy(storageWriter{dst}, content)
		var storage *storageError
		if errors.As(err, &storage) {
			return transient(StorageFailed, "unpack %s: %w", member, storage.err)
		}
		return err
	})
}

// extract calls out with each wanted member of the archive at name, exactly once. Other members are skipped; a wanted
// member that is missing or occurs twice is an error. No name of the archive ever becomes one of the file system.
func extract(ctx context.Context, name string, wanted []string, out take) error {
	file, err := os.Open(name)
	if err != nil {
		return transient(StorageFailed, "unpack: %w", err)
	}
	defer file.Close()
	format, err := unpack.Detect(file)
	if err != nil {
		return unpackError(ctx, err)
	}
	missing := make(map[string]bool, len(wanted))
	for _, w := range wanted {
		missing[w] = true
	}
	bounded, cancel := context.WithTimeout(ctx, unpackTimeout)
	defer cancel()
	err = unpack.Walk(bounded, file, format, unpack.Limits{}, func(member string, open func() (io.Reader, error)) error {
		pending, want := missing[member]
		switch {
		case !want:
			return nil
		case !pending:
			return permanent(UnpackFailed, "unpack: %s is in the archive twice", member)
		}
		missing[member] = false
		content, err := open()
		if err != nil {
			return err
		}
		return out(member, content)
	})
	if err != nil {
		return unpackError(ctx, err)
	}
	for _, w := range wanted {
		if missing[w] {
			return permanent(UnpackFailed, "unpack: the archive does not hold %s; correct the path in the source", w)
		}
	}
	return nil
}

// unpackError gives an error of reading an archive its reason.
func unpackError(ctx context.Context, err error) error {
	var classified *Error
	var read *unpack.ReadError
	switch {
	case errors.As(err, &classified):
		return classified
	case ctx.Err() != nil:
		return transient(UnpackFailed, "unpack: %w", ctx.Err())
	case errors.As(err, &read):
		return transient(StorageFailed, "unpack: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return permanent(UnpackFailed, "unpack: it took longer than %s", unpackTimeout)
	}
	return permanent(UnpackFailed, "unpack: %w", err)
}
