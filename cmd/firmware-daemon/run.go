package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/daemon"
	"github.com/nodefirmware/node-firmware-operator/internal/node/guard"
)

func runCommand() *cobra.Command {
	var d config.Daemon
	c := &cobra.Command{
		Use:   "run",
		Short: "Run as the daemon of this machine's Node",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := daemonOptions(d)
			if err != nil {
				return err
			}
			return daemon.Run(c.Context(), o)
		},
	}
	daemonFlags(c, &d)
	return c
}

// daemonOptions validates the settings and returns the options of a process that works with the API server.
func daemonOptions(d config.Daemon) (daemon.Options, error) {
	o, err := nodeOptions(d, rememberPlugins)
	if err != nil {
		return daemon.Options{}, err
	}
	o.Access, err = restConfig(d.Kubeconfig)
	return o, err
}

// nodeOptions validates the settings and returns the options of a process that needs no API server.
func nodeOptions(d config.Daemon, memory pluginMemory) (daemon.Options, error) {
	if err := d.Validate(); err != nil {
		return daemon.Options{}, err
	}
	level, err := d.Level()
	if err != nil {
		return daemon.Options{}, err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(smallHeap)
	}
	plugins, err := pluginsOf(d.Machine, log, memory)
	if err != nil {
		return daemon.Options{}, err
	}
	drivers, err := driversOf(d.Machine, plugins)
	if err != nil {
		return daemon.Options{}, err
	}
	if _, err := catalogOf(d.Machine, d.StepPriorities); err != nil {
		return daemon.Options{}, err
	}
	o := daemon.Options{Config: d, Drivers: drivers, Worker: workerArgv(), Own: ownArgv(), Log: log}
	if plugins != nil {
		o.Plugins = plugins
	}
	return o, nil
}

// daemonFlags adds the flags of a process that works with the API server.
func daemonFlags(c *cobra.Command, d *config.Daemon) {
	machineFlags(c, &d.Machine, "/host")
	f := c.Flags()
	f.StringVar(&d.NodeName, "node-name", "", "name of this machine's Node (required)")
	f.StringVar(&d.UpdateStrategy, "update-strategy", config.StrategyDaemon,
		"who executes the jobs of this node: daemon, or pod (one pod per job); the operator needs the same setting")
	f.StringVar(&d.Maintenance, "maintenance", config.MaintenanceOperator,
		"who takes this node out of service: Operator (the maintenance-operator), Drain (the firmware-operator) or None (nobody, for labs); "+
			"the operator needs the same setting")
	f.BoolVar(&d.AllowUndrained, "allow-undrained", false,
		"write devices and reboot under running workloads; required with --maintenance=None, and refused otherwise")
	f.StringVar(&d.Kubeconfig, "kubeconfig", "", "kubeconfig file; the pod's service account when empty")
	f.StringVar(&d.PodName, "pod-name", "",
		"name of the pod of this process, from which a guard is made; none is installed when empty")
	f.StringVar(&d.Namespace, "namespace", "node-firmware-system", "namespace of the product")
	f.BoolVar(&d.AllowUnconfined, "allow-unconfined", false,
		"run even where no admission policy keeps this daemon from writing the objects of other nodes")
	f.DurationVar(&d.ScanInterval, "scan-interval", 5*time.Minute, "time between two scans of the devices")
	f.DurationVar(&d.BootTimeLimit, "boot-time-limit", 30*time.Minute,
		"time the machine may need to boot after an update before it counts as unhealthy; 0 for no limit")
	f.DurationVar(&d.HealthTimeout, "health-timeout", 10*time.Minute, "time the machine may take after an update to become as healthy as it was")
	f.DurationVar(&d.IsolationTimeout, "isolation-timeout", 10*time.Minute,
		"time the machine waits for the API server, where its update may have cut it off, before it restores the previous firmware by itself")
	f.DurationVar(&d.CheckTimeout, "check-timeout", time.Minute, "time limit of each executable of the health check")
	f.DurationVar(&d.StartTimeout, "start-timeout", time.Hour,
		"time from the start of a job to its first write, after which the job fails without having changed anything")
	stepFlags(c, &d.StepPriorities)
	f.StringVar(&d.ImageServer, "image-server", "", "https URL of the operator's image server")
	f.StringVar(&d.ImageServerCA, "image-server-ca", "", "file with the certificates that sign the image server's")
	f.StringVar(&d.ImageServerAddressFile, "image-server-address-file", "",
		"file with another address (IP:port) of the same server, tried where the host of the URL is not reached; it may be missing")
	f.StringVar(&d.ImageTokenFile, "image-token-file", "", "file with the token for the image server")
	f.StringVar(&d.ImageKeysDir, "image-keys-dir", "/etc/node-firmware/image-keys",
		"directory with the public keys of those who may sign images, one file each, and trusted roots of Sigstore with the identities that may; "+
			"there may be none, and empty looks for none")
	f.StringVar(&d.ImageVerification, "image-verification", config.ImagesSignedIfKeys,
		"Required refuses images that none of the keys vouches for, also where there is no key; IfKeys does so only where there is one")
	f.StringVar(&d.ProbeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	f.StringVar(&d.MetricsAddress, "metrics-bind-address", "0", "address of /metrics, which anybody who reaches it may read: use 127.0.0.1; 0 for none")
	f.StringVar(&d.LogLevel, "log-level", "info", "debug, info, warn or error")
}

// smallHeap makes the garbage collector run early: the daemon idles with a few megabytes on every node.
const smallHeap = 40

// restConfig is the access to the API server. Tokens are read from their file again when they are renewed. The rates
// are more than one node needs, and low enough that a faulty one does no harm.
func restConfig(kubeconfig string) (*rest.Config, error) {
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load access to the API server: %w", err)
	}
	access.UserAgent = "firmware-daemon"
	access.QPS, access.Burst = 20, 100
	return access, nil
}

func jobCommand() *cobra.Command {
	var d config.Daemon
	var name string
	c := &cobra.Command{
		Use:   "job --name JOB",
		Short: "Execute one FirmwareJob of this machine's Node and exit",
		Long: "Execute one FirmwareJob, with the journal, maintenance, progress and reports of the daemon, and exit when its result is\n" +
			"in the FirmwareJob. The exit code is 0 whether the job completed or failed. An interrupted job is continued. The pods of\n" +
			"the update strategy pod run this. It takes all flags of run, and fails while a daemon executes jobs here.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if name == "" {
				return errors.New("--name is missing: name the FirmwareJob to execute")
			}
			o, err := daemonOptions(d)
			if err != nil {
				return err
			}
			return daemon.RunJob(c.Context(), o, name)
		},
	}
	daemonFlags(c, &d)
	c.Flags().StringVar(&name, "name", "", "name of the FirmwareJob (required)")
	return c
}

func guardCommand() *cobra.Command {
	var d config.Daemon
	var server string
	c := &cobra.Command{
		Use:   guard.Command,
		Short: "Finish a job without the API server; started only by the kubelet, from a static pod",
		Long: "Execute the job in the journal while no other process has the state directory open and the API server does not answer.\n" +
			"It takes all flags of run, and uses nothing of the cluster.",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if server == "" {
				return errors.New("--" + guard.ServerFlag + " is missing: give the URL at which the kubelet reaches the API server")
			}
			o, err := nodeOptions(d, forgetPlugins)
			if err != nil {
				return err
			}
			return daemon.RunGuard(c.Context(), o, server)
		},
	}
	daemonFlags(c, &d)
	c.Flags().StringVar(&server, guard.ServerFlag, "", "URL at which the kubelet reaches the API server (required)")
	return c
}
