package unpack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxScript is how far into a script its archive is looked for; a script of Dell's that describes its package is well below 1 MiB.
const maxScript = 4 << 20

// program tells a program with an archive behind it from others; empty for all others.
func program(file *os.File, head []byte) (Format, error) {
	script := bytes.HasPrefix(head, []byte("#!"))
	if !script && !bytes.HasPrefix(head, []byte("MZ")) && !bytes.HasPrefix(head, []byte("\x7fELF")) {
		return "", nil
	}
	info, err := file.Stat()
	if err != nil {
		return "", &ReadError{err}
	}
	in := &source{ctx: context.Background(), file: file, size: info.Size()}
	if script {
		if _, format, err := behindScript(in); err != nil || format != "" {
			return ScriptTar, err
		}
	}
	if _, err := zipEndOf(in); err == nil {
		return ProgramZip, nil
	} else if errors.As(err, new(*ReadError)) {
		return "", err
	}
	return "", nil
}

// behindScript finds the archive behind a shell script: it begins with a line of its own, the first that no text has. Such a script prints
// the rest of itself with tail or sed into tar.
func behindScript(in *source) (int64, Format, error) {
	text := make([]byte, min(in.size, maxScript))
	n, err := in.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, "", err
	}
	text = text[:n]
	found, format := int64(-1), Format("")
	for _, s := range signatures {
		if !s.isTar() || s.is == Tar {
			continue
		}
		if at := bytes.Index(text, []byte("\n"+s.magic)); at >= 0 && (found < 0 || int64(at)+1 < found) {
			found, format = int64(at)+1, s.is
		}
	}
	if found < 0 || bytes.IndexByte(text[:found], 0) >= 0 {
		return 0, "", nil
	}
	return found, format, nil
}

// script reads the tar archive behind a shell script.
func (w *walk) script(in *source) error {
	at, format, err := behindScript(in)
	switch {
	case err != nil:
		return err
	case format == "":
		return fmt.Errorf("%w: the script has no archive behind it", ErrDamaged)
	}
	return w.tar(io.NewSectionReader(in, at, in.size-at), format)
}
