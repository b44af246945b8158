package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
)

// fullDisk is a journal that cannot be written, for the reason given; nil when it can.
type fullDisk struct {
	Journal
	err   error
	saved int
}

// Save implements Journal.
func (d *fullDisk) Save(journal.Job, ...journal.Device) error {
	d.saved++
	return d.err
}

// A disk that is full is full at each look, every two seconds: it is tried again each time, and said once for each cause.
func TestAWaitThatCannotBeJournalledIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	disk := &fullDisk{err: errors.New("no space left on device")}
	x := &execution{Engine: &Engine{cfg: Config{Journal: disk, Log: slog.New(slog.NewTextHandler(&log, nil))}}}
	said := func() int { return strings.Count(log.String(), "could not be journalled") }
	look := func(times int) {
		for range times {
			x.note(&journal.CutOff{BootID: "b", Since: time.Minute, Seen: time.Minute})
		}
	}
	look(100)
	assert.Equal(t, 100, disk.saved)
	assert.Equal(t, 1, said())
	disk.err = errors.New("read-only file system")
	look(100)
	assert.Equal(t, 2, said())
	disk.err = nil
	look(100)
	assert.Equal(t, 201, disk.saved, "and then it is written")
	disk.err = errors.New("read-only file system")
	x.note(nil)
	assert.Equal(t, 3, said(), "it is another failure")
}
