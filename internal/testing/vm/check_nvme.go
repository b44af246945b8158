package vm

import (
	"context"
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/nvmetool"
)

// Drives that implement firmware download, commit, slots and activation. The kernel's own initiator connects to them.
var (
	warmDrive = trial.Part{Rule: "nvme-warm", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Models: []string{"Lab NVMe Warm"}}}
	coldDrive = trial.Part{Rule: "nvme-cold", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Models: []string{"Lab NVMe Cold"}}}

	drives = []guest.Drive{
		{
			Model: warmDrive.Selector.Models[0], Serial: "LABNVME2", Revision: "WARM1", Port: 4420,
			Activation: nvmectrl.AtControllerReset, PieceTime: 10 * time.Millisecond,
		},
		{
			Model: coldDrive.Selector.Models[0], Serial: "LABNVME3", Revision: "COLD1", Port: 4421,
			Activation: nvmectrl.AtPowerCycle,
		},
	}
)

// drivePayload is large enough for the download to take seconds.
var drivePayload = make([]byte, 1<<20)

func driveTarget(p trial.Part, revision string) (trial.Target, error) {
	image, err := nvmectrl.MakeImage(nvmectrl.Image{Model: p.Selector.Models[0], Revision: revision, Payload: drivePayload})
	return trial.Target{Part: p, Version: revision, Image: image}, err
}

func nvmeFlashed(ctx context.Context, s *scene) (string, error) {
	if err := s.agent().PlugDrives(ctx); err != nil {
		return "", err
	}
	return s.warm(ctx, "WARM1", "WARM2", nil)
}

// R003-49: the download continues without the daemon, and is not repeated.
func nvmeKilled(ctx context.Context, s *scene) (string, error) {
	return s.warm(ctx, "WARM2", "WARM3", func() error { return s.killWhile(ctx, nvmetool.Name) })
}

func (s *scene) warm(ctx context.Context, from, to string, disturb func() error) (string, error) {
	if err := s.Runs(ctx, warmDrive, from); err != nil {
		return "", err
	}
	w, err := driveTarget(warmDrive, to)
	if err != nil {
		return "", err
	}
	if err := s.rebooted(0, func() error { return s.flashed(ctx, disturb, w) }); err != nil {
		return "", err
	}
	held, err := s.agent().Drive(ctx, drives[0].Serial)
	if err != nil {
		return "", err
	}
	if held.Running.Revision != to || held.Slots[held.Active-1].Revision != to {
		return "", fmt.Errorf("the drive itself runs %q from slot %d", held.Running.Revision, held.Active)
	}
	return fmt.Sprintf("%s to %s in slot %d", from, to, held.Active), nil
}
