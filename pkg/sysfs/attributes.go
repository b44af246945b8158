package sysfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/jaypipes/ghw"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// maxAttribute bounds a file in bytes: sysfs attributes are one page at most, and so is what is read here of binary
// ones.
const maxAttribute = 4096

// attributes reads the files of one directory and collects what could not be read.
type attributes struct {
	fsys fs.FS
	dir  string
	err  error
}

// text is the cleaned content of a file, empty when it is absent.
func (a *attributes) text(name string) string {
	data := a.bytes(name)
	return clean(string(data))
}

// secret is like text for files that only root may read.
func (a *attributes) secret(name string) string {
	data, err := readFile(a.fsys, path.Join(a.dir, name))
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		a.err = errors.Join(a.err, err)
	}
	return clean(string(data))
}

func (a *attributes) bytes(name string) []byte {
	data, err := readFile(a.fsys, path.Join(a.dir, name))
	a.err = errors.Join(a.err, err)
	return data
}

// number is the content of a file in any base of Go's notation, nil when it is absent.
func (a *attributes) number(name string) *int {
	text := a.text(name)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 0, 0)
	if err != nil {
		a.err = errors.Join(a.err, fmt.Errorf("read %s: %q is not a number", path.Join(a.dir, name), text))
		return nil
	}
	value := int(n)
	return &value
}

// hex is a number like "0x15b3" as lower-case digits without the prefix, at least width of them.
func (a *attributes) hex(name string, width int) string {
	text := a.text(name)
	if text == "" {
		return ""
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32)
	if err != nil {
		a.err = errors.Join(a.err, fmt.Errorf("read %s: %q is not a hexadecimal number", path.Join(a.dir, name), text))
		return ""
	}
	return fmt.Sprintf("%0*x", width, n)
}

// base is the last element of what a link points to ("driver", "subsystem"), empty when it is absent.
func (a *attributes) base(name string) string {
	target, err := follow(a.fsys, path.Join(a.dir, name))
	a.err = errors.Join(a.err, err)
	if target == "" {
		return ""
	}
	return path.Base(target)
}

// gone reports whether the device vanished while it was read: then its empty attributes mean nothing.
func (a *attributes) gone() bool {
	_, err := fs.Stat(a.fsys, a.dir)
	return absent(err)
}

// clean makes text of a device fit to store and print: firmware pads with blanks and NULs and is sometimes not text.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	return strings.TrimSpace(s)
}

// readFile reads a small file. It is empty when the file is absent.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, named("read", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxAttribute+1))
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, named("read", name, err)
	}
	if len(data) > maxAttribute {
		return nil, fmt.Errorf("read %s: more than %d bytes", name, maxAttribute)
	}
	return data, nil
}

// absent includes how drivers say that they do not provide an attribute, and that the device just went away.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENODEV) ||
		errors.Is(err, syscall.ENXIO)
}

// follow is the path a symbolic link of sysfs points to. Such links lie in real directories and lead to real ones, so
// one step is enough. It is empty when the link is absent or no link.
func follow(fsys fs.FS, name string) (string, error) {
	target, err := fs.ReadLink(fsys, name)
	if absent(err) || errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrInvalid) {
		return "", nil
	}
	if err != nil {
		return "", named("read link", name, err)
	}
	resolved := path.Join(path.Dir(name), target)
	if path.IsAbs(target) || !fs.ValidPath(resolved) {
		return "", fmt.Errorf("read link %s: %q leads out of the host root", name, target)
	}
	return resolved, nil
}

// list names the entries of a directory in order; none when it is absent.
func list(fsys fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, named("list", dir, err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// named gives an error the path below the host root once.
func named(verb, name string, err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return fmt.Errorf("%s %s: %w", verb, name, err)
}

// Device is a node of the kernel's device tree: what a network interface or a disk belongs to.
type Device struct {
	// Path is the node's real directory, such as "sys/devices/pci0000:00/0000:00:03.0/virtio2". It says where the
	// device is plugged in and holds no name the kernel gave it.
	Path string
	// Subsystem is the bus: "pci", "virtio", "scsi", "platform", "usb" (link subsystem).
	Subsystem string
	// Driver is bound to the device; empty when none is (link driver).
	Driver string
	// Function is the PCI function that the device is, or that carries it when it is a virtio device; nil elsewhere.
	Function *PCIFunction
}

func deviceAt(fsys fs.FS, dir string) (Device, error) {
	a := attributes{fsys: fsys, dir: dir}
	d := Device{Path: dir, Subsystem: a.base("subsystem"), Driver: a.base("driver")}
	if a.err != nil {
		return d, a.err
	}
	switch d.Subsystem {
	case "virtio":
		dir = path.Dir(dir)
		if _, err := inventory.ParsePCIAddress(path.Base(dir)); err != nil {
			return d, nil
		}
	case "pci":
	default:
		return d, nil
	}
	f, err := functionAt(fsys, dir)
	d.Function = f
	return d, err
}

// dirFS is what os.DirFS promises.
type dirFS interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.ReadLinkFS
	fs.StatFS
}

// Tree is a host's file system below a directory of this machine. It knows its directory, which ghw needs; of any other
// fs.FS the readers of this package read all files themselves.
type Tree struct {
	dirFS
	dir string
}

// DirFS is the host whose "/" is a directory of this machine, "/" for this machine itself.
func DirFS(dir string) Tree { return Tree{os.DirFS(dir).(dirFS), dir} }

// Dir is the directory of this machine that is the "/" of the host.
func (t Tree) Dir() string { return t.dir }

// Store gives an attribute a value. The kernel takes it in one write, and what it refuses is the error of that; it makes no file.
func (t Tree) Store(name, value string) error {
	if !fs.ValidPath(name) {
		return fmt.Errorf("write %q: the path leads out of the host root", name)
	}
	f, err := os.OpenFile(filepath.Join(t.dir, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return named("write", name, err)
	}
	if _, err = f.WriteString(value); err != nil {
		err = named("write", name, err)
	}
	return errors.Join(err, f.Close())
}

// StoreAt writes a part of a binary attribute.
func (t Tree) StoreAt(name string, offset int64, data []byte) error {
	if !fs.ValidPath(name) {
		return fmt.Errorf("write %q: the path leads out of the host root", name)
	}
	f, err := os.OpenFile(filepath.Join(t.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return named("write", name, err)
	}
	if _, err = f.WriteAt(data, offset); err != nil {
		err = named("write", name, err)
	}
	return errors.Join(err, f.Close())
}

// Mounted reports whether the sys directory below the root is the running kernel's sysfs, and not files that look like
// one. Only then is what it lists the hardware that system calls of this process reach.
func (t Tree) Mounted() (bool, error) {
	dir := filepath.Join(t.dir, "sys")
	var stat unix.Statfs_t
	err := unix.Statfs(dir, &stat)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("tell sysfs from files in %s: %w", dir, err)
	}
	return stat.Type == unix.SYSFS_MAGIC, nil
}

// options keep the environment out of ghw: a context of one's own is used instead of one made from it. What ghw would
// warn of is not lost, since whatever it does not know is read, or fails to be read, from the file.
func (t Tree) options() []any {
	return []any{
		context.Background(), ghw.WithChroot(t.dir), ghw.WithDisableTools(), ghw.WithDisableTopology(),
		ghw.WithLogger(slog.New(slog.DiscardHandler)),
	}
}
