package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
)

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
	log.Error(fmt.Errorf("write device: %w", context.Canceled), "Reconciler error")
	assert.Contains(t, out.String(), `level=INFO msg="Left to the next process"`)
	out.Reset()
	log.Error(errors.New("something else"), "error received after stop sequence was engaged")
	assert.Contains(t, out.String(), "level=ERROR")
}
