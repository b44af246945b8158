package vm

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/devlink"
)

// adapter is the adapter of netdevsim.
var adapter = trial.Part{Rule: "netdevsim", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, SerialNumbers: []string{"LABNETDEV1"}}}

// adapterTarget has an image whose first line is the version the adapter stores.
func adapterTarget(version string) trial.Target {
	return trial.Target{Part: adapter, Version: version, Image: []byte(version + "\n" + strings.Repeat("lab image\n", 1000))}
}

// Knobs of netdevsim: of its debugfs, and of the module.
const (
	knobProgress = "/sys/kernel/debug/netdevsim/netdevsim1/fw_update_status"
	knobFail     = "/sys/module/netdevsim/parameters/lab_fail"
	// searchPath is the kernel's parameter with its additional firmware directory.
	searchPath = "/sys/module/firmware_class/parameters/path"
)

// R002: the job survives a real reboot, between the writes and the verdict, on the disk of the machine.
func rebootResumed(ctx context.Context, s *scene) (string, error) {
	const from, to = "1.0.0", "1.1.0"
	if err := s.agent().Plug(ctx, "netdevsim"); err != nil {
		return "", err
	}
	if err := s.agent().PlugDrives(ctx); err != nil {
		return "", err
	}
	if err := s.Runs(ctx, adapter, from); err != nil {
		return "", err
	}
	if err := s.Runs(ctx, coldDrive, "COLD1"); err != nil {
		return "", err
	}
	cold, err := driveTarget(coldDrive, "COLD2")
	if err != nil {
		return "", err
	}
	var seen progress
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watchProgress(watching, &seen)
	}()
	err = s.rebooted(1, func() error { return s.flashed(ctx, nil, adapterTarget(to), cold) })
	stop()
	<-watched
	if err != nil {
		return "", err
	}
	if seen.least == 0 {
		return "", fmt.Errorf("the kernel's progress was never seen between 0 and 100 %%")
	}
	return fmt.Sprintf("%s to %s with progress from %d %%, COLD1 to COLD2", from, to, seen.least), nil
}

// progress is the lowest percentage that was seen of a running write.
type progress struct{ least int32 }

func (s *scene) watchProgress(ctx context.Context, seen *progress) {
	_ = s.Until(ctx, "progress is seen", func(ctx context.Context) (bool, error) {
		job, err := s.Job(ctx)
		if job == nil || err != nil {
			return false, nil //nolint:nilerr // the next poll may succeed
		}
		for _, st := range job.Status.Steps {
			if p := ptr.Deref(st.ProgressPercent, 0); st.Name == "flash" && p > 0 && p < 100 {
				seen.least = p
			}
		}
		return seen.least > 0, nil
	})
}

// R003-49: the kernel continues the flash; the next daemon waits for it and does not repeat it.
func devlinkKilled(ctx context.Context, s *scene) (string, error) {
	const from, to = "1.1.0", "1.2.0"
	if err := s.Runs(ctx, adapter, from); err != nil {
		return "", err
	}
	if err := s.agent().Write(ctx, knobProgress, "N"); err != nil {
		return "", err
	}
	kill := func() error { return s.killWhile(ctx, devlink.Tool) }
	return from + " to " + to, s.rebooted(1, func() error { return s.flashed(ctx, kill, adapterTarget(to)) })
}

// R003: a failed step leaves the node in maintenance, with the cause, until a person releases it.
func devlinkFailed(ctx context.Context, s *scene) (string, error) {
	const runs = "1.2.0"
	if err := s.Runs(ctx, adapter, runs); err != nil {
		return "", err
	}
	if err := s.agent().Write(ctx, knobFail, "Y"); err != nil {
		return "", err
	}
	if err := s.Declare(ctx, adapterTarget("1.3.0")); err != nil {
		return "", err
	}
	job, err := s.failed(ctx)
	if err != nil {
		return "", err
	}
	path, err := s.agent().Read(ctx, searchPath)
	if err != nil {
		return "", err
	}
	if path != "" {
		return "", fmt.Errorf("the kernel still looks for firmware in %q", path)
	}
	if err := s.agent().Write(ctx, knobFail, "N"); err != nil {
		return "", err
	}
	// Assign what it runs, so that nothing new is planned, and return the node to service.
	if err := s.Declare(ctx, adapterTarget(runs)); err != nil {
		return "", err
	}
	if err := s.release(ctx); err != nil {
		return "", err
	}
	if err := s.released(ctx); err != nil {
		return "", err
	}
	return reason(job), s.Runs(ctx, adapter, runs)
}

