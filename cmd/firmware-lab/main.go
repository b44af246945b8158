// Command firmware-lab runs the product on simulated machines behind a real Kubernetes API.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // the API client's libraries log through it; the lab prints its own messages
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the lab and its programs at once
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		if own := (exitError{}); errors.As(err, &own) {
			os.Exit(own.code)
		}
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "firmware-lab",
		Short:         "Run node-firmware-operator on simulated machines behind a real Kubernetes API",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(), demoCommand(), simulateCommand(), chaosCommand(), vmCommand(), nodeCommand(), scaleCommand())
	return root
}

// options are the flags both commands share.
type options struct {
	lab.Options
	removeDir func() error
}

func (o *options) register(c *cobra.Command, quiet time.Duration) {
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 6, "number of simulated machines, 1 to 100")
	f.StringVar(&o.Dir, "dir", "", "directory for the API's data, the machines and the logs; kept at the end (default: a temporary one, removed)")
	f.StringVar(&o.BinDir, "bin-dir", "", "directory of firmware-operator, firmware-daemon and firmware-simtools (default: that of firmware-lab)")
	f.DurationVar(&o.QuietPeriod, "quiet-period", quiet, "how long the operator waits for more changes before it queues a job")
	f.DurationVar(&o.ScanInterval, "scan-interval", 10*time.Second, "how often each daemon reads its hardware")
	f.DurationVar(&o.HealthTimeout, "health-timeout", 12*time.Second, "how long a machine may take after an update to become as healthy as it was")
	f.StringVar(&o.MaintenanceOperator, "maintenance-operator", "", "manager of a real maintenance-operator, as go run ./hack/maintenanceoperator "+
		"builds it, in place of the stand-in")
	f.DurationVar(&o.WriteTime, "write-time", 1500*time.Millisecond, "how long a simulated device takes to write an image")
}

// complete sets defaults that depend on the environment.
func (o *options) complete(c *cobra.Command) (err error) {
	if o.Nodes < 1 {
		return fmt.Errorf("--nodes %d: choose 1 to 100", o.Nodes)
	}
	if o.MaintenanceOperator != "" {
		if _, err := os.Stat(o.MaintenanceOperator); err != nil {
			return fmt.Errorf("--maintenance-operator: %w; build it with: go run ./hack/maintenanceoperator", err)
		}
	}
	o.Out = c.OutOrStdout()
	if o.BinDir == "" {
		if o.BinDir, err = program(""); err != nil {
			return err
		}
	}
	o.Dir, o.removeDir, err = workDir(o.Dir)
	return err
}
