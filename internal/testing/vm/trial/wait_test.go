package trial_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// running is a machine that runs for ever.
type running struct{}

func (running) Done() <-chan struct{} { return nil }
func (running) Err() error            { return nil }

// A wait that is over cuts off what the condition reads. What it had read before is the reason.
func TestWaitReportsLastReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := trial.Node{Machine: func() trial.Machine { return running{} }, StepLimit: time.Minute}
		looks := 0
		err := n.Until(t.Context(), "the daemon is at rest", func(ctx context.Context) (bool, error) {
			if looks++; looks < 3 {
				return false, errors.New("the container takes 66 MiB")
			}
			<-ctx.Done()
			if looks == 3 {
				return false, errors.New("the kubelet did not answer in time")
			}
			return false, errors.New("signal: killed")
		})
		require.ErrorContains(t, err, "wait until the daemon is at rest: not within 1m0s")
		assert.ErrorContains(t, err, "the kubelet did not answer in time")
		assert.NotContains(t, err.Error(), "killed")
	})
}
