package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// ErrExists says that the target of a backup already exists.
var ErrExists = errors.New("it already exists and is not overwritten")

// Write archives an image as the new directory dir, outside any store. The directory appears only when it is complete.
func Write(ctx context.Context, fsys durable.FS, dir string, m Manifest, fill func(ctx context.Context, path string) error) error {
	fail := func(err error) error { return fmt.Errorf("back up to %s: %w", dir, err) }
	if err := m.complete(); err != nil {
		return fail(err)
	}
	names, err := fsys.ReadDir(filepath.Dir(dir))
	if err != nil {
		return fail(err)
	}
	for _, n := range names {
		if n.Name() == filepath.Base(dir) {
			return fail(ErrExists)
		}
	}
	temp := filepath.Join(filepath.Dir(dir), durable.TempPrefix+filepath.Base(dir))
	if err := fsys.RemoveAll(temp); err != nil {
		return fail(err)
	}
	if err := build(ctx, fsys, temp, m, fill); err != nil {
		return errors.Join(fail(err), fsys.RemoveAll(temp))
	}
	if err := appear(fsys, temp, dir); err != nil {
		return fail(err)
	}
	return nil
}

// Load verifies a directory that Write made, or a copy of an entry, and returns its image.
func Load(fsys durable.FS, dir string) (driver.Image, Manifest, error) {
	m, err := readManifest(fsys, dir)
	if err != nil {
		return driver.Image{}, m, fmt.Errorf("restore from %s: %w", dir, err)
	}
	img, err := imageOf(fsys, dir, m)
	if err != nil {
		return driver.Image{}, m, fmt.Errorf("restore from %s: %w", dir, err)
	}
	return img, m, nil
}

// build creates a directory with the image that fill writes and its manifest, and syncs all of it.
func build(ctx context.Context, fsys durable.FS, dir string, m Manifest, fill func(context.Context, string) error) error {
	if err := fsys.Mkdir(dir); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	image := filepath.Join(dir, imageFile)
	if err := fill(ctx, image); err != nil {
		return err
	}
	if err := regular(fsys, dir); err != nil {
		return err
	}
	if err := fsys.SyncFile(image); err != nil {
		return fmt.Errorf("sync image: %w", err)
	}
	digest, size, err := hash(fsys, image)
	if err != nil {
		return err
	}
	if size == 0 {
		return errors.New("the image is empty")
	}
	m.Digest, m.Size = digest.String(), size
	return m.write(fsys, dir)
}

// write makes the manifest that of the entry.
func (m Manifest) write(fsys durable.FS, dir string) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	return durable.WriteFile(fsys, filepath.Join(dir, manifestFile), append(raw, '\n'))
}

// regular makes sure that the image is a regular file and not a link to one that may change.
func regular(fsys durable.FS, dir string) error {
	files, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Name() == imageFile && f.Type().IsRegular() {
			return nil
		}
	}
	return fmt.Errorf("no image was written: %w", fs.ErrNotExist)
}

// appear gives a complete directory its name.
func appear(fsys durable.FS, temp, dir string) error {
	err := fsys.Rename(temp, dir)
	if errors.Is(err, syscall.EXDEV) {
		err = fmt.Errorf("%w: the archive must be on one file system; mount nothing below it", err)
	}
	if err != nil {
		return errors.Join(err, fsys.RemoveAll(temp))
	}
	return fsys.SyncDir(filepath.Dir(dir))
}