// release asks for the node to be returned to service.
func (s *scene) release(ctx context.Context) error {
	var n v1alpha1.NodeFirmware
	if err := s.API.Get(ctx, client.ObjectKey{Name: nodeName}, &n); err != nil {
		return fmt.Errorf("release node: %w", err)
	}
	old := n.DeepCopy()
	n.Spec.Requests.Release = "as it is"
	if err := s.API.Patch(ctx, &n, client.MergeFrom(old)); err != nil {
		return fmt.Errorf("release node: %w", err)
	}
	return nil
}

// The tool's answer for an adapter that cannot be activated, for each value of the knob for its reloads.
func devlinkNotActivated(ctx context.Context, s *scene) (string, error) {
	const needsReboot = 5
	said := ""
	for _, knob := range []string{"", "fail_reload", "dont_allow_reload"} {
		if knob != "" {
			if err := s.agent().Write(ctx, "/sys/kernel/debug/netdevsim/netdevsim1/"+knob, "Y"); err != nil {
				return "", err
			}
		}
		ran, err := s.agent().Run(ctx, "/usr/bin/firmware-daemon", "tool", "firmware-devlink", "activate", "netdevsim/netdevsim1")
		if err != nil {
			return "", err
		}
		if ran.ExitCode != needsReboot {
			return "", fmt.Errorf("with knob %q the tool ended with %d instead of %d: %s", knob, ran.ExitCode, needsReboot, ran.Stderr)
		}
		said = strings.TrimSpace(ran.Stderr)
	}
	return said, nil
}

// A parameter that netdevsim reads when it begins (max_macs, which debugfs shows as it is in force).
func devlinkConfigured(ctx context.Context, s *scene) (string, error) {
	const debug, name, value, standard = "/sys/kernel/debug/netdevsim/netdevsim1/", "max_macs/driverinit", "64", "32"
	tool := func(want int, args ...string) error {
		ran, err := s.agent().Run(ctx, append([]string{"/usr/bin/firmware-daemon", "tool", "firmware-devlink"}, args...)...)
		if err == nil && ran.ExitCode != want {
			err = fmt.Errorf("%s ended with %d instead of %d: %s", strings.Join(args, " "), ran.ExitCode, want, ran.Stderr)
		}
		return err
	}
	runs := func(want string) error {
		got, err := s.agent().Read(ctx, debug+"max_macs")
		if err == nil && strings.TrimSpace(got) != want {
			err = fmt.Errorf("netdevsim has %s %q, not %s", name, got, want)
		}
		return err
	}
	listed := func(want string) error {
		ran, err := s.agent().Run(ctx, "/usr/bin/firmware-daemon", "settings", "--host-root=/", "--state-dir=/var/lib/node-firmware",
			"--tool-path=/usr/sbin:/usr/bin", "-o", "json")
		if err == nil && !strings.Contains(ran.Stdout, want) {
			err = fmt.Errorf("settings do not list %s: %s%s", want, ran.Stdout, ran.Stderr)
		}
		return err
	}
	for _, knob := range []string{"fail_reload", "dont_allow_reload"} {
		if err := s.agent().Write(ctx, debug+knob, "N"); err != nil {
			return "", err
		}
	}
	const handle = "netdevsim/netdevsim1"
	for _, step := range []func() error{
		func() error { return runs(standard) },
		func() error { return tool(4, "set", handle, "no_such_parameter/driverinit", "1") },
		func() error { return tool(4, "set", handle, name, "many") },
		func() error { return tool(0, "set", handle, name, value) },
		func() error { return runs(standard) },
		func() error { return tool(0, "reinit", handle) },
		func() error { return runs(value) },
		func() error { return listed(name) },
	} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return name + " " + standard + " to " + value, nil
}
