package devlink

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// searchPath is the kernel's parameter with the directory in which it looks for firmware first, a path in the mount
// namespace of process 1. There is one for the whole machine, and other programs use it too.
type searchPath struct {
	file string
	// say prints progress for people.
	say func(format string, values ...any)
}

const (
	// linkPrefix begins the names under which images are offered to the kernel.
	linkPrefix = ".firmware-devlink-"
	// noteName is the file beside the image that records the former value of the parameter.
	noteName = ".firmware-devlink.json"
)

// note is what the next run needs to know if this one is interrupted.
type note struct {
	// Path is what this run set the parameter to, and Former what it was.
	Path, Former string
}

// offer lets the kernel find the image while do runs, under a unique name so that no other file can be taken for it,
// and then restores the parameter. Only one image is offered at a time.
func (p searchPath) offer(image string, do func(name string) error) error {
	unlock, err := p.lock()
	if err != nil {
		return err
	}
	defer unlock()
	dir := filepath.Dir(image)
	if err := removeLeftLinks(dir); err != nil {
		return err
	}
	name := linkPrefix + rand.Text()
	if err := os.Link(image, filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("offer image to the kernel (copy it to a writable directory): %w", err)
	}
	defer func() {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			p.say("could not remove the second name of the image: %v", err)
		}
	}()
	restore, err := p.point(dir)
	if err != nil {
		return fmt.Errorf("offer image to the kernel: %w", err)
	}
	defer restore()
	return do(name)
}

// lock reserves the parameter for this process until unlock or the end of the process.
func (p searchPath) lock() (unlock func(), err error) {
	l := flock.New(p.file, flock.SetFlag(os.O_RDONLY)) // it is the kernel's file, and not to be created
	free, err := l.TryLock()
	if err == nil && !free {
		p.say("waiting for another flash on this machine to end")
		err = l.Lock()
	}
	if err != nil {
		return nil, fmt.Errorf("lock where the kernel looks for firmware, %s: %w", p.file, err)
	}
	return func() { _ = l.Close() }, nil
}

// point sets the parameter. Before that it records the former value, which is the one in the note of an interrupted run
// if there is such a note.
func (p searchPath) point(dir string) (restore func(), err error) {
	now, err := p.read()
	if err != nil {
		return nil, err
	}
	former, left := now, readNote(now)
	if left != nil {
		p.say("an earlier flash was interrupted; the kernel's firmware search path before it was %q", left.Former)
		former = left.Former
	}
	if now == dir && left == nil {
		return func() {}, nil
	}
	if err := writeNote(dir, former); err != nil {
		return nil, err
	}
	if err := p.set(dir); err != nil {
		return nil, errors.Join(err, removeNote(dir))
	}
	if left != nil && now != dir {
		if err := removeNote(now); err != nil {
			p.say("could not remove the record of the earlier flash: %v", err)
		}
	}
	return func() { p.restore(dir, former) }, nil
}

// restore restores the parameter, unless another program has set it meanwhile. An error here is not a failure of the
// flash: the note stays, and the next run tries again.
func (p searchPath) restore(dir, former string) {
	now, err := p.read()
	switch {
	case err == nil && now != dir:
		p.say("another program has set the kernel's firmware search path to %q meanwhile; it is not changed", now)
	case err == nil:
		err = p.set(former)
	}
	if err == nil {
		err = removeNote(dir)
	}
	if err != nil {
		p.say("could not restore the kernel's firmware search path %q: %v", former, err)
	}
}

// read returns the value without the line end that the kernel adds.
func (p searchPath) read() (string, error) {
	value, err := os.ReadFile(p.file)
	if err != nil {
		return "", fmt.Errorf("read the kernel's firmware search path: %w", err)
	}
	return string(bytes.TrimSuffix(value, []byte("\n"))), nil
}

// set writes the value and reads it back. Writing zero bytes has no effect, so an empty value is written as its
// terminating byte.
func (p searchPath) set(value string) error {
	f, err := os.OpenFile(p.file, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		text := value
		text = cmp.Or(text, "\x00")
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("set the kernel's firmware search path to %q: %w", value, err)
	}
	return nil
}

// readNote returns the note of an interrupted run that set the parameter to the directory; nil when there is none.
func readNote(dir string) *note {
	if !filepath.IsAbs(dir) {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(dir, noteName))
	var n note
	if err != nil || json.Unmarshal(data, &n) != nil || n.Path != dir {
		return nil
	}
	return &n
}

func writeNote(dir, former string) error {
	data, err := json.Marshal(note{Path: dir, Former: former})
	if err != nil {
		return fmt.Errorf("record the kernel's firmware search path: %w", err)
	}
	return durable.WriteFile(durable.OS{}, filepath.Join(dir, noteName), data)
}

func removeNote(dir string) error {
	if err := os.Remove(filepath.Join(dir, noteName)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// removeLeftLinks removes the links of interrupted runs. The caller holds the lock.
func removeLeftLinks(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("offer image to the kernel: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), linkPrefix) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("offer image to the kernel: %w", err)
			}
		}
	}
	return nil
}
