package driver

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// Verify reads the file again and returns a *RejectedError when its size or digest is not that of the verified image,
// and another error when it cannot be read. Drivers call it first in Check.
func (i Image) Verify() error {
	f, err := os.Open(i.Path)
	if err != nil {
		return fmt.Errorf("open image: %w", err)
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, f)
	if err != nil {
		return fmt.Errorf("read image %s: %w", i.Path, err)
	}
	if n != i.Size {
		return Rejectf("%s has %d bytes, not %d: download it again", i.Path, n, i.Size)
	}
	if !bytes.Equal(hash.Sum(nil), i.Digest[:]) {
		return Rejectf("the content of %s is not %s: fetch it again", i.Path, i.Digest)
	}
	return nil
}
