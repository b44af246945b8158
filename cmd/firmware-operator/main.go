// Command firmware-operator matches templates to devices, plans their updates and admits nodes within their budgets.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // the image has no time zones of its own

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/planner"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/runner"
	"github.com/nodefirmware/node-firmware-operator/internal/operator"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(operator.Run).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "firmware-operator:", err)
		os.Exit(1)
	}
}

// command reads the flags and runs the operator with them.
func command(run func(context.Context, config.Operator, []operator.Strategy, *slog.Logger) error) *cobra.Command {
	var c config.Operator
	cmd := &cobra.Command{
		Use:           "firmware-operator",
		Short:         "Keep the firmware of every node at the version its owner declares",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Traces = config.ReadTraces(os.Getenv)
			if err := c.Validate(); err != nil {
				return err
			}
			for flag, to := range map[string]*[]netip.Prefix{"allow-source-networks": &c.PrivateSources, "refuse-source-networks": &c.RefusedSources} {
				networks, err := cmd.Flags().GetStringSlice(flag)
				if err != nil {
					return err
				}
				for _, network := range networks {
					prefix, err := netip.ParsePrefix(network)
					if err != nil {
						return fmt.Errorf("--%s: %w", flag, err)
					}
					*to = append(*to, prefix.Masked())
				}
			}
			log, err := newLog(c)
			if err != nil {
				return err
			}
			tuneMemory(cmd.Context())
			return run(cmd.Context(), c, strategies(c), log)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: the pod's service account)")
	f.StringVar(&c.Namespace, "namespace", "node-firmware-system", "namespace of the product")
	f.StringVar(&c.DaemonName, "daemon-name", "firmware-daemon", "name of the daemons' DaemonSet and of their service account")
	f.StringSliceVar(&c.UpdateStrategies, "update-strategy", nil,
		"who executes jobs: daemon (the daemon of each node) or pod (one pod per job); required, exactly one; the daemons need the same setting")
	f.StringVar(&c.PodHandlers, "pod-handlers", "", "file with the image for each machine model, for --update-strategy=pod")
	f.StringVar(&c.Maintenance, "maintenance", config.MaintenanceOperator,
		"who takes nodes out of service: Operator (the maintenance-operator), Drain (this operator) or None (nobody, for labs); the daemons need the same setting")
	f.BoolVar(&c.DrainForce, "drain-force", true, "with --maintenance=Drain, evict pods that no controller replaces; without it such a pod stops the drain")
	f.BoolVar(&c.DrainDeleteEmptyDir, "drain-delete-emptydir-data", true,
		"with --maintenance=Drain, evict pods whose emptyDir volumes are lost with them; without it such a pod stops the drain")
	f.StringVar(&c.Medik8sLeases, "medik8s-lease-namespace", "",
		"with --maintenance=Drain, where medik8s is installed: the namespace of its Leases, which is medik8s-leases unless you changed it (default: none are taken)")
	f.StringSliceVar(&c.NodeConditions, "node-conditions", []string{config.NodeConditionsCompliance, config.NodeConditionsLifecycle},
		"what is said in the conditions of Nodes: Compliance (FirmwareCompliant), and Lifecycle (MaintenancePlanned, DrainInProgress, Drained and "+
			"MaintenanceInProgress, from Kubernetes 1.37 on); empty for nothing, which removes what was said")
	f.StringVar(&c.NodeName, "node-name", "", "node the operator runs on, whose jobs go last")
	f.StringVar(&c.StoreDir, "store-dir", "/var/lib/firmware-images", "directory of the verified images")
	f.StringVar(&c.FileSourceDir, "file-source-dir", "", "directory below which file:// URLs of sources may point (default: they are refused)")
	f.StringSlice("allow-source-networks", nil,
		"private networks that sources may be fetched from, such as that of your mirror: 10.20.0.0/16 (default: from public addresses only)")
	f.StringSlice("refuse-source-networks", nil,
		"networks that no source may be fetched from, such as those of the cluster's pods and services: 10.96.0.0/12,10.244.0.0/16")
	f.StringSliceVar(&c.SourceHosts, "allow-source-hosts", nil,
		"host names that a proxy may be asked for though the operator cannot look them up; one with a leading dot stands for all names below it: "+
			"downloads.example.com,.mirror.example.com (default: a proxy is asked for names only that lead to permitted addresses here)")
	f.DurationVar(&c.QuietPeriod, "quiet-period", planner.DefaultQuietPeriod, "how long the due updates of a node must stay the same before a job is queued")
	f.DurationVar(&c.ExpectedJobDuration, "expected-job-duration", schedule.DefaultExpected,
		"how long a job is expected to take, for windows, until three jobs that did the same have succeeded")
	f.StringVar(&c.ImageServerAddress, "image-server-bind-address", ":8444", "address on which images are served to the daemons")
	f.StringSliceVar(&c.ImageServerNames, "image-server-dns-names", []string{"node-firmware-images.node-firmware-system.svc"},
		"DNS names and IP addresses by which the daemons reach the image server")
	f.StringVar(&c.ImageServerPodIP, "image-server-pod-ip", "",
		"IP address of this process, which is published to the daemons for nodes that do not reach a DNS name of the image server (default: none)")
	f.BoolVar(&c.LeaderElect, "leader-elect", true, "elect a leader among several replicas; without it only one replica may run")
	f.StringVar(&c.ProbeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 disables them")
	f.StringVar(&c.MetricsAddress, "metrics-bind-address", ":8443", "address of /metrics, served over TLS to authorized callers; 0 disables it")
	f.StringVar(&c.LogLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// newLog writes JSON to stderr, for this program and the libraries it uses.
func newLog(c config.Operator) (*slog.Logger, error) {
	level, err := c.Level()
	if err != nil {
		return nil, err
	}
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	ctrl.SetLogger(logr.FromSlogHandler(handler))
	klog.SetLogger(logr.FromSlogHandler(handler))
	return slog.New(handler), nil
}

// strategies are the update strategies that this operator knows.
func strategies(c config.Operator) []operator.Strategy {
	return []operator.Strategy{operator.Daemon{}, runner.Pods{Namespace: c.Namespace, DaemonSet: c.DaemonName, HandlersFile: c.PodHandlers}}
}
