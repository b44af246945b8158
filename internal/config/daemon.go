package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Daemon is the settings of firmware-daemon run.
type Daemon struct {
	Machine
	// NodeName is the name of this machine's Node.
	NodeName string
	// UpdateStrategy says who executes jobs on this node: this daemon, or one pod per job.
	UpdateStrategy string
	// Maintenance says how this node is taken out of service; AllowUndrained is needed for MaintenanceNone.
	Maintenance    string
	AllowUndrained bool
	// Kubeconfig is a file; empty uses the pod's service account.
	Kubeconfig string
	// PodName is the name of the pod of this process; empty where there is none, and then no guard is installed.
	PodName string
	// Namespace is the product's namespace, where NodeMaintenances are created.
	Namespace string
	// AllowUnconfined starts without a proof that the API server confines the daemon to the objects of its node.
	AllowUnconfined bool
	// ScanInterval is the time between two scans.
	ScanInterval time.Duration
	// BootTimeLimit is how long the machine may take from the start of its kernel until its own services can start, after
	// a reboot that is part of an update; zero for no limit.
	BootTimeLimit time.Duration
	// HealthTimeout is how long the machine may take after an update to become as healthy as it was.
	HealthTimeout time.Duration
	// IsolationTimeout is how long the machine waits for the API server, where its update may have cut it off, before it restores the
	// previous firmware by itself.
	IsolationTimeout time.Duration
	// CheckTimeout bounds each executable of the health check.
	CheckTimeout time.Duration
	// StartTimeout bounds the time from the start of a job to its first write.
	StartTimeout time.Duration
	// StepPriorities are the priorities that differ from the default.
	StepPriorities StepPriorities
	// ImageServer is the operator's https URL for images; empty when there is none. ImageServerCA and ImageTokenFile
	// are file names.
	ImageServer, ImageServerCA, ImageTokenFile string
	// ImageServerAddressFile may hold an address (host:port) of the same server, for where the host of the URL is not reached.
	ImageServerAddressFile string
	// ImageKeysDir is the directory of those who may sign images, as signature.ReadTrust reads it; empty for none. ImageVerification is
	// ImagesSigned or ImagesSignedIfKeys.
	ImageKeysDir, ImageVerification string
	// ProbeAddress and MetricsAddress are the addresses to listen on; "0" disables either.
	ProbeAddress, MetricsAddress string
	// LogLevel is debug, info, warn or error.
	LogLevel string
}

// Machine is where this machine's hardware, tools and state are found.
type Machine struct {
	// HostRoot is the directory with the machine's /sys and /proc.
	HostRoot string
	// StateDir keeps the journal and the images.
	StateDir string
	// ToolPath lists the directories of the vendor tools, separated by colons.
	ToolPath string
	// ProfileDir is the directory with tool profiles; empty for none.
	ProfileDir string
	// NVMeTransports are the transports of the NVMe drives that belong to this machine; only pcie when empty.
	NVMeTransports []string
	// PluginDir is the directory with the sockets of plugins; empty for "plugins" in the state directory, and NoPlugins for
	// none.
	PluginDir string
	// DisabledDrivers are the names of drivers not to use.
	DisabledDrivers []string
	// FirmwarePasswordFile is the file with the administrator's password of the system firmware; empty for none. It is read whenever a setting
	// is changed.
	FirmwarePasswordFile string
}

// nvmeTransports are those the kernel knows.
var nvmeTransports = []string{"pcie", "tcp", "rdma", "fc", "loop"}

// DefaultToolPath is the default search path of tools.
const DefaultToolPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Validate returns an error that names every invalid setting by its flag.
func (d Daemon) Validate() error {
	errs := problems{d.Machine.Validate()}
	if problems := validation.IsDNS1123Subdomain(d.NodeName); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--node-name %q: name this machine's Node: %s", d.NodeName, problems[0]))
	}
	if problems := validation.IsDNS1123Label(d.Namespace); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--namespace %q: %s", d.Namespace, problems[0]))
	}
	errs.when(d.UpdateStrategy != StrategyDaemon && d.UpdateStrategy != StrategyPod,
		"--update-strategy %q: want %s or %s, the one of the operator", d.UpdateStrategy, StrategyDaemon, StrategyPod)
	errs = append(errs, validateMaintenance(d.Maintenance), ValidateCheckTimeout(d.CheckTimeout), d.validateVerification())
	errs.when((d.Maintenance == MaintenanceNone) != d.AllowUndrained, "--maintenance %s writes devices and reboots the node under running workloads: "+
		"it must be set together with --allow-undrained, and only for a lab", MaintenanceNone)
	errs.when(d.ScanInterval < time.Second, "--scan-interval %s: must be at least 1s", d.ScanInterval)
	errs.when(d.BootTimeLimit != 0 && d.BootTimeLimit < time.Minute, "--boot-time-limit %s: must be at least 1m, or 0 for none", d.BootTimeLimit)
	errs.when(d.HealthTimeout < time.Second || d.HealthTimeout > MaxHealthTimeout,
		"--health-timeout %s: must be from 1s to %s", d.HealthTimeout, MaxHealthTimeout)
	errs.when(d.IsolationTimeout < time.Second || d.IsolationTimeout > MaxIsolationTimeout,
		"--isolation-timeout %s: must be from 1s to %s", d.IsolationTimeout, MaxIsolationTimeout)
	errs.when(d.StartTimeout < time.Minute || d.StartTimeout > 24*time.Hour, "--start-timeout %s: must be from 1m to 24h", d.StartTimeout)
	_, badPriority := d.StepPriorities.Parse()
	_, badLevel := d.Level()
	errs = append(errs, badPriority, badLevel)
	if d.ImageServer != "" {
		if u, err := url.Parse(d.ImageServer); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			errs = append(errs, fmt.Errorf("--image-server %q: must be an https URL without user and password", d.ImageServer))
		}
		errs.when(d.ImageServerCA == "" || d.ImageTokenFile == "", "--image-server needs --image-server-ca and --image-token-file")
	}
	return errors.Join(errs...)
}

