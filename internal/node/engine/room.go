package engine

import (
	"cmp"
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// keptFree is what stays free on a file system beside a copy, in bytes: the journal needs room, and a node that is full evicts pods.
const keptFree = 64 << 20

// toCopy remembers that a tool of this job gets a copy of the image, where that is made on disk. Tools run one after the other, so only the
// largest copy in a directory counts. Whether a driver lets a tool read a copy is not known: one that does not needs the room for nothing.
func (x *execution) toCopy(img driver.Image) {
	if img.Size <= cmp.Or(x.cfg.MaxInMemory, command.MaxInMemory) {
		return
	}
	if x.copies == nil {
		x.copies = map[string]int64{}
	}
	dir := filepath.Dir(img.Path)
	x.copies[dir] = max(x.copies[dir], img.Size)
}

// room returns an error that wraps syscall.ENOSPC when a file system has no room for a copy of an image. One that does not say what it has
// left is copied to: the copy will tell.
func (x *execution) room() error {
	if x.cfg.Free == nil {
		return nil
	}
	for dir, size := range x.copies {
		if free, err := x.cfg.Free(dir); err == nil && free < size+keptFree {
			const mebibyte = 1 << 20
			return fmt.Errorf("the file system of %s is full: %d MiB are left and %d MiB are needed, of which %d MiB are for a copy of the image that its "+
				"tool reads and %d MiB stay free for the node; nothing was written; make room there: %w", dir, free/mebibyte,
				(size+keptFree+mebibyte-1)/mebibyte, (size+mebibyte-1)/mebibyte, keptFree/mebibyte, syscall.ENOSPC)
		}
	}
	return nil
}
