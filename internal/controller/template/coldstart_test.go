package template

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// gate holds back the requests for one resource until it is opened, and reports when the others were requested.
type gate struct {
	next     http.RoundTripper
	resource string
	open     chan struct{}

	mu    sync.Mutex
	asked map[string]bool
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if resource == g.resource {
		select {
		case <-g.open:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	response, err := g.next.RoundTrip(r)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[resource] = true
	return response, err
}

func (g *gate) answered(resources ...string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range resources {
		if !g.asked[r] {
			return false
		}
	}
	return true
}

// An operator that starts while the list of one kind is late must not take what it has not seen for gone: nothing is
// removed, and once all is there nothing is written.
func TestPartialIndexRemovesNothing(t *testing.T) {
	all := []string{"nodes", "nodefirmwares", "firmwaretemplates", "firmwaresources", "nodedevices"}
	for _, late := range all {
		t.Run(late, func(t *testing.T) {
			f := newFleet(t)
			f.node("a", map[string]string{"pool": "gpu"})
			f.source("s", imageFor(board, v1, 1))
			a, pinned := f.discover("a", board, v1), f.discover("a", "MT_0000000540", v1, func(s *v1alpha1.NodeDeviceStatus) {
				s.Model = "ConnectX-7"
			})
			f.create(pinFor("a", "ConnectX-7"))
			f.template("t", "gpu", v1, "s", func(o *v1alpha1.FirmwareTemplate) {
				o.Spec.Rules[0].Selector.BoardIDs = []string{board}
			})
			f.startOperator()
			f.awaitVersion(a, v1, "t")
			f.awaitVersion(pinned, v1, "a")
			f.awaitReady("t", v1alpha1.ReasonSucceeded, status.CurrentStatus)
			f.stopOperator()
			before, beforePinned := f.device(a), f.device(pinned)

			g := &gate{resource: late, open: make(chan struct{}), asked: map[string]bool{}}
			slow := rest.CopyConfig(f.Config)
			slow.Wrap(func(next http.RoundTripper) http.RoundTripper {
				g.next = next
				return g
			})
			restarted := &fleet{T: t, Env: &apitest.Env{Config: slow, Scheme: f.Scheme, Client: f.Client}}
			restarted.startOperator()
			defer restarted.stopOperator()
			var others []string
			for _, r := range all {
				if r != late {
					others = append(others, r)
				}
			}
			require.Eventually(t, func() bool { return g.answered(others...) }, time.Minute, time.Millisecond)
			require.Never(t, func() bool { return restarted.writes.firmware.Load() > 0 }, 200*time.Millisecond, 10*time.Millisecond)
			close(g.open)

			// A new node proves that the operator is at work.
			f.node("b", map[string]string{"pool": "gpu"})
			f.awaitVersion(f.discover("b", board, v1), v1, "t")
			assert.Equal(t, before.ResourceVersion, f.device(a).ResourceVersion)
			assert.Equal(t, beforePinned.ResourceVersion, f.device(pinned).ResourceVersion)
			f.awaitReady("t", v1alpha1.ReasonSucceeded, status.CurrentStatus)
		})
	}
}
