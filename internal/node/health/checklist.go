package health

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// The directories of the executables, below the host's root.
const (
	checkDir    = "etc/node-firmware/check"
	requiredDir = checkDir + "/required.d"
	wantedDir   = checkDir + "/wanted.d"
)

var (
	// named is the pattern of the names of executables that run.
	named = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.sh|\.py)?$`)
	// leftBehind is the pattern of names that package managers and editors leave beside a file.
	leftBehind = regexp.MustCompile(`^\.|~$|\.(rpmsave|rpmnew|rpmorig|dpkg-[a-z]+|swp|bak|orig)$`)
)

// list names the executables of a directory in order. As with run-parts these are regular files with an executable bit
// whose names consist of letters, digits, "_" and "-"; ".sh" or ".py" may follow. A file without an executable bit is
// disabled, and files that package managers and editors leave behind are skipped. Anything else that could be meant as
// a check, or that users other than root could have changed, is refused with a complaint that says what to do: a check
// that is skipped silently would count as passed. A missing directory has none.
func list(fsys fs.FS, dir string) (names []string, refused []Complaint, err error) {
	refuse := func(name, why string) {
		refused = append(refused, Complaint{Message: fmt.Sprintf("%s is not run: %s", label(dir, name), why)})
	}
	for _, d := range []string{path.Dir(checkDir), checkDir, dir} {
		info, err := fs.Lstat(fsys, d)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil, nil
		case err != nil:
			return nil, nil, fmt.Errorf("look for health checks: %w", err)
		case !info.IsDir():
			refuse("", fmt.Sprintf("/%s is not a directory; replace it with one", d))
			return nil, refused, nil
		}
		if why := untrusted(info, d); why != "" {
			refuse("", why)
			return nil, refused, nil
		}
	}
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list health checks: %w", err)
	}
	for _, e := range entries { // in order of name
		info, err := e.Info()
		if err != nil {
			return nil, nil, fmt.Errorf("list health checks: %w", err)
		}
		switch file := dir + "/" + e.Name(); {
		case leftBehind.MatchString(e.Name()), info.IsDir():
		case info.Mode()&fs.ModeSymlink != 0:
			refuse(e.Name(), "it is a symbolic link; put the file itself there")
		case !info.Mode().IsRegular(), info.Mode()&0o111 == 0:
		case !named.MatchString(e.Name()):
			refuse(e.Name(), "its name may have only letters, digits, _ and -, and the suffix .sh or .py; rename it, or remove its executable bit")
		default:
			if why := untrusted(info, file); why != "" {
				refuse(e.Name(), why)
				continue
			}
			names = append(names, e.Name())
		}
	}
	return names, refused, nil
}

// untrusted says why users other than root may have written a file or a directory, or "" when they cannot have.
func untrusted(info fs.FileInfo, name string) string {
	switch owner, ok := info.Sys().(*syscall.Stat_t); {
	case !ok:
		return fmt.Sprintf("the owner of /%s is not known", name)
	case owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return fmt.Sprintf("/%s belongs to user %d; review it, then chown root /%s", name, owner.Uid, name)
	case info.Mode()&0o022 != 0:
		return fmt.Sprintf("/%s can be written by users other than root; review it, then chmod go-w /%s", name, name)
	}
	return ""
}

// label names an executable for people, or its directory when it has no name.
func label(dir, name string) string {
	return "check " + strings.TrimSuffix(path.Base(dir)+"/"+name, "/")
}

// maxLine bounds the quoted output of an executable in a message, in bytes.
const maxLine = 200

// lastLine is the last non-blank line of the first output that has one, with a colon before it.
func lastLine(outputs ...[]byte) string {
	for _, output := range outputs {
		lines := strings.Split(strings.TrimSpace(printable(string(output))), "\n")
		if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
			return ": " + text.Clip(last, maxLine)
		}
	}
	return ""
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
