package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Operator is the settings of firmware-operator.
type Operator struct {
	// Kubeconfig is a file; empty uses the pod's service account.
	Kubeconfig string
	// Namespace is the product's namespace, with its leases and the image server's certificate.
	Namespace string
	// NodeName is the node the operator runs on, whose jobs go last; empty when unknown.
	NodeName string
	// DaemonName is the name of the daemons' DaemonSet and of their service account, whose tokens may fetch images.
	DaemonName string
	// UpdateStrategies are the configured strategies. There must be exactly one, which package strategy checks.
	UpdateStrategies []string
	// PodHandlers is the file with the images of the strategy pod; empty for any other strategy.
	PodHandlers string
	// Maintenance says how nodes are taken out of service. With MaintenanceDrain the operator does so; DrainForce and
	// DrainDeleteEmptyDir then say whether it evicts pods that no controller replaces, and pods whose emptyDir volumes are lost.
	Maintenance                     string
	DrainForce, DrainDeleteEmptyDir bool
	// Medik8sLeases is the namespace of the Leases by which medik8s agrees on nodes; empty where it is not installed.
	Medik8sLeases string
	// NodeConditions are what the operator says on Nodes: any of NodeConditionsCompliance and NodeConditionsLifecycle.
	NodeConditions []string
	// StoreDir keeps the verified images.
	StoreDir string
	// FileSourceDir is the directory below which file URLs of sources may point; empty refuses them.
	FileSourceDir string
	// PrivateSources are the private networks that sources may name addresses of. RefusedSources are networks that no source may
	// name an address of.
	PrivateSources []netip.Prefix
	RefusedSources []netip.Prefix
	// SourceHosts are names that a proxy may be asked for though the operator cannot look them up. One that begins with a dot stands for
	// all names that end with it.
	SourceHosts []string
	// QuietPeriod is how long the due updates of a node must stay the same before a job is queued.
	QuietPeriod time.Duration
	// ExpectedJobDuration is how long a job is expected to take about which too little is known.
	ExpectedJobDuration time.Duration
	// ImageServerAddress is the address of the image server; ImageServerNames are the DNS names and IP addresses that
	// daemons use for it.
	ImageServerAddress string
	ImageServerNames   []string
	// ImageServerPodIP is an IP address of this process that every node reaches; empty where it is not known.
	ImageServerPodIP string
	// LeaderElect lets only one of several replicas work.
	LeaderElect bool
	// ProbeAddress and MetricsAddress are the addresses to listen on; "0" disables either.
	ProbeAddress, MetricsAddress string
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// Traces is what is exported of jobs to a collector of OpenTelemetry.
	Traces Traces
}

// MaxExpectedJobDuration bounds how long a job is expected to take.
const MaxExpectedJobDuration = 24 * time.Hour

// MaxQuietPeriod bounds the quiet period. To wait longer, pause the policy.
const MaxQuietPeriod = 24 * time.Hour

