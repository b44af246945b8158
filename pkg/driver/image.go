package driver

import (
	"crypto/sha256"
	"errors"
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

// HeldFor returns the command with the image for it: instead of the path, the runner gives the tool a copy that nobody can change and that
// was hashed after copying. Every command whose tool opens the image itself is run this way.
func (i Image) HeldFor(c command.Command) command.Command {
	c.Image = &command.Image{Path: i.Path, Digest: i.Digest, Size: i.Size}
	return c
}

// Verify reads the file again. It returns an error that wraps command.ErrImage when the file cannot be read, or when its size or digest is
// not that of the verified image: a changed local copy says nothing about the image itself. Drivers call it first in Check.
func (i Image) Verify() error {
	digest, size, err := hash(i.Path)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", command.ErrImage, err)
	case size != i.Size:
		return fmt.Errorf("%w: %s has %d bytes, not %d; it changed after it was verified and must be fetched again", command.ErrImage, i.Path, size, i.Size)
	case digest != i.Digest:
		return fmt.Errorf("%w: the content of %s is no longer %s; it changed after it was verified and must be fetched again", command.ErrImage, i.Path, i.Digest)
	}
	return nil
}

// Judge returns the error that a driver returned about the image, unless that is a *RejectedError and the file is not the verified image
// any more. In that case a different file was rejected, and Judge returns the error of Verify.
func (i Image) Judge(err error) error {
	if errors.As(err, new(*RejectedError)) {
		if changed := i.Verify(); changed != nil {
			return fmt.Errorf("%w (before that was seen: %s)", changed, err.Error())
		}
	}
	return err
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
