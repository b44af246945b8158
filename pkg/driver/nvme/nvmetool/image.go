package nvmetool

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
)

// maxImage bounds an image in bytes; those of drives have a few MiB.
const maxImage = 256 << 20

// readImage reads the whole image and compares its digest with the one that was verified.
func (o options) readImage() ([]byte, error) {
	f, err := os.Open(o.image)
	if err != nil {
		return nil, fmt.Errorf("open image: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxImage+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read image: %w", err)
	case len(data) == 0 || len(data)%4 != 0 || len(data) > maxImage:
		return nil, fmt.Errorf("image %s has %d bytes: want a multiple of 4 up to %d", o.image, len(data), maxImage)
	case sha256.Sum256(data) != o.digest:
		return nil, fmt.Errorf("the content of %s is not %s: nothing was sent", o.image, o.digest)
	}
	return data, nil
}
