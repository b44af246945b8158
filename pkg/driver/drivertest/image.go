package drivertest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Defect is a fault of a firmware image that passes every check. It shows when the firmware runs.
type Defect string

// The defects of images.
const (
	// DefectNone: nothing is wrong.
	DefectNone Defect = ""
	// DefectLinkDown: a device that runs it has no links; see Simulated.LinkDown.
	DefectLinkDown Defect = "LinkDown"
	// DefectNoTraffic: a device that runs it has links through which nothing passes.
	DefectNoTraffic Defect = "NoTraffic"
	// DefectUnreadable: a device that runs it cannot be read or written.
	DefectUnreadable Defect = "Unreadable"
	// DefectTorn: nothing of it starts, because its write was broken off. It is unreadable, and has no links.
	DefectTorn Defect = "Torn"
)

// TornVersion is what a device reports of firmware whose write was broken off.
const TornVersion inventory.Version = "unknown"

// content is the description in an image of the simulated driver.
type content struct {
	boardID string
	version inventory.Version
	defect  Defect
}

// imageHeader starts every image of the simulated driver; board id and version follow, one per line, then the defect if
// there is one, then the payload.
const (
	imageHeader  = "simulated firmware\n"
	defectPrefix = "defect "
)

var payload = strings.Repeat("firmware", 512)

// NewImage creates an image of the simulated driver for a board in a file of the test's own directory.
func NewImage(t testing.TB, boardID string, version inventory.Version) driver.Image {
	t.Helper()
	return SaveImage(t, version, ImageBytes(boardID, version))
}

// NewBadImage is NewImage of a firmware with a defect.
func NewBadImage(t testing.TB, boardID string, version inventory.Version, defect Defect) driver.Image {
	t.Helper()
	return SaveImage(t, version, imageBytes(content{boardID, version, defect}))
}

// ImageBytes is the content of an image of the simulated driver. Equal arguments give equal bytes.
func ImageBytes(boardID string, version inventory.Version) []byte {
	return BadImageBytes(boardID, version, DefectNone)
}

// BadImageBytes is ImageBytes of a firmware with a defect.
func BadImageBytes(boardID string, version inventory.Version, defect Defect) []byte {
	return imageBytes(content{boardID, version, defect})
}

func imageBytes(c content) []byte {
	mark := ""
	if c.defect != DefectNone {
		mark = defectPrefix + string(c.defect) + "\n"
	}
	return fmt.Appendf(nil, "%s%s\n%s\n%s%s", imageHeader, c.boardID, c.version, mark, payload)
}

// SaveImage writes the bytes to a file of the test's own directory and describes it as an image of the version.
func SaveImage(t testing.TB, version inventory.Version, content []byte) driver.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.bin")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return driver.Image{Path: path, Version: version, Digest: sha256.Sum256(content), Size: int64(len(content))}
}

// readImage returns the description in an image of the simulated driver.
func readImage(path string) (content, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return content{}, fmt.Errorf("read image: %w", err)
	}
	rest, ok := strings.CutPrefix(string(data), imageHeader)
	head, whole := strings.CutSuffix(rest, payload)
	fields := strings.Split(head, "\n")
	if !ok || !whole || len(fields) < 3 || len(fields) > 4 || fields[len(fields)-1] != "" {
		return content{}, driver.Rejectf("%s is not a whole image of the simulated driver", path)
	}
	c := content{boardID: fields[0], version: inventory.Version(fields[1])}
	if len(fields) == 4 {
		defect, ok := strings.CutPrefix(fields[2], defectPrefix)
		if c.defect = Defect(defect); !ok || !slices.Contains([]Defect{DefectLinkDown, DefectNoTraffic, DefectUnreadable}, c.defect) {
			return content{}, driver.Rejectf("%s is not an image of the simulated driver: %q", path, fields[2])
		}
	}
	return c, nil
}
