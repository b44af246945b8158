package labvm

import (
	"bytes"
	"context"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// scsiDisk is the disk of scsi_debug.
var scsiDisk = part{"scsi", v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Models: []string{"scsi_debug"}}}

// scsiWrites counts the images that began to arrive in the kernel's module.
const scsiWrites = "/sys/module/scsi_debug/parameters/lab_writes"

// scsiImage is an image whose first four bytes are the revision the disk shows when it runs it.
func scsiImage(revision string) []byte {
	return append([]byte(revision), bytes.Repeat([]byte("node-firmware-operator lab image"), 64<<10)...)
}

// R000-8: what runs is told by the device itself, and the machine is not rebooted for it.
func scsiFlashed(ctx context.Context, s *scene) (string, error) {
	if err := s.agent().plug(ctx, "scsi_debug"); err != nil {
		return "", err
	}
	return s.scsi(ctx, "0001", "0002", nil)
}

// R003-49: the write goes on without the daemon, and is not repeated.
func scsiKilled(ctx context.Context, s *scene) (string, error) {
	return s.scsi(ctx, "0002", "0003", func() error { return s.killWhile(ctx, "sg_write_buffer") })
}

func (s *scene) scsi(ctx context.Context, from, to string, disturb func() error) (string, error) {
	if err := s.runs(ctx, scsiDisk, from); err != nil {
		return "", err
	}
	before, err := s.agent().number(ctx, scsiWrites)
	if err != nil {
		return "", err
	}
	err = s.rebooted(0, func() error { return s.flashed(ctx, disturb, wish{scsiDisk, to, scsiImage(to)}) })
	if err != nil {
		return "", err
	}
	shown, err := s.agent().read(ctx, "/sys/module/scsi_debug/parameters/inq_rev")
	if err != nil {
		return "", err
	}
	if shown != to {
		return "", fmt.Errorf("the kernel's module shows revision %q instead of %q", shown, to)
	}
	after, err := s.agent().number(ctx, scsiWrites)
	if err != nil {
		return "", err
	}
	if after != before+1 {
		return "", fmt.Errorf("%d images were written instead of one", after-before)
	}
	return from + " to " + to, nil
}
