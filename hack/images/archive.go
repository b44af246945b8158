package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// archive is an image as `docker save` writes it: https://github.com/moby/docker-image-spec, and the file manifest.json.
type archive struct {
	file *os.File
	// at are the places of the members.
	at map[string]*io.SectionReader
	// ID is the digest of the image's configuration, which contains those of its layers.
	ID string
	// Layers are from the base upwards.
	Layers []layer
}

// layer is one layer of an image.
type layer struct {
	// DiffID is the digest of the unpacked layer.
	DiffID string
	// Size of the unpacked layer in bytes.
	Size int64

	member string
}

// openArchive reads the lists of an archive; the caller closes it.
func openArchive(path string) (*archive, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
	a := &archive{file: file, at: map[string]*io.SectionReader{}}
	if err := errors.Join(a.index(), a.read()); err != nil {
		return nil, errors.Join(fmt.Errorf("read image %s: %w", path, err), file.Close())
	}
	return a, nil
}

func (a *archive) close() error { return a.file.Close() }

// index finds the members. A tar reader reads no further than the header of the next one.
func (a *archive) index() error {
	links := map[string]string{}
	for r := tar.NewReader(a.file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeSymlink {
			links[h.Name] = h.Linkname
			continue
		}
		at, err := a.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		a.at[h.Name] = io.NewSectionReader(a.file, at, h.Size)
	}
	return nil
}

func (a *archive) read() error {
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := a.unmarshal("manifest.json", &manifest); err != nil {
		return err
	}
	if len(manifest) != 1 {
		return fmt.Errorf("it holds %d images and not one", len(manifest))
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := a.unmarshal(manifest[0].Config, &config); err != nil {
		return err
	}
	if len(config.RootFS.DiffIDs) != len(manifest[0].Layers) {
		return fmt.Errorf("its configuration names %d layers, and it holds %d", len(config.RootFS.DiffIDs), len(manifest[0].Layers))
	}
	// The member is named after its digest: DIGEST.json, or blobs/sha256/DIGEST.
	name := strings.TrimSuffix(manifest[0].Config, ".json")
	a.ID = "sha256:" + name[strings.LastIndexByte(name, '/')+1:]
	for i, member := range manifest[0].Layers {
		l := layer{DiffID: config.RootFS.DiffIDs[i], member: member}
		content, err := a.layer(l)
		if err != nil {
			return err
		}
		if l.Size, err = io.Copy(io.Discard, content); err != nil {
			return fmt.Errorf("read layer %s: %w", l.DiffID, err)
		}
		a.Layers = append(a.Layers, l)
	}
	return nil
}

func (a *archive) unmarshal(member string, into any) error {
	at, ok := a.at[member]
	if !ok {
		return fmt.Errorf("it has no %s: it is not what `docker save` writes", member)
	}
	raw, err := io.ReadAll(io.NewSectionReader(at, 0, at.Size()))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read %s: %w", member, err)
	}
	return nil
}

// layer is the unpacked content of a layer, whether or not the archive has it compressed.
func (a *archive) layer(l layer) (io.Reader, error) {
	at, ok := a.at[l.member]
	if !ok {
		return nil, fmt.Errorf("it has no layer %s", l.member)
	}
	r := bufio.NewReaderSize(io.NewSectionReader(at, 0, at.Size()), 1<<16)
	if magic, _ := r.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return gzip.NewReader(r)
	}
	return r, nil
}

// files calls f for every regular file that a container of the image sees, with its path from the root without a leading slash. It goes
// from the highest layer to the lowest and leaves out what a higher one replaces or removes. A hard link is no file of its own.
func (a *archive) files(f func(name string, h *tar.Header, content io.Reader) error) error {
	above := newCover()
	for _, l := range slices.Backward(a.Layers) {
		content, err := a.layer(l)
		if err != nil {
			return err
		}
		// What a layer removes is never its own: its marks hold for the layers below it, wherever in the layer they are.
		own := newCover()
		for r := tar.NewReader(content); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
				if file := own.add(name, h.Typeflag); file && h.Typeflag == tar.TypeReg && !above.hides(name) {
					err = f(name, h, r)
				}
			}
			if err != nil {
				return fmt.Errorf("read layer %s: %w", l.DiffID, err)
			}
		}
		above.merge(own)
	}
	return nil
}

// size of all layers, unpacked.
func (a *archive) size() int64 {
	var n int64
	for _, l := range a.Layers {
		n += l.Size
	}
	return n
}
