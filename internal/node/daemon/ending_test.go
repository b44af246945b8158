package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodefirmware/node-firmware-operator/deploy"
)

// starting is a manager as a function.
type starting func(context.Context) error

func (s starting) Start(ctx context.Context) error { return s(ctx) }

func TestAbandonsHangingManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		cancel()
		err := runManager(ctx, starting(func(context.Context) error { <-release; return nil }), time.Minute)
		require.NoError(t, err)
		assert.Equal(t, time.Minute, time.Since(began))
		close(release)
	})
}

func TestManagersErrorIsResult(t *testing.T) {
	failure := errors.New("lost its lease")
	require.ErrorIs(t, runManager(t.Context(), starting(func(context.Context) error { return failure }), time.Minute), failure)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := runManager(ctx, starting(func(ctx context.Context) error { <-ctx.Done(); return failure }), time.Minute)
	require.ErrorIs(t, err, failure, "one that ends in time is waited for")
}

// The pod outlives what its process waits for, so that nothing but the end of the write ends the wait.
func TestThePodsGraceIsLongerThanTheWaitForAWrite(t *testing.T) {
	objects, err := deploy.Objects(deploy.Daemon)
	require.NoError(t, err)
	var found []time.Duration
	for _, o := range objects {
		if seconds, ok, err := unstructured.NestedInt64(o.Object, "spec", "template", "spec", "terminationGracePeriodSeconds"); ok && err == nil {
			found = append(found, time.Duration(seconds)*time.Second)
		}
	}
	require.Len(t, found, 1)
	assert.Greater(t, found[0], writeGrace+managerGrace)
}
