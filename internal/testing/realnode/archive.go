package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// An archive of images, as "docker save" writes it, holds manifest.json, a list of these, and the files that they name.
type archivedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

const archiveManifest = "manifest.json"

// writePause writes an archive with the image of the container that keeps the namespaces of a pod: the lab's own static
// program alone on an empty base.
func writePause(to, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("make pause image: %w", err)
	}
	layer, err := tarOf(entry{"pause", 0o755, binary})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": []string{"/pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]archivedImage{{Config: "config.json", RepoTags: []string{pauseImage}, Layers: []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	archive, err := tarOf(entry{archiveManifest, 0o644, manifest}, entry{"config.json", 0o644, config}, entry{"layer.tar", 0o644, layer})
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, archive, 0o644); err != nil {
		return fmt.Errorf("make pause image: %w", err)
	}
	return nil
}

// entry is a file of an archive.
type entry struct {
	name    string
	mode    int64
	content []byte
}

func tarOf(files ...entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
			return nil, fmt.Errorf("make archive: %w", err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("make archive: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("make archive: %w", err)
	}
	return out.Bytes(), nil
}

// image is the name of an image, in two parts as kustomize takes it.
type image struct{ Name, Tag string }

func (i image) String() string { return i.Name + ":" + i.Tag }

// maxManifest bounds the list of an archive, in bytes.
const maxManifest = 1 << 20

// findImages returns the operator's and the daemon's image among the archives, by the last part of their names.
func findImages(archives []string) (operator, daemon image, err error) {
	for _, a := range archives {
		names, err := imageNames(a)
		if err != nil {
			return operator, daemon, err
		}
		for _, n := range names {
			switch path.Base(n.Name) {
			case "operator":
				operator = n
			case "daemon":
				daemon = n
			}
		}
	}
	if operator.Tag == "" || daemon.Tag == "" {
		return operator, daemon, fmt.Errorf("the archives %q do not hold both images .../operator:TAG and .../daemon:TAG: run make images", archives)
	}
	return operator, daemon, nil
}

// imageNames are the names of the images in an archive.
func imageNames(archive string) ([]image, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, fmt.Errorf("read archive: %w", err)
	}
	defer f.Close()
	files := tar.NewReader(f)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read archive %s: it holds no %s, so it is none of images", archive, archiveManifest)
		}
		if err != nil {
			return nil, fmt.Errorf("read archive %s: %w", archive, err)
		}
		if path.Clean(h.Name) == archiveManifest {
			break
		}
	}
	var list []archivedImage
	if err := json.NewDecoder(io.LimitReader(files, maxManifest)).Decode(&list); err != nil {
		return nil, fmt.Errorf("read archive %s: %w", archive, err)
	}
	var out []image
	for _, i := range list {
		for _, t := range i.RepoTags {
			at := strings.LastIndexByte(t, ':')
			if at < 0 || strings.Contains(t[at:], "/") {
				return nil, fmt.Errorf("read archive %s: image %q has no tag", archive, t)
			}
			out = append(out, image{t[:at], t[at+1:]})
		}
	}
	return out, nil
}