// Validate names every invalid setting, by its flag.
func (o Operator) Validate() error {
	var errs problems
	if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--namespace %q: %s", o.Namespace, problems[0]))
	}
	if problems := validation.IsDNS1123Subdomain(o.DaemonName); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--daemon-name %q: %s", o.DaemonName, problems[0]))
	}
	if problems := validation.IsDNS1123Subdomain(o.NodeName); o.NodeName != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--node-name %q: %s", o.NodeName, problems[0]))
	}
	if pod := slices.Contains(o.UpdateStrategies, StrategyPod); pod != (o.PodHandlers != "") {
		errs = append(errs, fmt.Errorf("--pod-handlers %q: must be set with --update-strategy=%s, and only with it", o.PodHandlers, StrategyPod))
	}
	errs.when(o.Medik8sLeases != "" && (o.Maintenance != MaintenanceDrain || len(validation.IsDNS1123Label(o.Medik8sLeases)) > 0),
		"--medik8s-lease-namespace %q: want the name of a namespace, and --maintenance=%s, with which alone Leases are taken", o.Medik8sLeases, MaintenanceDrain)
	for _, kind := range o.NodeConditions {
		errs.when(kind != NodeConditionsCompliance && kind != NodeConditionsLifecycle,
			"--node-conditions %q: want %s, %s, both with a comma, or nothing", kind, NodeConditionsCompliance, NodeConditionsLifecycle)
	}
	errs.when(!filepath.IsAbs(o.StoreDir), "--store-dir %q: must be an absolute path", o.StoreDir)
	errs.when(o.FileSourceDir != "" && !filepath.IsAbs(o.FileSourceDir),
		"--file-source-dir %q: must be an absolute path, or empty to refuse file URLs", o.FileSourceDir)
	for _, host := range o.SourceHosts {
		errs.when(len(validation.IsDNS1123Subdomain(strings.TrimPrefix(host, "."))) > 0,
			"--allow-source-hosts %q: want a host name in lower case, without a port, or a dot and the end of names", host)
	}
	errs.when(o.ExpectedJobDuration < time.Minute || o.ExpectedJobDuration > MaxExpectedJobDuration,
		"--expected-job-duration %s: must be from 1m to %s", o.ExpectedJobDuration, MaxExpectedJobDuration)
	errs.when(o.QuietPeriod < 0 || o.QuietPeriod > MaxQuietPeriod, "--quiet-period %s: must be from 0s to %s", o.QuietPeriod, MaxQuietPeriod)
	if _, _, err := net.SplitHostPort(o.ImageServerAddress); err != nil {
		errs = append(errs, fmt.Errorf("--image-server-bind-address %q: want host:port or :port", o.ImageServerAddress))
	}
	if _, err := netip.ParseAddr(o.ImageServerPodIP); o.ImageServerPodIP != "" && err != nil {
		errs = append(errs, fmt.Errorf("--image-server-pod-ip %q: want an IP address, or nothing", o.ImageServerPodIP))
	}
	errs.when(len(o.ImageServerNames) == 0, "--image-server-dns-names is empty: name the host by which the daemons reach the operator")
	for flag, address := range map[string]string{"--health-probe-bind-address": o.ProbeAddress, "--metrics-bind-address": o.MetricsAddress} {
		if _, _, err := net.SplitHostPort(address); address != "0" && err != nil {
			errs = append(errs, fmt.Errorf("%s %q: want host:port, :port, or 0 to disable it", flag, address))
		}
	}
	_, badLevel := o.Level()
	errs = append(errs, validateMaintenance(o.Maintenance), badLevel, o.Traces.validate())
	return errors.Join(errs...)
}

// Level is the log level.
func (o Operator) Level() (slog.Level, error) { return level(o.LogLevel) }

// PublishedImageServer is where daemons reach the image server without a name, as host:port; empty where that is not known.
func (o Operator) PublishedImageServer() string {
	_, port, err := net.SplitHostPort(o.ImageServerAddress)
	if o.ImageServerPodIP == "" || err != nil {
		return ""
	}
	return net.JoinHostPort(o.ImageServerPodIP, port)
}

// The update strategies of the product: who executes the jobs of a node.
const (
	// StrategyDaemon executes jobs in the daemon of the node.
	StrategyDaemon = "daemon"
	// StrategyPod executes each job in a pod of its own.
	StrategyPod = "pod"
)

// How nodes are taken out of service for a job.
const (
	// MaintenanceOperator asks the maintenance-operator.
	MaintenanceOperator = "Operator"
	// MaintenanceDrain has the operator cordon and drain nodes itself, for clusters without a maintenance-operator.
	MaintenanceDrain = "Drain"
	// MaintenanceNone takes no node out of service, for labs: devices are written and nodes rebooted under running workloads.
	MaintenanceNone = "None"
)

// What the operator says on Nodes.
const (
	// NodeConditionsCompliance is the condition FirmwareCompliant.
	NodeConditionsCompliance = "Compliance"
	// NodeConditionsLifecycle are MaintenancePlanned, DrainInProgress, Drained and MaintenanceInProgress, where the cluster knows them.
	NodeConditionsLifecycle = "Lifecycle"
)

func validateMaintenance(how string) error {
	switch how {
	case MaintenanceOperator, MaintenanceDrain, MaintenanceNone:
		return nil
	}
	return fmt.Errorf("--maintenance %q: want %s, %s or %s", how, MaintenanceOperator, MaintenanceDrain, MaintenanceNone)
}

func level(name string) (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(name)); err != nil {
		return l, fmt.Errorf("--log-level %q: want debug, info, warn or error", name)
	}
	return l, nil
}

// problems are what is wrong with a config.
type problems []error

// when adds a problem where the condition holds.
func (p *problems) when(holds bool, format string, args ...any) {
	if holds {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}
