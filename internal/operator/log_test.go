package operator

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/strategy"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func TestACleanStopLogsNoError(t *testing.T) {
	p := &process{t: t, env: apitest.New(t), done: make(chan error, 1)}
	p.conf = config.Operator{
		DaemonName: "firmware-daemon", UpdateStrategies: []string{"daemon"}, Kubeconfig: p.env.ControlPlane.KubeconfigPath(),
		Namespace: apitest.Namespace, StoreDir: t.TempDir(), FileSourceDir: t.TempDir(), ImageServerAddress: freeAddress(t),
		ImageServerNames: []string{"127.0.0.1"}, ProbeAddress: "0", MetricsAddress: "0", LogLevel: "info", LeaderElect: true,
	}
	var out logged
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		p.done <- Run(ctx, p.conf, []strategy.Strategy{strategy.Daemon{}}, slog.New(slog.NewTextHandler(&out, nil)))
	}()
	policy := &v1alpha1.RolloutPolicy{}
	policy.Name = "default"
	p.eventually("the leader is at work", func() bool { return p.get(policy) })
	cancel()
	require.NoError(t, <-p.done)
	out.mu.Lock()
	defer out.mu.Unlock()
	assert.NotContains(t, out.text.String(), "level=ERROR")
}

func TestALeaseIsLostOnlyWhileTheOperatorShouldRun(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	log := logr.FromSlogHandler(stopLog{slog.NewTextHandler(&out, nil), ctx}).WithName("manager").WithValues("a", 1)
	log.Error(errors.New(leaseLost), "error received")
	assert.Contains(t, out.String(), "level=ERROR")
	out.Reset()
	cancel()
	log.Error(errors.New(leaseLost), "error received after stop sequence was engaged")
	assert.Contains(t, out.String(), `level=INFO msg="Gave the lease of the leader back"`)
	out.Reset()
	log.Error(errors.New("something else"), "error received after stop sequence was engaged")
	assert.Contains(t, out.String(), "level=ERROR")
}
