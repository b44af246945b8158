package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// controllerManagerBinary is the program that holds the garbage collector. setup-envtest does not download it.
const controllerManagerBinary = "kube-controller-manager"

// StartGarbageCollector runs the garbage collector of Kubernetes, and no other controller of kube-controller-manager, until
// Stop. Without it an object outlives its owners, which it does in no real cluster. The program is built when it is needed
// first. The collector learns of a kind that is defined later after at most half a minute; define the kinds before.
func (c *ControlPlane) StartGarbageCollector(ctx context.Context) error {
	if c.collector != nil {
		return nil
	}
	program, err := c.locator.controllerManager(ctx)
	if err != nil {
		return err
	}
	d := c.directory
	if err := d.writeLauncher(controllerManagerBinary, program); err != nil {
		return err
	}
	log, err := os.OpenFile(d.logPath(controllerManagerBinary), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(d.program(controllerManagerBinary),
		"--kubeconfig="+c.KubeconfigPath(), "--controllers=garbage-collector-controller", "--leader-elect=false",
		"--use-service-account-credentials=false", "--secure-port=0", "--profiling=false")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start garbage collector: %w", err)
	}
	c.collector = cmd
	return nil
}

// stopGarbageCollector kills the garbage collector: it has no state.
func (c *ControlPlane) stopGarbageCollector() error {
	if c.collector == nil {
		return nil
	}
	return c.directory.stop(controllerManagerBinary, func() error {
		_ = c.collector.Process.Kill()
		var ended *exec.ExitError
		if err := c.collector.Wait(); err != nil && !errors.As(err, &ended) {
			return fmt.Errorf("wait for the garbage collector: %w", err)
		}
		return nil
	})
}

// controllerManager finds kube-controller-manager beside the other programs of a directory that the user names, or in the
// cache, and builds it where neither has it.
func (l *Locator) controllerManager(ctx context.Context) (string, error) {
	built := l.builtControllerManager()
	for _, program := range []string{filepath.Join(l.Assets, controllerManagerBinary), filepath.Join(built, controllerManagerBinary)} {
		if filepath.IsAbs(program) && checkProgram(program) == nil {
			return program, nil
		}
	}
	if l.ModuleRoot == "" {
		return "", errors.New("find kube-controller-manager: neither KUBEBUILDER_ASSETS nor the cache has it, and there is no " +
			"checkout to build it from")
	}
	if err := os.MkdirAll(l.CacheDir, 0o755); err != nil {
		return "", fmt.Errorf("create cache directory: %w", err)
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	program := filepath.Join(built, controllerManagerBinary)
	if checkProgram(program) == nil {
		return program, nil // another process has built it
	}
	if err := l.removeInterrupted(); err != nil {
		return "", err
	}
	return program, l.buildControllerManager(ctx, built)
}

func (l *Locator) buildControllerManager(ctx context.Context, to string) error {
	tmp, err := os.MkdirTemp(l.CacheDir, "build-")
	if err != nil {
		return fmt.Errorf("create directory for the build: %w", err)
	}
	defer removeAll(tmp)
	err = l.buildProgram(ctx, tmp, program{
		controllerManagerBinary, KubernetesVersion, "hack/controlplane/kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager",
		"-s -w " + versionFlags(), "about 2 minutes",
	})
	if err != nil {
		return err
	}
	if err := checkVersion(ctx, filepath.Join(tmp, controllerManagerBinary), "Kubernetes "+KubernetesVersion); err != nil {
		return err
	}
	return l.publish(tmp, to)
}

func (l *Locator) builtControllerManager() string {
	return filepath.Join(l.CacheDir, fmt.Sprintf("controller-manager-%s-%s-%s", KubernetesVersion, runtime.GOOS, runtime.GOARCH))
}
