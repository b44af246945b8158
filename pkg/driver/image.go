package driver

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Measure describes a file that this process made, such as an image that was read from a device.
func Measure(path string, v inventory.Version) (Image, error) {
	digest, size, err := hash(path)
	return Image{Path: path, Version: v, Digest: digest, Size: size}, err
}

// HeldFor returns the command with the image for it: the runner gives the tool a copy that nobody can change, hashed as a copy, in
// the place of the path. Every command whose tool opens the image by itself is run so.
func (i Image) HeldFor(c command.Command) command.Command {
	c.Image = &command.Image{Path: i.Path, Digest: i.Digest, Size: i.Size}
	return c
}

// Verify reads the file again and returns a *RejectedError when its size or digest is not that of the verified image,
// and another error when it cannot be read. Drivers call it first in Check.
func (i Image) Verify() error {
	digest, size, err := hash(i.Path)
	switch {
	case err != nil:
		return err
	case size != i.Size:
		return Rejectf("%s has %d bytes, not %d: download it again", i.Path, size, i.Size)
	case digest != i.Digest:
		return Rejectf("the content of %s is not %s: fetch it again", i.Path, i.Digest)
	}
	return nil
}

func hash(path string) (digest inventory.Digest, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return digest, 0, fmt.Errorf("open image: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if size, err = io.Copy(sum, f); err != nil {
		return digest, 0, fmt.Errorf("read image %s: %w", path, err)
	}
	return inventory.Digest(sum.Sum(nil)), size, nil
}
