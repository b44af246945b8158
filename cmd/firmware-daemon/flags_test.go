package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

// shipped are the settings without a flag.
func shipped() config.Daemon {
	return config.Daemon{
		Machine: config.Machine{
			HostRoot: "/host", StateDir: "/var/lib/node-firmware", ToolPath: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			ProfileDir: "/etc/node-firmware/profiles", NVMeTransports: []string{"pcie"},
		},
		UpdateStrategy: "daemon", Maintenance: "Operator", Namespace: "node-firmware-system", ScanInterval: 5 * time.Minute,
		BootTimeLimit: 30 * time.Minute, IsolationTimeout: 10 * time.Minute, StartTimeout: time.Hour, HealthTimeout: 10 * time.Minute, CheckTimeout: time.Minute,
		ImageKeysDir: "/etc/node-firmware/image-keys", ImageVerification: "IfKeys",
		ProbeAddress: ":8081", MetricsAddress: "0", LogLevel: "info",
	}
}

// TestFlags: what each flag sets, and what is set without it.
func TestFlags(t *testing.T) {
	table := map[string]struct {
		value  string
		effect func(*config.Daemon)
	}{
		"host-root":                 {"/h", func(d *config.Daemon) { d.HostRoot = "/h" }},
		"state-dir":                 {"/s", func(d *config.Daemon) { d.StateDir = "/s" }},
		"tool-path":                 {"/a:/b", func(d *config.Daemon) { d.ToolPath = "/a:/b" }},
		"profile-dir":               {"/p", func(d *config.Daemon) { d.ProfileDir = "/p" }},
		"nvme-transports":           {"tcp,rdma", func(d *config.Daemon) { d.NVMeTransports = []string{"tcp", "rdma"} }},
		"plugin-dir":                {"/p", func(d *config.Daemon) { d.PluginDir = "/p" }},
		"firmware-password-file":    {"/p", func(d *config.Daemon) { d.FirmwarePasswordFile = "/p" }},
		"disable-driver":            {"a,b", func(d *config.Daemon) { d.DisabledDrivers = []string{"a", "b"} }},
		"node-name":                 {"n1", func(d *config.Daemon) { d.NodeName = "n1" }},
		"update-strategy":           {"pod", func(d *config.Daemon) { d.UpdateStrategy = "pod" }},
		"maintenance":               {"Drain", func(d *config.Daemon) { d.Maintenance = "Drain" }},
		"allow-undrained":           {"true", func(d *config.Daemon) { d.AllowUndrained = true }},
		"kubeconfig":                {"/k", func(d *config.Daemon) { d.Kubeconfig = "/k" }},
		"pod-name":                  {"p", func(d *config.Daemon) { d.PodName = "p" }},
		"namespace":                 {"other", func(d *config.Daemon) { d.Namespace = "other" }},
		"allow-unconfined":          {"true", func(d *config.Daemon) { d.AllowUnconfined = true }},
		"scan-interval":             {"7s", func(d *config.Daemon) { d.ScanInterval = 7 * time.Second }},
		"boot-time-limit":           {"7m", func(d *config.Daemon) { d.BootTimeLimit = 7 * time.Minute }},
		"isolation-timeout":         {"7m", func(d *config.Daemon) { d.IsolationTimeout = 7 * time.Minute }},
		"start-timeout":             {"7m", func(d *config.Daemon) { d.StartTimeout = 7 * time.Minute }},
		"health-timeout":            {"7m", func(d *config.Daemon) { d.HealthTimeout = 7 * time.Minute }},
		"check-timeout":             {"7s", func(d *config.Daemon) { d.CheckTimeout = 7 * time.Second }},
		"step-priority":             {"nic.flash=820", func(d *config.Daemon) { d.StepPriorities = config.StepPriorities{"nic.flash=820"} }},
		"image-server":              {"https://i", func(d *config.Daemon) { d.ImageServer = "https://i" }},
		"image-server-ca":           {"/c", func(d *config.Daemon) { d.ImageServerCA = "/c" }},
		"image-server-address-file": {"/a", func(d *config.Daemon) { d.ImageServerAddressFile = "/a" }},
		"image-token-file":          {"/t", func(d *config.Daemon) { d.ImageTokenFile = "/t" }},
		"image-keys-dir":            {"/k", func(d *config.Daemon) { d.ImageKeysDir = "/k" }},
		"image-verification":        {"Required", func(d *config.Daemon) { d.ImageVerification = "Required" }},
		"health-probe-bind-address": {":1", func(d *config.Daemon) { d.ProbeAddress = ":1" }},
		"metrics-bind-address":      {":1", func(d *config.Daemon) { d.MetricsAddress = ":1" }},
		"log-level":                 {"debug", func(d *config.Daemon) { d.LogLevel = "debug" }},
	}
	settings := func(args ...string) config.Daemon {
		var d config.Daemon
		c := &cobra.Command{}
		daemonFlags(c, &d)
		require.NoError(t, c.ParseFlags(args))
		return d
	}
	assert.Equal(t, shipped(), settings())
	runCommand().Flags().VisitAll(func(f *pflag.Flag) { assert.Contains(t, table, f.Name, "a flag without an effect in the table") })
	for flag, row := range table {
		want := shipped()
		row.effect(&want)
		assert.Equal(t, want, settings("--"+flag+"="+row.value), flag)
	}
}

// TestOptions: what the daemon gets beside its settings.
func TestOptions(t *testing.T) {
	d := shipped()
	d.NodeName, d.StateDir = "n1", t.TempDir()
	o, err := nodeOptions(d, rememberPlugins)
	require.NoError(t, err)
	assert.Equal(t, d, o.Config)
	assert.NotNil(t, o.Drivers)
	assert.NotNil(t, o.Plugins, "they come and go")
	assert.NotEmpty(t, o.Worker, "a write outlives the daemon")
	assert.NotEmpty(t, o.Own)
	d.PluginDir = config.NoPlugins
	o, err = nodeOptions(d, rememberPlugins)
	require.NoError(t, err)
	assert.Nil(t, o.Plugins)
	for name, change := range map[string]func(*config.Daemon){
		"--node-name":      func(d *config.Daemon) { d.NodeName = "" },
		"there is no such": func(d *config.Daemon) { d.StepPriorities = config.StepPriorities{"nic.flsh=1"} },
		"nobody":           func(d *config.Daemon) { d.DisabledDrivers = []string{"nobody"} },
	} {
		wrong := d
		change(&wrong)
		_, err := nodeOptions(wrong, rememberPlugins)
		assert.ErrorContains(t, err, name)
	}
}
