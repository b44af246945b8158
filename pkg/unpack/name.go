package unpack

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean returns the name of a member in the one form in which a source names it, and refuses one that could mean a place outside of
// the archive or that a person cannot read.
func clean(name string) (string, error) {
	quoted := fmt.Sprintf("%.200q", name)
	switch {
	case !utf8.ValidString(name):
		return "", fmt.Errorf("%w: the archive has a member %s, whose name is not UTF-8", ErrUnsafe, quoted)
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", fmt.Errorf("%w: the archive has a member %s, whose name has control characters", ErrUnsafe, quoted)
	case strings.HasPrefix(name, "/"), strings.Contains(name, `\`), len(name) > 1 && name[1] == ':':
		return "", fmt.Errorf("%w: the archive has a member %s, which is an absolute or Windows path", ErrUnsafe, quoted)
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return "", fmt.Errorf("%w: the archive has a member %s, which escapes the archive", ErrUnsafe, quoted)
		}
	}
	if name == "" {
		return "", fmt.Errorf("%w: the archive has a member without a name", ErrUnsafe)
	}
	return path.Clean(name), nil
}

// signatures are how archives and compressed files begin, each at its offset.
var signatures = [...]struct {
	format string
	at     int
	magic  string
	is     Format // empty where Walk does not read it
}{
	{"zip", 0, "PK\x03\x04", Zip}, {"zip", 0, "PK\x05\x06", Zip}, {"gzip", 0, "\x1f\x8b\x08", TarGzip}, {"xz", 0, "\xfd7zXZ\x00", TarXz},
	{"zstd", 0, "\x28\xb5\x2f\xfd", TarZstd}, {"cabinet", 0, cabMagic, Cabinet}, {"tar", 257, "ustar", Tar},
	{"bzip2", 0, "BZh", ""}, {"7z", 0, "7z\xbc\xaf\x27\x1c", ""}, {"rar", 0, "Rar!\x1a\x07", ""},
}

// refuseNested makes the first Read fail where the content is itself an archive. A cabinet is let through, unless
// it is in a cabinet: fwupd takes it as an image.
func refuseNested(content io.Reader, name string, within Format) io.Reader {
	return &unnested{r: bufio.NewReaderSize(content, 512), name: name, within: within}
}

type unnested struct {
	r      *bufio.Reader
	name   string
	within Format
	judged bool
}

func (u *unnested) Read(p []byte) (int, error) {
	if !u.judged {
		head, _ := u.r.Peek(512) // an error comes again with Read
		for _, s := range signatures {
			switch {
			case len(head) <= s.at || !bytes.HasPrefix(head[s.at:], []byte(s.magic)):
			case s.is == Cabinet && u.within == Cabinet:
				return 0, fmt.Errorf("%w: %s is a cabinet within a cabinet", ErrUnsafe, u.name)
			case s.is != Cabinet:
				return 0, fmt.Errorf("%w: %s is itself an archive (%s); unpack it and name the image in it", ErrUnsafe, u.name, s.format)
			}
		}
		u.judged = true
	}
	return u.r.Read(p)
}