// MaxIsolationTimeout bounds how long a machine that may be cut off waits.
const MaxIsolationTimeout = 24 * time.Hour

// MaxHealthTimeout bounds how long a machine may take to become healthy again, because its maintenance lasts that long.
const MaxHealthTimeout = 6 * time.Hour

// MaxCheckTimeout bounds the timeout of one executable of the health check. By default the host as a whole may take
// about as long to become healthy.
const MaxCheckTimeout = 10 * time.Minute

// ValidateCheckTimeout returns an error if the timeout of a health check executable is out of bounds.
func ValidateCheckTimeout(d time.Duration) error {
	if d < time.Second || d > MaxCheckTimeout {
		return fmt.Errorf("--check-timeout %s: must be from 1s to %s", d, MaxCheckTimeout)
	}
	return nil
}

// Level is the log level.
func (d Daemon) Level() (slog.Level, error) { return level(d.LogLevel) }

// Validate returns an error that names every invalid setting by its flag.
func (m Machine) Validate() error {
	var errs problems
	for flag, dir := range map[string]string{"--host-root": m.HostRoot, "--state-dir": m.StateDir} {
		errs.when(!filepath.IsAbs(dir), "%s %q: must be an absolute path", flag, dir)
	}
	errs.when(m.ProfileDir != "" && !filepath.IsAbs(m.ProfileDir), "--profile-dir %q: must be an absolute path, or empty for none", m.ProfileDir)
	errs.when(m.FirmwarePasswordFile != "" && !filepath.IsAbs(m.FirmwarePasswordFile),
		"--firmware-password-file %q: must be an absolute path, or empty for none", m.FirmwarePasswordFile)
	for _, transport := range m.NVMeTransports {
		errs.when(!slices.Contains(nvmeTransports, transport), "--nvme-transports %q: want %s", transport, strings.Join(nvmeTransports, ", "))
	}
	errs.when(m.PluginDir != "" && m.PluginDir != NoPlugins && !filepath.IsAbs(m.PluginDir),
		"--plugin-dir %q: must be an absolute path, or %s for none", m.PluginDir, NoPlugins)
	tools := m.Tools()
	errs.when(len(tools) == 0, "--tool-path is empty: name at least one directory")
	for _, dir := range tools {
		errs.when(!filepath.IsAbs(dir), "--tool-path: %q must be an absolute path", dir)
	}
	return errors.Join(errs...)
}

// NoPlugins is the value of PluginDir for no plugins.
const NoPlugins = "none"

// Plugins is the directory with the sockets of plugins; empty for none. The default is below the machine's state
// directory, so that a simulated machine does not find the plugins of the real one.
func (m Machine) Plugins() string {
	switch m.PluginDir {
	case NoPlugins:
		return ""
	case "":
		return filepath.Join(m.StateDir, "plugins")
	}
	return m.PluginDir
}

// Tools lists the directories of the tool path.
func (m Machine) Tools() []string { return filepath.SplitList(m.ToolPath) }

// The values of Daemon.ImageVerification.
const (
	// ImagesSigned refuses images that nobody signed whom this machine trusts.
	ImagesSigned = "Required"
	// ImagesSignedIfKeys does so where this machine has keys or trusted roots.
	ImagesSignedIfKeys = "IfKeys"
)

func (d Daemon) validateVerification() error {
	var errs problems
	switch {
	case d.ImageVerification != ImagesSigned && d.ImageVerification != ImagesSignedIfKeys:
		errs = append(errs, fmt.Errorf("--image-verification %q: want %s or %s", d.ImageVerification, ImagesSigned, ImagesSignedIfKeys))
	case d.ImageVerification == ImagesSigned && d.ImageKeysDir == "":
		errs = append(errs, fmt.Errorf("--image-verification %s needs --image-keys-dir, or every image is refused", ImagesSigned))
	}
	errs.when(d.ImageKeysDir != "" && !filepath.IsAbs(d.ImageKeysDir),
		"--image-keys-dir %q: must be an absolute path, or empty for no keys", d.ImageKeysDir)
	return errors.Join(errs...)
}

// StepPriorities are settings of --step-priority, each as key=value: the interface and the name of a step, and its
// priority.
type StepPriorities []string

// Parse returns the priorities by key, and an error that names every invalid setting.
func (s StepPriorities) Parse() (map[string]int32, error) {
	out := map[string]int32{}
	var errs problems
	for _, setting := range s {
		key, value, ok := strings.Cut(setting, "=")
		n, err := strconv.ParseInt(value, 10, 32)
		_, again := out[key]
		switch {
		case !ok || key == "":
			errs = append(errs, fmt.Errorf("--step-priority %q: want INTERFACE.STEP=PRIORITY, such as nic.flash=820", setting))
		case err != nil:
			errs = append(errs, fmt.Errorf("--step-priority %q: the priority must be a whole number; 0 disables the step", setting))
		case again:
			errs = append(errs, fmt.Errorf("--step-priority %q: the priority of %s is given twice", setting, key))
		default:
			out[key] = int32(n)
		}
	}
	return out, errors.Join(errs...)
}
