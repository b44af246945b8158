package plugintool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/wire"
)

// events is the stream of events of a task.
type events interface {
	Recv() (*pluginv1.TaskEvent, error)
}

// change runs a writing task and follows it to its end. It has no deadline: a plugin that hangs in a write may still be
// writing. Only when the plugin's process is gone, or no longer knows the task, has the write ended.
func (s *session) change(ctx context.Context, v plugin.Verb, id *pluginv1.Identity) (plugin.Answer, error) {
	ref := s.task()
	for {
		r, err := s.attempt(ctx, v, ref, id)
		if err == nil {
			return outcome(r, ref.Follow)
		}
		if status.Code(err) == codes.Unimplemented {
			return plugin.Answer{}, answered(err, nil)
		}
		if gone(s.request.Socket) {
			return plugin.Answer{}, fmt.Errorf("%w: the plugin exited meanwhile: %s", command.ErrLost, plugin.Message(status.Convert(err).Message()))
		}
		ref.Follow = true // the task may have begun
		pause(ctx)
	}
}

// attempt begins the task, or follows it.
func (s *session) attempt(ctx context.Context, v plugin.Verb, ref *pluginv1.TaskRef, id *pluginv1.Identity) (*pluginv1.TaskResult, error) {
	var stream events
	var err error
	wait := grpc.WaitForReady(false)
	switch v {
	case plugin.VerbWrite:
		stream, err = s.plugin.Write(ctx, &pluginv1.WriteRequest{Task: ref, Identity: id, Image: wire.ImageTo(s.request.Image)}, wait)
	case plugin.VerbRevert:
		stream, err = s.plugin.Revert(ctx, &pluginv1.RevertRequest{Task: ref, Identity: id, Version: string(s.request.To)}, wait)
	case plugin.VerbConfigure:
		stream, err = s.plugin.Configure(ctx, &pluginv1.ConfigureRequest{Task: ref, Identity: id, Settings: wire.SettingsTo(s.request.Settings)}, wait)
	default:
		kind, bad := wire.ActivationTo(s.request.Kind)
		if bad != nil {
			return &pluginv1.TaskResult{Status: wire.StatusTo(bad)}, nil
		}
		stream, err = s.plugin.Activate(ctx, &pluginv1.ActivateRequest{Task: ref, Identity: id, Kind: kind}, wait)
	}
	if err != nil {
		return nil, err
	}
	return s.listen(stream)
}

// listen reads the events of a task and prints its progress.
func (s *session) listen(stream events) (*pluginv1.TaskResult, error) {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		switch event := m.GetEvent().(type) {
		case *pluginv1.TaskEvent_Result:
			return event.Result, nil
		case *pluginv1.TaskEvent_Progress:
			if percent := event.Progress.GetPercent(); percent > s.percent && percent <= 100 {
				s.percent = percent
				fmt.Fprintf(s.out, "%s%d\n", plugin.ProgressPrefix, percent)
			}
		}
	}
}

// outcome returns the result of a task. A task that was followed and is no longer known has ended with an unknown
// result.
func outcome(r *pluginv1.TaskResult, followed bool) (plugin.Answer, error) {
	err := wire.StatusFrom(r.GetStatus())
	if followed && errors.Is(err, plugin.ErrNotFound) {
		return plugin.Answer{}, fmt.Errorf("%w: the plugin restarted meanwhile", command.ErrLost)
	}
	if err != nil {
		return plugin.Answer{}, err
	}
	needs, err := wire.ActivationFrom(r.GetActivation())
	if err != nil { // the device was written, and only a read-back can show what it needs
		return plugin.Answer{}, fmt.Errorf("%w: %w: %w", command.ErrLost, plugin.ErrInvalid, err)
	}
	return plugin.Answer{Needs: needs, Reason: plugin.Message(r.GetReason())}, nil
}

// gone reports whether no process serves the socket.
func gone(socket string) bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }()
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket})
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrNotExist)
}

// pause is between two attempts to follow a task.
func pause(ctx context.Context) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}

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
	case plugin.VerbWrite, plugin.VerbActivate, plugin.VerbRevert, plugin.VerbConfigure:
		return s.change(ctx, v, id)
	case plugin.VerbParameters:
		return s.parameters(ctx, id)
	case plugin.VerbCheckConfiguration:
		m, err := s.plugin.CheckConfiguration(ctx, &pluginv1.CheckConfigurationRequest{Identity: id, Settings: wire.SettingsTo(s.request.Settings)})
		return plugin.Answer{}, answered(err, m.GetStatus())
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
	a.ID.SubsystemVendorID, a.ID.SubsystemDeviceID = s.request.ID.SubsystemVendorID, s.request.ID.SubsystemDeviceID // the protocol has neither
	return a, nil
}

func (s *session) parameters(ctx context.Context, id *pluginv1.Identity) (a plugin.Answer, err error) {
	m, err := s.plugin.Parameters(ctx, &pluginv1.ParametersRequest{Identity: id, Names: s.request.Names})
	if err := answered(err, m.GetStatus()); err != nil {
		return a, err
	}
	if a.Parameters, err = wire.ParametersFrom(m.GetParameters()); err != nil {
		return a, fmt.Errorf("%w: %w", plugin.ErrInvalid, err)
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
