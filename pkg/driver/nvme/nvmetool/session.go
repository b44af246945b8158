package nvmetool

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
)

// session is one call of the tool on the intended drive.
type session struct {
	tool       Tool
	options    options
	controller admin.Controller
	stdout     io.Writer
}

func (s session) answered(phase string, status admin.Status) {
	_, _ = fmt.Fprintf(s.stdout, "%s status %#x\n", phase, uint16(status))
}

// downloadCommit sends the image piece by piece, and commits it when the drive accepted all pieces.
func (s session) downloadCommit() (admin.Status, error) {
	image, err := s.options.readImage()
	if err != nil {
		return 0, usageError{err}
	}
	shown := -1
	for at := 0; at < len(image); at += s.options.piece {
		if percent := at * 100 / len(image); percent > shown {
			shown = percent
			_, _ = fmt.Fprintf(s.stdout, "download %d%%\n", percent)
		}
		piece := image[at:min(at+s.options.piece, len(image))]
		status, err := admin.Download(s.controller, piece, at)
		if err != nil {
			return 0, fmt.Errorf("download firmware at byte %d of %d: %w", at, len(image), err)
		}
		if status != admin.Success {
			s.answered(PhaseDownload, status)
			return status, nil
		}
	}
	s.answered(PhaseDownload, admin.Success)
	return s.commitWith(admin.ReplaceAtReset)
}

func (s session) commit() (admin.Status, error) { return s.commitWith(s.options.action) }

func (s session) commitWith(action admin.Action) (admin.Status, error) {
	status, err := admin.Commit(s.controller, s.options.slot, action)
	if err != nil {
		return 0, fmt.Errorf("commit slot %d with action %d: %w", s.options.slot, action, err)
	}
	s.answered(PhaseCommit, status)
	return status, nil
}

func (s session) sanitize() (admin.Status, error) {
	status, err := admin.Sanitize(s.controller, s.options.erasure)
	if err != nil {
		return 0, fmt.Errorf("sanitize with action %d: %w", s.options.erasure, err)
	}
	s.answered(PhaseSanitize, status)
	return status, nil
}

// reset resets the controller and waits until it answers: a controller on a network is connected again only some time after
// the reset returned.
func (s session) reset() (admin.Status, error) {
	err := s.controller.Reset()
	if err != nil && !errors.Is(err, admin.ErrNotReady) {
		return 0, err
	}
	deadline := time.NewTimer(s.tool.Return)
	defer deadline.Stop()
	pause := time.NewTicker(s.tool.Pause)
	defer pause.Stop()
	for {
		_, asked := admin.Identify(s.controller)
		switch {
		case asked == nil:
			s.answered(PhaseReset, admin.Success)
			return admin.Success, nil
		case errors.Is(asked, admin.ErrGone):
			return 0, fmt.Errorf("after its reset: %w", asked)
		}
		select {
		case <-deadline.C:
			return 0, errors.Join(fmt.Errorf("the drive does not answer %v after its reset", s.tool.Return), err, asked)
		case <-pause.C:
		}
	}
}

// maxImage bounds an image in bytes; those of drives have a few MiB.
const maxImage = 256 << 20

// readImage reads the whole image and compares its digest with the one that was verified.
func (o options) readImage() ([]byte, error) {
	f, err := os.Open(o.image)
	if err != nil {
		return nil, fmt.Errorf("open image: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxImage+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read image: %w", err)
	case len(data) == 0 || len(data)%4 != 0 || len(data) > maxImage:
		return nil, fmt.Errorf("image %s has %d bytes: want a multiple of 4 up to %d", o.image, len(data), maxImage)
	case sha256.Sum256(data) != o.digest:
		return nil, fmt.Errorf("the content of %s is not %s: nothing was sent", o.image, o.digest)
	}
	return data, nil
}
