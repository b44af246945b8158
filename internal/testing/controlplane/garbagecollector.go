package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// controllerManagerBinary is the program that holds the garbage collector.
const controllerManagerBinary = "kube-controller-manager"

// StartGarbageCollector runs the garbage collector of Kubernetes, and no other controller of kube-controller-manager, until
// Stop. Without it an object outlives its owners, which it does in no real cluster. The program is built when it is needed
// first. The collector learns of a kind that is defined later after at most half a minute; define the kinds before.
func (c *ControlPlane) StartGarbageCollector(ctx context.Context) error {
	if c.collector != nil {
		return nil
	}
	program, err := c.locator.Program(ctx, ControllerManager)
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
