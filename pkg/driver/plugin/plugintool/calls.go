package plugintool

import (
	"context"
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/wire"
)

func (s *session) do(ctx context.Context, v plugin.Verb) (plugin.Answer, error) {
	switch v {
	case plugin.VerbInfo:
		return plugin.Answer{}, nil
	case plugin.VerbCancel:
		return plugin.Answer{}, s.cancel(ctx)
	default:
	}
	id, err := wire.IdentityTo(s.request.ID)
	if err != nil {
		return plugin.Answer{}, err
	}
	switch v {
	case plugin.VerbInspect:
		return s.inspect(ctx, id)
	case plugin.VerbCheck:
		m, err := s.plugin.Check(ctx, &pluginv1.CheckRequest{Identity: id, Image: wire.ImageTo(s.request.Image)})
		return plugin.Answer{}, answered(err, m.GetStatus())
	case plugin.VerbWrite, plugin.VerbActivate, plugin.VerbRevert:
		return s.change(ctx, v, id)
	case plugin.VerbArchive:
		return plugin.Answer{}, s.archive(ctx, id)
	default:
		return plugin.Answer{}, fmt.Errorf("no such verb: %s", v)
	}
}

// inspectTimeout is less than the deadline of the tool's process.
const inspectTimeout = 18 * time.Second

func (s *session) inspect(ctx context.Context, id *pluginv1.Identity) (plugin.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	m, err := s.plugin.Inspect(ctx, &pluginv1.InspectRequest{Identity: id})
	if err := answered(err, m.GetStatus()); err != nil {
		return plugin.Answer{}, err
	}
	var a plugin.Answer
	if a.ID, err = wire.IdentityFrom(m.GetIdentity()); err == nil {
		a.Firmware, err = wire.FirmwareFrom(m.GetFirmware())
	}
	if err != nil {
		return plugin.Answer{}, fmt.Errorf("%w: %w", plugin.ErrInvalid, err)
	}
	return a, nil
}

// archive ends with the context; the plugin's task then ends with the connection.
func (s *session) archive(ctx context.Context, id *pluginv1.Identity) error {
	stream, err := s.plugin.Archive(ctx, &pluginv1.ArchiveRequest{Task: s.task(), Identity: id, Path: s.request.Path})
	if err != nil {
		return answered(err, nil)
	}
	r, err := s.listen(stream)
	return answered(err, r.GetStatus())
}

func (s *session) cancel(ctx context.Context) error {
	mode := pluginv1.CancelMode_CANCEL_MODE_GRACEFUL
	if s.request.Force {
		mode = pluginv1.CancelMode_CANCEL_MODE_FORCE
	}
	m, err := s.plugin.CancelTask(ctx, &pluginv1.CancelTaskRequest{Id: s.request.Task, GraceSeconds: s.request.GraceSeconds, Mode: mode})
	return answered(err, m.GetStatus())
}

func (s *session) task() *pluginv1.TaskRef {
	return &pluginv1.TaskRef{Id: s.request.Task, DriverVersion: s.request.Version}
}
