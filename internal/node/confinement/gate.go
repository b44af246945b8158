package confinement

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// errUnproven is the error of a write that was not sent.
var errUnproven = errors.New("the daemon writes nothing before the API server has proven to confine it to its node; it tries again")

// Gate is an access to the API server that sends no write until the proof has succeeded. Reads pass.
type Gate struct {
	// Access is for everything but the proof itself.
	Access *rest.Config
	// direct is for the proof.
	direct *rest.Config
	open   atomic.Bool
}

// NewGate returns a closed gate. It does not contact the API server.
func NewGate(access *rest.Config) *Gate {
	g := &Gate{direct: access, Access: rest.CopyConfig(access)}
	g.Access.Wrap(func(next http.RoundTripper) http.RoundTripper { return gated{g, next} })
	return g
}

type gated struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g gated) RoundTrip(req *http.Request) (*http.Response, error) {
	if !g.gate.open.Load() && req.Method != http.MethodGet && req.Method != http.MethodHead {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, errUnproven
	}
	return g.next.RoundTrip(req)
}

// WrappedRoundTripper returns the wrapped transport, so that it can be closed.
func (g gated) WrappedRoundTripper() http.RoundTripper { return g.next }

// Open opens the gate when the proof has succeeded. It retries while the API server gives no answer, and returns an error
// that matches ErrUnconfined when the API server would let the daemon of the node write objects of another one. It returns
// nil when the context ends.
func (g *Gate) Open(ctx context.Context, node, namespace string, log logr.Logger) error {
	p, err := newProof(g.direct, node, namespace)
	if err != nil {
		return err
	}
	if err := p.await(ctx, log); err != nil || ctx.Err() != nil {
		return err
	}
	g.open.Store(true)
	return nil
}

// OpenUnproven opens the gate without a proof.
func (g *Gate) OpenUnproven() { g.open.Store(true) }
