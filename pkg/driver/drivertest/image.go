package drivertest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// imageHeader starts every image of the simulated driver; board id and version follow, one a line, then the payload.
const imageHeader = "simulated firmware\n"

var payload = strings.Repeat("firmware", 512)

// NewImage makes an image of the simulated driver for a board in a file of the test's own directory.
func NewImage(t testing.TB, boardID string, version inventory.Version) driver.Image {
	t.Helper()
	return SaveImage(t, version, ImageBytes(boardID, version))
}

// ImageBytes is the content of an image of the simulated driver. Equal arguments give equal bytes.
func ImageBytes(boardID string, version inventory.Version) []byte {
	return fmt.Appendf(nil, "%s%s\n%s\n%s", imageHeader, boardID, version, payload)
}

// SaveImage writes the bytes to a file of the test's own directory and describes it as an image of the version.
func SaveImage(t testing.TB, version inventory.Version, content []byte) driver.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.bin")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return driver.Image{Path: path, Version: version, Digest: sha256.Sum256(content), Size: int64(len(content))}
}

// readImage returns what an image of the simulated driver says of itself.
func readImage(path string) (boardID string, version inventory.Version, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("read image: %w", err)
	}
	rest, ok := strings.CutPrefix(string(content), imageHeader)
	fields := strings.SplitN(rest, "\n", 3)
	if !ok || len(fields) != 3 || fields[2] != payload {
		return "", "", driver.Rejectf("%s is not a whole image of the simulated driver", path)
	}
	return fields[0], inventory.Version(fields[1]), nil
}
