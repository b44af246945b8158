package operator

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// hung is an API server that does not answer writes of devices.
type hung struct {
	next    http.RoundTripper
	waiting atomic.Int32
}

func (h *hung) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodedevices/") {
		h.waiting.Add(1)
		defer h.waiting.Add(-1)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return h.next.RoundTrip(r)
}

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

// A stop in the middle of the work is as clean as one at rest: it ends in time, and what was not finished is no error.
func TestACleanStopInTheMiddleOfTheWorkLogsNoError(t *testing.T) {
	env := apitest.New(t)
	p := &process{t: t, env: env, done: make(chan error, 1), conf: config.Operator{
		DaemonName: "firmware-daemon", UpdateStrategies: []string{"daemon"}, Kubeconfig: env.ControlPlane.KubeconfigPath(),
		Namespace: apitest.Namespace, StoreDir: t.TempDir(), FileSourceDir: t.TempDir(), ImageServerAddress: freeAddress(t),
		ImageServerNames: []string{"127.0.0.1"}, ProbeAddress: "0", MetricsAddress: "0", LogLevel: "info", LeaderElect: true,
	}}
	const devices = 5 // fewer than workers, so that some of them wait for work
	for i := range devices {
		p.node(fmt.Sprintf("n%d", i))
	}
	p.assign()
	for round := range 4 {
		var out logged
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		log := slog.New(stopLog{slog.NewTextHandler(&out, nil), ctx})
		access, err := restConfig(p.conf.Kubeconfig)
		require.NoError(t, err)
		api := &hung{}
		access.Wrap(func(next http.RoundTripper) http.RoundTripper {
			api.next = next
			return api
		})
		mgr, err := newManager(access, p.conf, log)
		require.NoError(t, err)
		stop, err := wire(ctx, mgr, p.conf, Daemon{}, storedVersions())
		require.NoError(t, err)
		go func() { p.done <- mgr.Start(ctx) }()
		p.eventually("the writes hang", func() bool { return api.waiting.Load() == devices })
		template := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "bios"}} // there is more work, for the same devices
		require.True(t, p.get(template))
		before := template.DeepCopy()
		template.Spec.Rules[0].Downgrade = []v1alpha1.DowngradePolicy{v1alpha1.DowngradeAllow, v1alpha1.DowngradeForbid}[round%2]
		require.NoError(t, env.Client.Patch(ctx, template, client.MergeFrom(before)))
		changed := template.Generation
		p.eventually("the operator has seen that", func() bool { return p.get(template) && template.Status.ObservedGeneration == changed })
		cancel()
		require.NoError(t, <-p.done)
		stop()
		out.mu.Lock()
		assert.NotContains(t, out.text.String(), "level=ERROR")
		out.mu.Unlock()
	}
}
