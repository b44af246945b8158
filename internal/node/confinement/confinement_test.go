package confinement

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var (
	forbidden = apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("denied by policy"))
	errAway   = errors.New("connection refused")
	missing   = apierrors.NewNotFound(schema.GroupResource{}, "x")
)

// answering is a proof whose writes get the answers, by what they write; the rest is forbidden.
func answering(t *testing.T, answer func(o client.Object) error) *proof {
	t.Helper()
	p, err := newProof(&rest.Config{Host: "http://127.0.0.1:1"}, "n1", "ns")
	require.NoError(t, err)
	p.client = fake.NewClientBuilder().WithScheme(p.client.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			sent := (&client.CreateOptions{}).ApplyOptions(opts)
			assert.Equal(t, []string{metav1.DryRunAll}, sent.DryRun, "a proof that fails changes nothing")
			return answer(o)
		},
	}).Build()
	return p
}

func TestProofNeedsEveryRefusal(t *testing.T) {
	for name, tc := range map[string]struct {
		answers          []error // of NodeDevice, event and maintenance
		unconfined, open bool
	}{
		"all are refused":                           {[]error{forbidden, forbidden, forbidden}, false, true},
		"no maintenance-operator":                   {[]error{forbidden, forbidden, missing}, false, true},
		"devices are let through":                   {[]error{nil, forbidden, forbidden}, true, false},
		"events are let through":                    {[]error{forbidden, nil, forbidden}, true, false},
		"maintenance is let through":                {[]error{forbidden, forbidden, nil}, true, false},
		"what was let through is there already":     {[]error{apierrors.NewAlreadyExists(schema.GroupResource{}, "x"), forbidden, forbidden}, true, false},
		"an API server that is away proves nothing": {[]error{errAway, forbidden, forbidden}, false, false},
		"a kind that is missing proves nothing":     {[]error{missing, forbidden, forbidden}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			err := answering(t, func(client.Object) error { n++; return tc.answers[n-1] }).attempt(t.Context())
			assert.Equal(t, tc.open, err == nil, "%v", err)
			assert.Equal(t, tc.unconfined, errors.Is(err, ErrUnconfined), "%v", err)
		})
	}
}

func TestTheProofWaitsForAnAPIServerAndForPoliciesThatWereJustApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := answering(t, func(client.Object) error {
			switch since := time.Since(began); {
			case since < time.Hour:
				return errAway
			case since < time.Hour+settle/2:
				return nil
			}
			return forbidden
		})
		done := make(chan error, 1)
		go func() { done <- p.await(t.Context(), logr.Discard()) }()
		require.NoError(t, <-done)
		assert.Greater(t, time.Since(began), time.Hour)
	})
}

func TestUnconfinedDaemonEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := answering(t, func(client.Object) error { return nil }).await(t.Context(), logr.Discard())
		require.ErrorIs(t, err, ErrUnconfined)
		assert.ErrorContains(t, err, "--allow-unconfined")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.NoError(t, answering(t, func(client.Object) error { return errAway }).await(ctx, logr.Discard()), "it ends when it is asked to")
	})
}

func TestWritesNothingBeforeProof(t *testing.T) {
	var writes, reads atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reads.Add(1)
		} else {
			writes.Add(1)
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	g := NewGate(&rest.Config{Host: server.URL})
	c, err := rest.HTTPClientFor(g.Access)
	require.NoError(t, err)
	send := func(method string) error {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL, http.NoBody)
		require.NoError(t, err)
		resp, err := c.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		assert.ErrorIs(t, send(method), errUnproven)
	}
	require.NoError(t, send(http.MethodGet))
	assert.EqualValues(t, 0, writes.Load())
	assert.EqualValues(t, 1, reads.Load())
	g.OpenUnproven()
	require.NoError(t, send(http.MethodPatch))
	assert.EqualValues(t, 1, writes.Load())
}
