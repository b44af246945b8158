package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

func operator() config.Operator {
	return config.Operator{
		DaemonName: "firmware-daemon", Maintenance: config.MaintenanceDrain,
		Namespace: "node-firmware-system", StoreDir: "/var/lib/firmware-images", QuietPeriod: time.Minute, ExpectedJobDuration: time.Hour, ImageServerAddress: ":8444",
		ImageServerNames: []string{"images"}, ProbeAddress: ":8081", MetricsAddress: "0", LogLevel: "info",
	}
}

func TestAcceptsOperatorSettings(t *testing.T) {
	assert.NoError(t, operator().Validate())
}

func TestEachBadOperatorSettingIsNamedByItsFlag(t *testing.T) {
	for flag, spoil := range map[string]func(*config.Operator){
		"--namespace":                 func(o *config.Operator) { o.Namespace = "Not A Name" },
		"--node-name":                 func(o *config.Operator) { o.NodeName = "a b" },
		"--pod-handlers \"/":          func(o *config.Operator) { o.PodHandlers = "/handlers.yaml" },
		"--pod-handlers \"\"":         func(o *config.Operator) { o.UpdateStrategies = []string{config.StrategyPod} },
		"--maintenance":               func(o *config.Operator) { o.Maintenance = "drain" },
		"--store-dir":                 func(o *config.Operator) { o.StoreDir = "images" },
		"--file-source-dir":           func(o *config.Operator) { o.FileSourceDir = "../images" },
		"--allow-source-hosts":        func(o *config.Operator) { o.SourceHosts = []string{"mirror.example.com:8443"} },
		"--expected-job-duration":     func(o *config.Operator) { o.ExpectedJobDuration = time.Second },
		"--quiet-period":              func(o *config.Operator) { o.QuietPeriod = -time.Second },
		"--image-server-bind-address": func(o *config.Operator) { o.ImageServerAddress = "8444" },
		"--image-server-pod-ip":       func(o *config.Operator) { o.ImageServerPodIP = "operator.example" },
		"--image-server-dns-names":    func(o *config.Operator) { o.ImageServerNames = nil },
		"--health-probe-bind-address": func(o *config.Operator) { o.ProbeAddress = "8081" },
		"--metrics-bind-address":      func(o *config.Operator) { o.MetricsAddress = "" },
		"--log-level":                 func(o *config.Operator) { o.LogLevel = "loud" },
	} {
		t.Run(flag, func(t *testing.T) {
			o := operator()
			spoil(&o)
			assert.ErrorContains(t, o.Validate(), flag)
		})
	}
}

func TestTheOperatorsOwnAddressHasThePortOfTheImageServer(t *testing.T) {
	for ip, want := range map[string]string{"": "", "10.1.2.3": "10.1.2.3:8444", "fd00::7": "[fd00::7]:8444"} {
		o := operator()
		o.ImageServerPodIP = ip
		assert.NoError(t, o.Validate())
		assert.Equal(t, want, o.PublishedImageServer())
	}
}
