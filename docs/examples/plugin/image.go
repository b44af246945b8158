package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// header is what an image says of itself, one a line: magic, board, version and the digest of the rest.
type header struct {
	board, digest string
	version       inventory.Version
}

const (
	magic     = "ACME FILEDRIVE FIRMWARE"
	maxHeader = 1 << 10
	maxImage  = 64 << 20
)

var payload = bytes.Repeat([]byte("firmware"), 512)

// errNothing says that a file is empty.
var errNothing = errors.New("nothing is there")

// newImage makes an image.
func newImage(board string, version inventory.Version, payload []byte) []byte {
	sum := sha256.Sum256(payload)
	return append(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n", magic, board, version, hex.EncodeToString(sum[:])), payload...)
}

func readHeader(path string) (header, error) {
	text, err := readFile(path, maxHeader)
	if err != nil {
		return header{}, err
	}
	h, _, err := parse(text)
	return h, err
}

// readImage reads an image and rejects what is not whole.
func readImage(path string) (header, []byte, error) {
	content, err := readFile(path, maxImage)
	if err != nil {
		return header{}, nil, err
	}
	h, rest, err := parse(content)
	if err != nil {
		return header{}, nil, driver.Rejectf("%s: %v", path, err)
	}
	if sum := sha256.Sum256(rest); hex.EncodeToString(sum[:]) != h.digest {
		return header{}, nil, driver.Rejectf("%s is not whole", path)
	}
	return h, content, nil
}

func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// parse returns the header and what comes after it.
func parse(content []byte) (header, []byte, error) {
	if len(content) == 0 {
		return header{}, nil, errNothing
	}
	parts := bytes.SplitN(content, []byte("\n"), 5)
	if len(parts) != 5 || string(parts[0]) != magic {
		return header{}, nil, errors.New("not an image of an ACME Filedrive")
	}
	h := header{board: string(parts[1]), version: inventory.NormalizeVersion(string(parts[2])), digest: string(parts[3])}
	if h.board == "" || h.version == "" || strings.ToValidUTF8(h.board+string(h.version), "") != h.board+string(h.version) {
		return header{}, nil, errors.New("an image without board or version")
	}
	return h, parts[4], nil
}
