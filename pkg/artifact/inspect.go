package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/imageinfo"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/unpack"
)

// Content is what a file holds, as far as it says so itself.
type Content struct {
	Digest inventory.Digest
	// Size in bytes.
	Size int64
	// Format of an archive; empty for another file.
	Format unpack.Format
	// Itself is the file as an image. Its path is empty.
	Itself Member
	// Members of an archive, in its order, with those of tar archives within it.
	Members []Member
	// Package is what Dell's description in a package says; nil where there is none.
	Package *Package
}

// Member is a file that may be an image.
type Member struct {
	Path string
	// Size in bytes.
	Size int64
	Kind imageinfo.Kind
	Says []imageinfo.Firmware
	// Problem says why it cannot be an image; empty where it may be one.
	Problem string
}

// Package is what a package of Dell's says of itself in its package.xml.
type Package struct {
	Version string `xml:"vendorVersion,attr"`
	Type    struct {
		Value string `xml:"value,attr"`
	} `xml:"ComponentType"`
	Devices []struct {
		Vendor string `xml:"vendorID,attr"`
		Device string `xml:"deviceID,attr"`
	} `xml:"SupportedDevices>Device>PCIInfo"`
	Models []string `xml:"SupportedSystems>Brand>Model>Display"`
}

// maxPackage bounds a package.xml, which is 100 KB for a component of all machines.
const maxPackage = 4 << 20

// Inspect reads what the file at name holds, within the bounds of any archive.
func Inspect(ctx context.Context, name string) (Content, error) {
	file, err := os.Open(name)
	if err != nil {
		return Content{}, fmt.Errorf("read file: %w", withoutPath(err))
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return Content{}, fmt.Errorf("read file: %w", withoutPath(err))
	case !info.Mode().IsRegular():
		return Content{}, errors.New("read file: it is not a regular file")
	case info.Size() == 0:
		return Content{}, errors.New("read file: it is empty")
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return Content{}, fmt.Errorf("read file: %w", withoutPath(err))
	}
	out := Content{Digest: inventory.Digest(hash.Sum(nil)), Size: info.Size()}
	if out.Itself, err = inspect(ctx, file, "", info.Size()); err != nil {
		return Content{}, err
	}
	if out.Format, err = unpack.Detect(file); errors.Is(err, unpack.ErrDamaged) {
		return out, nil
	} else if err != nil {
		return Content{}, err
	}
	return out, out.members(ctx, file)
}

func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// members reads the members of an archive, each through a file of its own, which is what an image is read from.
func (c *Content) members(ctx context.Context, file *os.File) error {
	copied, err := os.CreateTemp("", "firmware-member-")
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer discard(copied)
	ctx, cancel := context.WithTimeout(ctx, unpackTimeout)
	defer cancel()
	within := ""
	err = unpack.Walk(ctx, file, c.Format, unpack.Limits{}, func(name string, open func() (io.Reader, error)) error {
		if nested := within != "" && strings.HasPrefix(name, within); !nested && isTarName(name) {
			within = name + "/"
			return unpack.ErrDescend
		}
		content, err := open()
		if err != nil {
			return err
		}
		if err := errors.Join(copied.Truncate(0), seekStart(copied)); err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		size, err := io.Copy(copied, content)
		if errors.Is(err, unpack.ErrUnsafe) {
			c.Members = append(c.Members, Member{Path: name, Problem: err.Error()})
			return nil
		} else if err != nil {
			return err
		}
		if path.Base(name) == "package.xml" && c.Package == nil && size <= maxPackage {
			c.Package = readPackage(io.NewSectionReader(copied, 0, size))
		}
		m, err := inspect(ctx, copied, name, size)
		c.Members = append(c.Members, m)
		return err
	})
	if err != nil {
		return unpackError(ctx, err)
	}
	return nil
}

func seekStart(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// isTarName reports whether a name is one of a tar archive. What is in it is looked at where it can be.
func isTarName(name string) bool {
	return slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.zst"}, func(end string) bool {
		return strings.HasSuffix(strings.ToLower(name), end)
	})
}

// inspect reads what an image is and says of itself.
func inspect(ctx context.Context, image *os.File, name string, size int64) (Member, error) {
	out := Member{Path: name, Size: size}
	var err error
	if out.Kind, err = imageinfo.Recognize(image); err != nil {
		return out, err
	}
	if !out.Kind.IsImage() {
		out.Problem = fmt.Sprintf("it begins like %s, and no image does", out.Kind)
		return out, nil
	}
	if out.Says, err = imageinfo.Read(ctx, image); errors.Is(err, imageinfo.ErrInvalid) {
		out.Problem, err = err.Error(), nil
	}
	return out, err
}

// readPackage reads a package.xml; nil where it is none of Dell's.
func readPackage(r io.Reader) *Package {
	var p struct {
		XMLName xml.Name `xml:"SoftwareComponent"`
		Package
	}
	decoder := xml.NewDecoder(r)
	decoder.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // it is UTF-16 by name, and UTF-8 in packages
	if decoder.Decode(&p) != nil || p.Version == "" {
		return nil
	}
	return &p.Package
}
