package vm

import (
	"context"
	"fmt"
	"os"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// systemFirmware is fwupd's test device, which the profile makes the machine's BIOS.
var systemFirmware = trial.Part{Rule: "fwupd", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS, Models: []string{"LabMachine"}}}

// fwupdUpdated installs an image of Debian's package with fwupd's own client.
func fwupdUpdated(ctx context.Context, s *scene) (string, error) {
	return s.fwupd(ctx, "1.2.2", "1.2.3", nil)
}

// R003-49: fwupd's client continues without the daemon, and is not run again.
func fwupdKilled(ctx context.Context, s *scene) (string, error) {
	return s.fwupd(ctx, "1.2.3", "1.2.4", func() error { return s.killWhile(ctx, "local-install") })
}

func (s *scene) fwupd(ctx context.Context, from, to string, disturb func() error) (string, error) {
	image, err := os.ReadFile(s.base.file(cabs[to]))
	if err != nil {
		return "", fmt.Errorf("read image: %w", err)
	}
	if err := s.Runs(ctx, systemFirmware, from); err != nil {
		return "", err
	}
	return from + " to " + to, s.flashed(ctx, disturb, trial.Target{Part: systemFirmware, Version: to, Image: image})
}
