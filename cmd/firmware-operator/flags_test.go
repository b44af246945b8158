package main

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/operator"
)

// settings are what the operator is started with.
func settings(t *testing.T, args ...string) (c config.Operator, known []operator.Strategy) {
	t.Helper()
	cmd := command(func(_ context.Context, got config.Operator, s []operator.Strategy, _ *slog.Logger) error {
		c, known = got, s
		return nil
	})
	if !strings.Contains(strings.Join(args, " "), "--update-strategy=") {
		args = append(args, "--update-strategy=daemon") // required
	}
	cmd.SetArgs(args)
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	return c, known
}

// shipped are the settings without a flag but the one that has no default.
func shipped() config.Operator {
	return config.Operator{
		Namespace: "node-firmware-system", DaemonName: "firmware-daemon", UpdateStrategies: []string{"daemon"},
		Maintenance: "Operator", DrainForce: true, DrainDeleteEmptyDir: true, NodeConditions: []string{"Compliance", "Lifecycle"},
		StoreDir: "/var/lib/firmware-images", QuietPeriod: time.Minute, ExpectedJobDuration: 30 * time.Minute,
		ImageServerAddress: ":8444", ImageServerNames: []string{"node-firmware-images.node-firmware-system.svc"},
		LeaderElect: true, ProbeAddress: ":8081", MetricsAddress: ":8443", LogLevel: "info",
	}
}

// TestFlags: what each flag sets, and what is set without it.
func TestFlags(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16"), netip.MustParsePrefix("fd00::/8")}
	table := map[string]struct {
		value  string
		effect func(*config.Operator)
	}{
		"kubeconfig":                 {"/k", func(c *config.Operator) { c.Kubeconfig = "/k" }},
		"namespace":                  {"other", func(c *config.Operator) { c.Namespace = "other" }},
		"daemon-name":                {"other", func(c *config.Operator) { c.DaemonName = "other" }},
		"update-strategy":            {"pod --pod-handlers=/h", func(c *config.Operator) { c.UpdateStrategies, c.PodHandlers = []string{"pod"}, "/h" }},
		"pod-handlers":               {"/h --update-strategy=pod", func(c *config.Operator) { c.UpdateStrategies, c.PodHandlers = []string{"pod"}, "/h" }},
		"maintenance":                {"Drain", func(c *config.Operator) { c.Maintenance = "Drain" }},
		"drain-force":                {"false", func(c *config.Operator) { c.DrainForce = false }},
		"drain-delete-emptydir-data": {"false", func(c *config.Operator) { c.DrainDeleteEmptyDir = false }},
		"medik8s-lease-namespace":    {"l --maintenance=Drain", func(c *config.Operator) { c.Medik8sLeases, c.Maintenance = "l", "Drain" }},
		"node-conditions":            {"Lifecycle", func(c *config.Operator) { c.NodeConditions = []string{"Lifecycle"} }},
		"node-name":                  {"n1", func(c *config.Operator) { c.NodeName = "n1" }},
		"store-dir":                  {"/s", func(c *config.Operator) { c.StoreDir = "/s" }},
		"file-source-dir":            {"/f", func(c *config.Operator) { c.FileSourceDir = "/f" }},
		"allow-source-networks":      {"10.20.1.2/16,fd00::/8", func(c *config.Operator) { c.PrivateSources = networks }},
		"refuse-source-networks":     {"10.20.1.2/16,fd00::/8", func(c *config.Operator) { c.RefusedSources = networks }},
		"allow-source-hosts":         {"a.example.com,.b.example.com", func(c *config.Operator) { c.SourceHosts = []string{"a.example.com", ".b.example.com"} }},
		"quiet-period":               {"7s", func(c *config.Operator) { c.QuietPeriod = 7 * time.Second }},
		"expected-job-duration":      {"7m", func(c *config.Operator) { c.ExpectedJobDuration = 7 * time.Minute }},
		"image-server-bind-address":  {":1", func(c *config.Operator) { c.ImageServerAddress = ":1" }},
		"image-server-dns-names":     {"a.example.com,b.example.com", func(c *config.Operator) { c.ImageServerNames = []string{"a.example.com", "b.example.com"} }},
		"image-server-pod-ip":        {"10.0.0.9", func(c *config.Operator) { c.ImageServerPodIP = "10.0.0.9" }},
		"leader-elect":               {"false", func(c *config.Operator) { c.LeaderElect = false }},
		"health-probe-bind-address":  {":1", func(c *config.Operator) { c.ProbeAddress = ":1" }},
		"metrics-bind-address":       {":1", func(c *config.Operator) { c.MetricsAddress = ":1" }},
		"log-level":                  {"debug", func(c *config.Operator) { c.LogLevel = "debug" }},
	}
	c, known := settings(t)
	assert.Equal(t, shipped(), c)
	require.Len(t, known, 2)
	assert.Equal(t, []string{"daemon", "pod"}, []string{known[0].Name(), known[1].Name()})
	command(nil).Flags().VisitAll(func(f *pflag.Flag) { assert.Contains(t, table, f.Name, "a flag without an effect in the table") })
	for flag, row := range table {
		want := shipped()
		row.effect(&want)
		c, _ := settings(t, strings.Fields("--"+flag+"="+row.value)...)
		assert.Equal(t, want, c, flag)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
	c, _ = settings(t)
	assert.True(t, c.Traces.On())
}
