package pluginserver

import (
	"context"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/wire"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// events receives the events of a task.
type events interface {
	Send(*pluginv1.TaskEvent) error
	Context() context.Context
}

// follow begins or finds the task and sends its events. A task that only reads ends when its follower does.
func (s *service) follow(ref *pluginv1.TaskRef, id inventory.Identity, bad error, to events, w work) error {
	t, err := s.task(ref, id, bad, w)
	if err != nil {
		return sendResult(to, &pluginv1.TaskResult{Status: wire.StatusTo(err)})
	}
	if !w.writes {
		defer context.AfterFunc(to.Context(), func() { t.cancel(plugin.ErrCancelled) })()
	}
	for {
		percent, moved := t.at()
		if !t.ended() || percent > 0 {
			progress := &pluginv1.Progress{Percent: int32(percent)} //nolint:gosec // from 0 to 100
			if err := to.Send(&pluginv1.TaskEvent{Event: &pluginv1.TaskEvent_Progress{Progress: progress}}); err != nil {
				return err
			}
		}
		if t.ended() {
			return sendResult(to, t.result())
		}
		select {
		case <-moved:
		case <-t.done:
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}

func (s *service) task(ref *pluginv1.TaskRef, id inventory.Identity, bad error, w work) (*task, error) {
	if bad != nil {
		return nil, bad
	}
	if err := plugin.CheckTask(ref.GetId()); err != nil {
		return nil, err
	}
	if ref.GetFollow() {
		if t := s.tasks.find(ref.GetId()); t != nil {
			return t, nil
		}
		return nil, noTask(ref.GetId())
	}
	if have := s.driver.Version(); ref.GetDriverVersion() != have {
		return nil, fmt.Errorf("%w: %s instead of %s; nothing was done", plugin.ErrVersionChanged, have, ref.GetDriverVersion())
	}
	return s.tasks.begin(ref.GetId(), id, w)
}

func sendResult(to events, r *pluginv1.TaskResult) error {
	return to.Send(&pluginv1.TaskEvent{Event: &pluginv1.TaskEvent_Result{Result: r}})
}
