package realnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// containerdConfig is the file in which containerd is told who makes the groups of containers: systemd, or itself.
const (
	containerdConfig = "/etc/containerd/config.toml"
	withSystemd      = "SystemdCgroup = true"
	withoutSystemd   = "SystemdCgroup = false"
)

// withoutSystemdGroups updates a device on a node whose containerd makes the groups of containers itself, beside systemd: the write is
// in a scope of the host's systemd there too, and outlives the pod. The node boots as it was before the next time.
func withoutSystemdGroups(ctx context.Context, s *scene) (string, error) {
	group, err := s.daemonGroup(ctx)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(group, notOfSystemd) {
		if err := s.rebootWithout(ctx); err != nil {
			return "", err
		}
	}
	err = s.Until(ctx, "the daemon runs in a group that is not systemd's", func(ctx context.Context) (bool, error) {
		group, err = s.daemonGroup(ctx)
		if err == nil && !strings.HasPrefix(group, notOfSystemd) {
			err = fmt.Errorf("it is in %s", group)
		}
		return err == nil, err
	})
	if err != nil {
		return "", err
	}
	detail, err := disturbance{"1.8.1", 1, forceDeleted}.run(ctx, s)
	if err != nil {
		return "", err
	}
	return detail + " beside " + group, s.configure(ctx, withSystemd)
}

// notOfSystemd begins the path of a group of containers that systemd did not make.
const notOfSystemd = "/kubepods/"

// daemonGroup is the group of the daemon's process.
func (s *scene) daemonGroup(ctx context.Context) (string, error) {
	pid, err := s.daemonProcess(ctx)
	if err != nil {
		return "", err
	}
	group, err := s.node.agent.Read(ctx, "/proc/"+pid+"/cgroup")
	return strings.TrimPrefix(group, "0::"), err
}

// daemonProcess is the id of the daemon's process on the machine.
func (s *scene) daemonProcess(ctx context.Context) (string, error) {
	ran, err := s.node.agent.Run(ctx, "pgrep", "-o", "-f", "firmware-daemon run")
	if err != nil || ran.ExitCode != 0 {
		return "", errors.Join(errors.New("no daemon runs"), err)
	}
	return strings.TrimSpace(ran.Stdout), nil
}

// configure tells containerd who makes groups from its next start on. Running containers stay where they are, so that the host has to boot.
func (s *scene) configure(ctx context.Context, who string) error {
	config, err := s.node.agent.Read(ctx, containerdConfig)
	if err != nil {
		return err
	}
	changed := strings.NewReplacer(withSystemd, who, withoutSystemd, who).Replace(config)
	if strings.Count(changed, who) != 1 {
		return fmt.Errorf("%s does not say once who makes groups", containerdConfig)
	}
	return s.node.agent.Write(ctx, containerdConfig, changed)
}

// rebootWithout reboots the host, in order, and containerd makes the groups of containers without systemd afterwards.
func (s *scene) rebootWithout(ctx context.Context) error {
	boot, err := s.boot(ctx)
	if err != nil {
		return err
	}
	if err := s.configure(ctx, withoutSystemd); err != nil {
		return err
	}
	if ran, err := s.node.agent.Run(ctx, "systemctl", "reboot"); err != nil || ran.ExitCode != 0 {
		return errors.Join(fmt.Errorf("reboot: exit code %d: %s", ran.ExitCode, ran.Stderr), err)
	}
	return s.back(ctx, boot)
}
