package mirror

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"aead.dev/minisign"
	"github.com/klauspost/compress/zstd"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// Archive is a published file: a tar archive, compressed with zstd, that holds one image besides what a vendor packs with it.
type Archive struct {
	// URL of the archive, and of its minisign signature.
	URL, SignatureURL string
	// SHA256 of the archive, as 64 hexadecimal digits.
	SHA256 string
	// Member is the path of the image within the archive.
	Member string
	// File and SignatureFile are where the two are served from.
	File, SignatureFile string
}

// Publish packs an image into an archive, signs that, and serves both. Equal images make equal archives and signatures, so that a
// source which names an archive that is published again goes on to be true.
func (m *Mirror) Publish(image string, content []byte) (Archive, error) {
	name := image + ".tar.zst"
	a := Archive{
		URL: "https://" + Address + "/" + name, Member: "images/" + image, File: filepath.Join(m.served, name),
	}
	a.SignatureURL, a.SignatureFile = a.URL+".minisig", a.File+".minisig"
	packed, err := pack([]member{{"README.txt", []byte("Simulated firmware: good for the simulated vendor tools and for nothing else.\n")}, {a.Member, content}})
	if err != nil {
		return Archive{}, fmt.Errorf("pack %s: %w", name, err)
	}
	sum := sha256.Sum256(packed)
	a.SHA256 = hex.EncodeToString(sum[:])
	signature, err := m.sign(packed, name)
	if err != nil {
		return Archive{}, err
	}
	m.publishing.Lock() // two who publish one image write the same files
	defer m.publishing.Unlock()
	for path, content := range map[string][]byte{a.File: packed, a.SignatureFile: signature} {
		if err := durable.WriteFile(durable.OS{}, path, content); err != nil {
			return Archive{}, fmt.Errorf("publish %s: %w", name, err)
		}
	}
	return a, nil
}

// member is a file of an archive.
type member struct {
	name    string
	content []byte
}

func pack(members []member) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	for _, f := range members {
		header := &tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// sign signs a file as minisign -S does, without the time.
func (m *Mirror) sign(file []byte, name string) ([]byte, error) {
	reader := minisign.NewReader(bytes.NewReader(file))
	if _, err := io.Copy(io.Discard, reader); err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	return reader.SignWithComments(m.key, "file:"+name, "signature of the firmware lab"), nil
}
