package labvm

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// checks run in this order on one machine. Limits are for a machine that is busy with other things.
var checks = []check{
	{"the machine boots and its Node is Ready", 5 * time.Minute, booted},
	{"an NVMe drive without firmware download is inventory only", 3 * time.Minute, inventoryOnly},
	{"a scsi_debug disk is flashed by WRITE BUFFER", 5 * time.Minute, scsiFlashed},
	{"the daemon is killed while it flashes the scsi_debug disk", 5 * time.Minute, scsiKilled},
}

func booted(ctx context.Context, s *scene) (string, error) {
	state, err := s.node.machine.waitBoot(ctx, "")
	if err != nil {
		return "", err
	}
	return "boot " + state.BootID, s.until(ctx, "the daemon has scanned", func() (bool, error) {
		var list v1alpha1.NodeDeviceList
		err := s.api.List(ctx, &list)
		return err == nil && len(list.Items) > 0, err
	})
}

// nvmePCIe is the drive QEMU emulates.
var nvmePCIe = part{"nvme-pcie", v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Models: []string{"QEMU NVMe Ctrl"}}}

// What cannot be updated says why.
func inventoryOnly(ctx context.Context, s *scene) (string, error) {
	const want = "OACS bit 2"
	var got string
	err := s.until(ctx, "the drive is listed", func() (bool, error) {
		d, err := s.device(ctx, nvmePCIe)
		if err != nil || d == nil {
			return false, err
		}
		got = d.Firmware.Running + ", " + d.Firmware.ReadOnly
		if !strings.Contains(d.Firmware.ReadOnly, want) {
			return false, fmt.Errorf("the reason is %q and does not say %q", d.Firmware.ReadOnly, want)
		}
		return true, nil
	})
	return got, err
}

// flashed requires that a job brings a wish to its device.
func (s *scene) flashed(ctx context.Context, w wish, disturb func() error) error {
	if err := s.declare(ctx, w); err != nil {
		return err
	}
	if disturb != nil {
		if err := s.flashing(ctx); err != nil {
			return err
		}
		if err := disturb(); err != nil {
			return err
		}
	}
	if _, err := s.complete(ctx); err != nil {
		return err
	}
	return s.runs(ctx, w.part, w.version)
}

// killDaemon ends the daemon with SIGKILL; the machine starts it again.
func (s *scene) killDaemon(ctx context.Context) error { return s.agent().kill(ctx, daemonService) }
