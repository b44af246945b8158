package realnode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// part is a device of the machine.
type part struct {
	trial.Part
	// key is the device's name for the lab's tool; empty for a device with firmware of its own.
	key string
}

// The two devices that the lab's tool flashes: the disk runs an image at once, so that it must not be the one under /, the adapter after a reboot.
var (
	disk    = part{trial.Part{Rule: "disk", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, SerialNumbers: []string{seedSerial}}}, seedSerial}
	adapter = part{trial.Part{Rule: "adapter", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Models: []string{"Virtio network device"}}}, "eth0"}
)

// target is the desired firmware of one part.
type target struct {
	trial.Target
	key string
}

// toolTarget has an image that the lab's tool takes this many seconds to write.
func toolTarget(p part, version string, seconds int) target {
	return target{trial.Target{Part: p.Part, Version: version, Image: fmt.Appendf(nil, "%s\n%d\n", version, seconds)}, p.key}
}

// writing waits until the tool writes to a device, and returns the tool's process.
func (s *scene) writing(ctx context.Context) (int, error) {
	pid := 0
	return pid, s.Until(ctx, "the tool writes", func(ctx context.Context) (bool, error) {
		if job, err := s.Job(ctx); err == nil && job != nil && job.Ended() {
			return false, trial.Fatalf("the job ended before: %s", trial.Describe(job))
		}
		ran, err := s.node.agent.Run(ctx, "pgrep", "-o", "-f", guest.FlashTool+" .* write$")
		if err != nil || ran.ExitCode != 0 {
			return false, err
		}
		_, err = fmt.Sscan(ran.Stdout, &pid)
		return err == nil, err
	})
}

// stillWriting requires that the process that writes is the same as before.
func (s *scene) stillWriting(ctx context.Context, pid int) error {
	ran, err := s.node.agent.Run(ctx, "pgrep", "-f", guest.FlashTool+" .* write$")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(ran.Stdout), fmt.Sprint(pid)) {
		return fmt.Errorf("the process %d that wrote is gone: %q are there", pid, ran.Stdout)
	}
	return nil
}

// writes is how many writes of an image began and how many of them ended.
type writes struct{ begun, ended int }

// completed waits until the job is done, the node takes pods again and the NodeDevice shows the version, and requires that the
// device of the lab's tool runs it after these writes.
func (s *scene) completed(ctx context.Context, w target, want writes, before guest.FlashState) error {
	job, err := s.Complete(ctx, w.Target)
	if err != nil {
		return err
	}
	after, err := s.node.flash(ctx, w.key)
	if err != nil {
		return err
	}
	if got := (writes{after.Begun - before.Begun, after.Ended - before.Ended}); after.Running != w.Version || got != want {
		return fmt.Errorf("the device runs %s after writes %+v instead of %s after %+v: %s", after.Running, got, w.Version, want, trial.Describe(job))
	}
	return nil
}
