package realnode

import (
	"context"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// kernelDevice is a device that the kernel emulates: the driver of the product reaches it from inside the pod as it reaches
// hardware.
type kernelDevice struct {
	rule, from, to string
	device         vm.Device
	// plug plugs it in.
	plug func(ctx context.Context, s *scene) error
	// reboots is whether the image runs after a reboot of the node.
	reboots bool
}

func (k kernelDevice) run(ctx context.Context, s *scene) (string, error) {
	if err := s.hurry(ctx); err != nil {
		return "", err
	}
	if err := k.plug(ctx, s); err != nil {
		return "", err
	}
	p := trial.Part{Rule: k.rule, Selector: k.device.Selector}
	if err := s.Runs(ctx, p, k.from); err != nil {
		return "", err
	}
	boot, err := s.boot(ctx)
	if err != nil {
		return "", err
	}
	image, err := k.device.Image(k.to)
	if err != nil {
		return "", err
	}
	w := trial.Target{Part: p, Version: k.to, Image: image}
	if err := s.Declare(ctx, w); err != nil {
		return "", err
	}
	if k.reboots {
		if err := s.back(ctx, boot); err != nil {
			return "", err
		}
	}
	job, err := s.Complete(ctx, w)
	if err != nil {
		return "", err
	}
	now, err := s.boot(ctx)
	if err != nil {
		return "", err
	}
	if now != boot != k.reboots {
		return "", fmt.Errorf("the node rebooted, or did not, against what the device needs: %s", trial.Describe(job))
	}
	return k.from + " to " + k.to, nil
}

// module loads the module of a device.
func module(name string) func(ctx context.Context, s *scene) error {
	return func(ctx context.Context, s *scene) error { return s.node.agent.Plug(ctx, name) }
}

func drives(ctx context.Context, s *scene) error { return s.node.agent.PlugDrives(ctx) }
