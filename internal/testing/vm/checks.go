package vm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// checkLimit bounds a check. Each takes less than a minute on an idle machine; the limit is for a busy one.
const checkLimit = 10 * time.Minute

// checks run in this order on one machine. The checks of a group build on each other, and otherwise only on boot.
var checks = trial.Checks[*scene]{
	trial.New("boot", "the machine boots and its Node is Ready", booted),
	trial.New("inventory", "an NVMe drive without firmware download is inventory only", inventoryOnly),
	trial.New("scsi", "a scsi_debug disk is flashed by WRITE BUFFER", scsiFlashed),
	trial.New("scsi", "the daemon is killed while it flashes the scsi_debug disk", scsiKilled),
	trial.New("nvme", "an NVMe/TCP drive is flashed and activated by a controller reset", nvmeFlashed),
	trial.New("nvme", "the daemon is killed while it flashes the NVMe/TCP drive", nvmeKilled),
	trial.New("devlink", "netdevsim by devlink and an NVMe drive are flashed, and one reboot activates both", rebootResumed),
	trial.New("devlink", "the daemon is killed while the kernel flashes netdevsim without reporting progress", devlinkKilled),
	trial.New("devlink", "a flash of netdevsim that fails holds the node until it is released", devlinkFailed),
	trial.New("devlink", "netdevsim has no activation without a reboot", devlinkNotActivated),
	trial.New("devlink", "a parameter of netdevsim is set and comes into force with a reload of its driver", devlinkConfigured),
	trial.New("fwupd", "fwupd's test device is updated through a tool profile", fwupdUpdated),
	trial.New("fwupd", "the daemon is killed while fwupd's client writes", fwupdKilled),
	trial.New("tpm", "a job leaves a disk alone that the TPM alone would open, until there is another way", unlockKept),
	trial.New("uefi", "on a machine with UEFI the daemon reads what the firmware's variables say of capsules", variablesRead),
}

// Groups are the names of the groups of checks.
func Groups() []string { return checks.Groups() }

func booted(ctx context.Context, s *scene) (string, error) {
	state, err := s.node.machine.waitBoot(ctx, "")
	if err != nil {
		return "", err
	}
	return "boot " + state.BootID, s.Until(ctx, "the daemon has scanned", func(ctx context.Context) (bool, error) {
		var list v1alpha1.NodeDeviceList
		err := s.API.List(ctx, &list)
		return err == nil && len(list.Items) > 0, err
	})
}

// nvmePCIe is the drive that QEMU emulates.
var nvmePCIe = trial.Part{Rule: "nvme-pcie", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Models: []string{"QEMU NVMe Ctrl"}}}

// A device that cannot be updated says why.
func inventoryOnly(ctx context.Context, s *scene) (string, error) {
	const want = "OACS bit 2"
	var got string
	err := s.Until(ctx, "the drive is listed", func(ctx context.Context) (bool, error) {
		d, err := s.Device(ctx, nvmePCIe)
		if err != nil || d == nil {
			return false, err
		}
		got = d.Firmware.Running + ", " + strings.Join(d.Firmware.Notes, "; ")
		if !strings.Contains(strings.Join(d.Firmware.Notes, "; "), want) {
			return false, trial.Fatalf("the reason is %q and does not say %q", strings.Join(d.Firmware.Notes, "; "), want)
		}
		return true, nil
	})
	return got, err
}

// flashed requires that one job brings the targets to their devices. Disturb is called after they are declared. Without
// it each image is written once. A step whose end no daemon saw is begun once more, and then finds what the device
// stores; a device that does not report that is written once more.
func (s *scene) flashed(ctx context.Context, disturb func() error, targets ...trial.Target) error {
	attempts := int32(1)
	if disturb != nil {
		attempts = 2
	}
	if err := s.Declare(ctx, targets...); err != nil {
		return err
	}
	if disturb != nil {
		if err := disturb(); err != nil {
			return err
		}
	}
	job, err := s.complete(ctx, targets...)
	if err != nil {
		return err
	}
	for _, st := range job.Status.Steps {
		if st.Name == "flash" && st.Attempt > attempts {
			return fmt.Errorf("an image was written too often: %s", trial.Describe(job))
		}
	}
	return nil
}

// rebooted requires that the machine reboots this many times during do.
func (s *scene) rebooted(times int, do func() error) error {
	before := s.node.bootCount()
	if err := do(); err != nil {
		return err
	}
	if n := s.node.bootCount() - before; n != times {
		return fmt.Errorf("the machine rebooted %d times instead of %d", n, times)
	}
	return nil
}

// killWhile ends the daemon with SIGKILL while a tool writes to a device. The tool continues without it. The machine
// restarts the daemon.
func (s *scene) killWhile(ctx context.Context, tool string) error {
	var writing []int
	err := s.Until(ctx, tool+" writes", func(ctx context.Context) (ok bool, err error) {
		if writing, err = s.agent().Processes(ctx, tool); err != nil || len(writing) > 0 {
			return true, err
		}
		job, err := s.Job(ctx)
		if err == nil && job != nil && job.Ended() {
			err = trial.Fatalf("the job ended: %s", trial.Describe(job))
		}
		return false, err
	})
	if err != nil {
		return err
	}
	if err := s.agent().Kill(ctx, daemonService); err != nil {
		return err
	}
	after, err := s.agent().Processes(ctx, tool)
	if err != nil {
		return err
	}
	if len(after) > 0 && !slices.Equal(writing, after) {
		return fmt.Errorf("%s was process %v and is %v after the daemon's end: it was started again", tool, writing, after)
	}
	return nil
}
