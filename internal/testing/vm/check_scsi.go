package vm

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// scsiDisk is the disk of scsi_debug.
var scsiDisk = trial.Part{Rule: "scsi", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Models: []string{"scsi_debug"}}}

// scsiWrites counts the images that began to arrive in the kernel's module.
const scsiWrites = "/sys/module/scsi_debug/parameters/lab_writes"

// scsiImage is an image whose first four bytes are the revision the disk shows when it runs it.
func scsiImage(revision string) []byte {
	return append([]byte(revision), bytes.Repeat([]byte("node-firmware-operator lab image"), 64<<10)...)
}

// R000-8: the device itself reports what runs, and the machine is not rebooted.
func scsiFlashed(ctx context.Context, s *scene) (string, error) {
	if err := s.agent().Plug(ctx, "scsi_debug"); err != nil {
		return "", err
	}
	return s.scsi(ctx, "0001", "0002", nil)
}

// scsiDelay is how long the disk takes for each command, in nanoseconds.
const scsiDelay = "/sys/bus/pseudo/drivers/scsi_debug/ndelay"

// R003-49: the write continues without the daemon. The next daemon finds it still running and waits for it; the disk is
// slow enough for that. If the write has ended meanwhile it is repeated, because the disk does not report what it
// stores.
func scsiKilled(ctx context.Context, s *scene) (string, error) {
	if err := s.Runs(ctx, scsiDisk, "0002"); err != nil {
		return "", err
	}
	if err := s.scsiTakes(ctx, 20*time.Millisecond); err != nil {
		return "", err
	}
	detail, err := s.scsi(ctx, "0002", "0003", func() error { return s.killWhile(ctx, "sg_write_buffer") })
	if err != nil {
		return "", err
	}
	return detail, s.scsiTakes(ctx, time.Millisecond)
}

// scsiTakes changes how long the disk takes for a command. The disk refuses the change while it executes one.
func (s *scene) scsiTakes(ctx context.Context, delay time.Duration) error {
	value := strconv.FormatInt(delay.Nanoseconds(), 10)
	return s.Until(ctx, "the disk takes another time", func(ctx context.Context) (bool, error) {
		_ = s.agent().Write(ctx, scsiDelay, value)
		now, err := s.agent().Read(ctx, scsiDelay)
		return now == value, err
	})
}

func (s *scene) scsi(ctx context.Context, from, to string, disturb func() error) (string, error) {
	if err := s.Runs(ctx, scsiDisk, from); err != nil {
		return "", err
	}
	before, err := s.agent().Number(ctx, scsiWrites)
	if err != nil {
		return "", err
	}
	err = s.rebooted(0, func() error {
		return s.flashed(ctx, disturb, trial.Target{Part: scsiDisk, Version: to, Image: scsiImage(to)})
	})
	if err != nil {
		return "", err
	}
	shown, err := s.agent().Read(ctx, "/sys/module/scsi_debug/parameters/inq_rev")
	if err != nil {
		return "", err
	}
	if shown != to {
		return "", fmt.Errorf("the kernel's module shows revision %q instead of %q", shown, to)
	}
	after, err := s.agent().Number(ctx, scsiWrites)
	if err != nil {
		return "", err
	}
	if after == before || after > before+2 || after > before+1 && disturb == nil {
		return "", fmt.Errorf("%d images were written instead of one", after-before)
	}
	return from + " to " + to, nil
}
