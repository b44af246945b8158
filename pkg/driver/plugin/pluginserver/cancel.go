package pluginserver

import (
	"context"
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/wire"
)

// maxGrace bounds the grace period of a cancellation, in seconds.
const maxGrace = 3600

// CancelTask asks a task to end and waits for it. A writing task is never interrupted.
func (s *service) CancelTask(ctx context.Context, m *pluginv1.CancelTaskRequest) (*pluginv1.CancelTaskResponse, error) {
	t := s.tasks.find(m.GetId())
	if t == nil {
		return &pluginv1.CancelTaskResponse{Status: wire.StatusTo(noTask(m.GetId()))}, nil
	}
	err := t.cancelled(ctx, m)
	return &pluginv1.CancelTaskResponse{Status: wire.StatusTo(err), Task: t.describe()}, nil
}

func (t *task) cancelled(ctx context.Context, m *pluginv1.CancelTaskRequest) error {
	force := m.GetMode() == pluginv1.CancelMode_CANCEL_MODE_FORCE
	switch {
	case !force && m.GetMode() != pluginv1.CancelMode_CANCEL_MODE_GRACEFUL:
		return fmt.Errorf("cancel task %s: mode %d is not supported", t.id, m.GetMode())
	case m.GetGraceSeconds() < 0 || m.GetGraceSeconds() > maxGrace:
		return fmt.Errorf("cancel task %s: the grace period is from 0 to %d seconds, not %d", t.id, maxGrace, m.GetGraceSeconds())
	case t.ended():
		return nil
	case t.work.writes && force:
		return fmt.Errorf("task %s: %w; wait until it ends", t.id, plugin.ErrWriting)
	}
	if !t.work.writes {
		t.cancel(plugin.ErrCancelled)
	}
	if t.wait(ctx, time.Duration(m.GetGraceSeconds())*time.Second) || force {
		return nil
	}
	return fmt.Errorf("task %s: %w after %d s", t.id, command.ErrStillRunning, m.GetGraceSeconds())
}
