package operator

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// pairs lets each kind of request that it knows through only two at a time: a client that sends one after the other gets none
// through.
type pairs struct {
	next http.RoundTripper
	mu   sync.Mutex
	// waiting is the request of a kind that waits for another one, and met counts the pairs.
	waiting map[string]chan struct{}
	met     map[string]int
}

var paired = map[string]*regexp.Regexp{
	"create NodeFirmware": regexp.MustCompile(`^POST .*/nodefirmwares$`),
	"queue FirmwareJob":   regexp.MustCompile(`^POST .*/firmwarejobs$`),
	"admit FirmwareJob":   regexp.MustCompile(`^PATCH .*/firmwarejobs/[^/]+/status$`),
}

func (p *pairs) RoundTrip(r *http.Request) (*http.Response, error) {
	for kind, pattern := range paired {
		if pattern.MatchString(r.Method + " " + r.URL.Path) {
			p.meet(r, kind)
		}
	}
	return p.next.RoundTrip(r)
}

// meet waits for another request of the kind, if none was ever in flight together with another.
func (p *pairs) meet(r *http.Request, kind string) {
	p.mu.Lock()
	other := p.waiting[kind]
	switch {
	case p.met[kind] > 0:
		p.mu.Unlock()
		return
	case other != nil:
		p.met[kind]++
		close(other)
		p.mu.Unlock()
		return
	}
	mine := make(chan struct{})
	p.waiting[kind] = mine
	p.mu.Unlock()
	select {
	case <-mine:
	case <-r.Context().Done():
	}
}

func (p *pairs) all() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.met) == len(paired)
}

// A fleet is not served one node after the other: the operator has the writes for several nodes in flight at once.
func TestTheWritesForDifferentNodesAreMadeSideBySide(t *testing.T) {
	env := apitest.New(t)
	p := &process{t: t, env: env, done: make(chan error, 1), conf: config.Operator{
		Maintenance: config.MaintenanceOperator,
		DaemonName:  "firmware-daemon", UpdateStrategies: []string{"daemon"}, Kubeconfig: env.ControlPlane.KubeconfigPath(),
		Namespace: apitest.Namespace, StoreDir: t.TempDir(), FileSourceDir: t.TempDir(), ImageServerAddress: freeAddress(t),
		ImageServerNames: []string{"127.0.0.1"}, ProbeAddress: "0", MetricsAddress: "0", LogLevel: "info",
	}}
	access, err := restConfig(p.conf.Kubeconfig)
	require.NoError(t, err)
	requests := &pairs{waiting: map[string]chan struct{}{}, met: map[string]int{}}
	access.Wrap(func(next http.RoundTripper) http.RoundTripper {
		requests.next = next
		return requests
	})
	mgr, err := newManager(access, p.conf, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	stop, err := wire(ctx, mgr, p.conf, Daemon{}, storedVersions())
	require.NoError(t, err)
	go func() { p.done <- mgr.Start(ctx) }()
	defer func() { // before the store's directory goes
		cancel()
		assert.NoError(t, <-p.done)
		stop()
	}()

	policy := &v1alpha1.RolloutPolicy{}
	policy.Name = "default"
	p.eventually("the default policy is there", func() bool { return p.get(policy) })
	before, all := policy.DeepCopy(), intstr.FromString("100%")
	policy.Spec.MaxUnavailable = &all
	require.NoError(t, env.Client.Patch(t.Context(), policy, client.MergeFrom(before)))
	for i := range 4 {
		p.node(fmt.Sprintf("n%d", i))
	}
	p.assign()
	for i := range 4 {
		d := &v1alpha1.NodeDevice{}
		d.Name = fmt.Sprintf("n%d-bios", i)
		p.eventually("the device is assigned", func() bool { return p.get(d) && d.Spec.Firmware != nil && d.Spec.Firmware.Digest != "" })
		p.observe(fmt.Sprintf("n%d", i), d.Generation)
	}
	p.eventually("two requests of every kind were in flight at once", requests.all)
}
