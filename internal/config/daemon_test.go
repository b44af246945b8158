package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

func validDaemon() config.Daemon {
	return config.Daemon{
		Machine:  config.Machine{HostRoot: "/host", StateDir: "/var/lib/node-firmware", ToolPath: config.DefaultToolPath},
		NodeName: "n1.example", UpdateStrategy: config.StrategyDaemon, Maintenance: config.MaintenanceOperator, Namespace: "node-firmware-system", ScanInterval: 5 * time.Minute, LogLevel: "info",
		BootTimeLimit: 30 * time.Minute, CheckTimeout: time.Minute, HealthTimeout: 10 * time.Minute, IsolationTimeout: 10 * time.Minute, StartTimeout: time.Hour,
		ImageServer: "https://images:8444", ImageServerCA: "/ca", ImageTokenFile: "/token",
		ImageVerification: config.ImagesSignedIfKeys,
	}
}

func TestChecksDaemonSettings(t *testing.T) {
	require.NoError(t, validDaemon().Validate())
	for flag, change := range map[string]func(*config.Daemon){
		"--node-name":                       func(d *config.Daemon) { d.NodeName = "" },
		"--namespace":                       func(d *config.Daemon) { d.Namespace = "Not_valid" },
		"--host-root":                       func(d *config.Daemon) { d.HostRoot = "host" },
		"--state-dir":                       func(d *config.Daemon) { d.StateDir = "" },
		"--tool-path":                       func(d *config.Daemon) { d.ToolPath = "" },
		"--tool-path: \"b\"":                func(d *config.Daemon) { d.ToolPath = "/a:b" },
		"--nvme-transports":                 func(d *config.Daemon) { d.NVMeTransports = []string{"pcie", "usb"} },
		"--profile-dir":                     func(d *config.Daemon) { d.ProfileDir = "profiles" },
		"--firmware-password-file":          func(d *config.Daemon) { d.FirmwarePasswordFile = "password" },
		"--plugin-dir":                      func(d *config.Daemon) { d.PluginDir = "plugins" },
		"--image-verification \"\"":         func(d *config.Daemon) { d.ImageVerification = "" },
		"--image-verification \"required\"": func(d *config.Daemon) { d.ImageVerification = "required" },
		"needs --image-keys-dir":            func(d *config.Daemon) { d.ImageVerification = config.ImagesSigned },
		"--image-keys-dir \"keys\"":         func(d *config.Daemon) { d.ImageKeysDir = "keys" },
		"--scan-interval":                   func(d *config.Daemon) { d.ScanInterval = 0 },
		"--boot-time-limit -":               func(d *config.Daemon) { d.BootTimeLimit = -time.Minute },
		"--boot-time-limit 3":               func(d *config.Daemon) { d.BootTimeLimit = 30 * time.Second },
		"--start-timeout 0s":                func(d *config.Daemon) { d.StartTimeout = 0 },
		"--isolation-timeout 0s":            func(d *config.Daemon) { d.IsolationTimeout = 0 },
		"--health-timeout 0":                func(d *config.Daemon) { d.HealthTimeout = 0 },
		"--check-timeout 0":                 func(d *config.Daemon) { d.CheckTimeout = 0 },
		"--check-timeout 1":                 func(d *config.Daemon) { d.CheckTimeout = time.Hour },
		"--log-level":                       func(d *config.Daemon) { d.LogLevel = "loud" },
		"--update-strategy":                 func(d *config.Daemon) { d.UpdateStrategy = "" },
		"--maintenance \"":                  func(d *config.Daemon) { d.Maintenance = "" },
		"--allow-undrained":                 func(d *config.Daemon) { d.Maintenance = config.MaintenanceNone },
		"--maintenance None":                func(d *config.Daemon) { d.AllowUndrained = true },
		"--image-server \"":                 func(d *config.Daemon) { d.ImageServer = "http://images" },
		"--image-server n":                  func(d *config.Daemon) { d.ImageTokenFile = "" },
	} {
		d := validDaemon()
		change(&d)
		assert.ErrorContains(t, d.Validate(), flag)
	}
}

func TestBootTimeCanBeUnlimited(t *testing.T) {
	d := validDaemon()
	d.BootTimeLimit = 0
	assert.NoError(t, d.Validate())
}

// TestAcceptsAllMaintenanceModes proves R001-20: none has to be asked for twice.
func TestAcceptsAllMaintenanceModes(t *testing.T) {
	for how, undrained := range map[string]bool{config.MaintenanceOperator: false, config.MaintenanceDrain: false, config.MaintenanceNone: true} {
		d := validDaemon()
		d.Maintenance, d.AllowUndrained = how, undrained
		assert.NoError(t, d.Validate())
	}
}
