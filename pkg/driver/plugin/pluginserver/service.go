package pluginserver

import (
	"context"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/wire"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// service answers the calls of the daemon with a driver.
type service struct {
	pluginv1.UnimplementedDriverServer
	driver  driver.Driver
	matches []Match
	tasks   *tasks
}

// GetInfo returns the plugin's info.
func (s *service) GetInfo(context.Context, *pluginv1.GetInfoRequest) (*pluginv1.GetInfoResponse, error) {
	answer, err := wire.InfoTo(plugin.Info{Name: s.driver.Name(), Version: s.driver.Version(), Matches: s.matches, Settings: s.configurer() != nil})
	if err != nil {
		return &pluginv1.GetInfoResponse{Status: wire.StatusTo(err)}, nil
	}
	return answer, nil
}

// Inspect reads a device. A device that is being written is not disturbed: the daemon may inspect it because it lost the process that
// followed the write.
func (s *service) Inspect(ctx context.Context, m *pluginv1.InspectRequest) (*pluginv1.InspectResponse, error) {
	answer, err := s.inspect(ctx, m.GetIdentity())
	if err != nil {
		return &pluginv1.InspectResponse{Status: wire.StatusTo(err)}, nil
	}
	return answer, nil
}

func (s *service) inspect(ctx context.Context, of *pluginv1.Identity) (*pluginv1.InspectResponse, error) {
	id, err := wire.IdentityFrom(of)
	if err != nil {
		return nil, err
	}
	if err := s.tasks.idle(id); err != nil {
		return nil, err
	}
	id, fw, err := s.driver.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	answer := &pluginv1.InspectResponse{Status: wire.OK()}
	if answer.Identity, err = wire.IdentityTo(id); err != nil {
		return nil, err
	}
	answer.Firmware, err = wire.FirmwareTo(fw)
	return answer, err
}

// Check checks an image for a device.
func (s *service) Check(ctx context.Context, m *pluginv1.CheckRequest) (*pluginv1.CheckResponse, error) {
	id, img, err := target(m.GetIdentity(), m.GetImage())
	if err == nil {
		err = s.driver.Check(ctx, id, img)
	}
	return &pluginv1.CheckResponse{Status: wire.StatusTo(err)}, nil
}

func target(of *pluginv1.Identity, image *pluginv1.Image) (inventory.Identity, driver.Image, error) {
	id, err := wire.IdentityFrom(of)
	if err != nil {
		return id, driver.Image{}, err
	}
	img, err := wire.ImageFrom(image)
	return id, img, err
}

// configurer is the driver's part for settings; nil when it has none.
func (s *service) configurer() driver.Configurer {
	c, ok := s.driver.(driver.Configurer)
	if maybe, open := s.driver.(driver.MaybeConfigurer); !ok || open && !maybe.Configures() {
		return nil
	}
	return c
}

// settings returns what settings of the device are read and changed by.
func (s *service) settings(of *pluginv1.Identity, all []*pluginv1.Setting) (
	c driver.Configurer, id inventory.Identity, configuration driver.Configuration, err error,
) {
	if id, err = wire.IdentityFrom(of); err != nil {
		return nil, id, configuration, err
	}
	if c = s.configurer(); c == nil {
		return nil, id, configuration, fmt.Errorf("settings of %s: %w", id.UniqueID, driver.ErrNotSupported)
	}
	configuration.Set, err = wire.SettingsFrom(all)
	return c, id, configuration, err
}

// Parameters reads settings of a device, unless it is being written.
func (s *service) Parameters(ctx context.Context, m *pluginv1.ParametersRequest) (*pluginv1.ParametersResponse, error) {
	answer := &pluginv1.ParametersResponse{}
	c, id, _, err := s.settings(m.GetIdentity(), nil)
	if err == nil {
		err = s.tasks.idle(id)
	}
	var all []inventory.Parameter
	if err == nil {
		all, err = c.Parameters(ctx, id, m.GetNames()...)
	}
	if err == nil {
		answer.Parameters, err = wire.ParametersTo(all)
	}
	answer.Status = wire.StatusTo(err)
	return answer, nil
}

// CheckConfiguration checks settings for a device, unless it is being written.
func (s *service) CheckConfiguration(
	ctx context.Context, m *pluginv1.CheckConfigurationRequest,
) (*pluginv1.CheckConfigurationResponse, error) {
	c, id, configuration, err := s.settings(m.GetIdentity(), m.GetSettings())
	if err == nil {
		err = s.tasks.idle(id)
	}
	if err == nil {
		err = c.CheckConfiguration(ctx, id, configuration)
	}
	return &pluginv1.CheckConfigurationResponse{Status: wire.StatusTo(err)}, nil
}

// Configure stores settings in a device.
func (s *service) Configure(m *pluginv1.ConfigureRequest, stream pluginv1.Driver_ConfigureServer) error {
	c, id, configuration, err := s.settings(m.GetIdentity(), m.GetSettings())
	return s.follow(m.GetTask(), id, err, stream, work{kind: pluginv1.TaskKind_TASK_KIND_CONFIGURE, writes: true,
		do: func(ctx context.Context, _ driver.Progress) (inventory.Activation, error) {
			return c.Configure(ctx, id, configuration)
		}})
}

// Write hashes the image again and stages it.
func (s *service) Write(m *pluginv1.WriteRequest, stream pluginv1.Driver_WriteServer) error {
	id, img, err := target(m.GetIdentity(), m.GetImage())
	return s.follow(m.GetTask(), id, err, stream, work{kind: pluginv1.TaskKind_TASK_KIND_WRITE, writes: true,
		do: func(ctx context.Context, progress driver.Progress) (inventory.Activation, error) {
			if err := img.Verify(); err != nil {
				return 0, err
			}
			return s.driver.Write(ctx, id, img, progress)
		}})
}

// Activate makes the staged image run.
func (s *service) Activate(m *pluginv1.ActivateRequest, stream pluginv1.Driver_ActivateServer) error {
	id, err := wire.IdentityFrom(m.GetIdentity())
	kind, err2 := wire.ActivationFrom(m.GetKind())
	if err == nil {
		err = err2
	}
	return s.follow(m.GetTask(), id, err, stream, work{kind: pluginv1.TaskKind_TASK_KIND_ACTIVATE, writes: true,
		do: func(ctx context.Context, _ driver.Progress) (inventory.Activation, error) {
			return s.driver.Activate(ctx, id, kind)
		}})
}

// Revert makes a version held by a slot the one that runs next.
func (s *service) Revert(m *pluginv1.RevertRequest, stream pluginv1.Driver_RevertServer) error {
	id, err := wire.IdentityFrom(m.GetIdentity())
	return s.follow(m.GetTask(), id, err, stream, work{kind: pluginv1.TaskKind_TASK_KIND_REVERT, writes: true,
		do: func(ctx context.Context, _ driver.Progress) (inventory.Activation, error) {
			reverter, ok := s.driver.(driver.Reverter)
			if !ok {
				return 0, fmt.Errorf("revert %s: %w", id.UniqueID, driver.ErrNotSupported)
			}
			return reverter.Revert(ctx, id, inventory.Version(m.GetVersion()))
		}})
}

// Archive reads the running image into a file.
func (s *service) Archive(m *pluginv1.ArchiveRequest, stream pluginv1.Driver_ArchiveServer) error {
	id, err := wire.IdentityFrom(m.GetIdentity())
	return s.follow(m.GetTask(), id, err, stream, work{kind: pluginv1.TaskKind_TASK_KIND_ARCHIVE,
		do: func(ctx context.Context, _ driver.Progress) (inventory.Activation, error) {
			archiver, ok := s.driver.(driver.Archiver)
			if !ok {
				return 0, fmt.Errorf("read the image of %s: %w", id.UniqueID, driver.ErrNotSupported)
			}
			return inventory.ActivateNone, archiver.Archive(ctx, id, m.GetPath())
		}})
}

// GetTask returns the state of a task.
func (s *service) GetTask(_ context.Context, m *pluginv1.GetTaskRequest) (*pluginv1.GetTaskResponse, error) {
	t := s.tasks.find(m.GetId())
	if t == nil {
		return &pluginv1.GetTaskResponse{Status: wire.StatusTo(noTask(m.GetId()))}, nil
	}
	return &pluginv1.GetTaskResponse{Status: wire.OK(), Task: t.describe()}, nil
}

// ListTasks lists the tasks.
func (s *service) ListTasks(context.Context, *pluginv1.ListTasksRequest) (*pluginv1.ListTasksResponse, error) {
	return &pluginv1.ListTasksResponse{Status: wire.OK(), Tasks: s.tasks.list()}, nil
}

func noTask(id string) error { return fmt.Errorf("task %q: %w", id, plugin.ErrNotFound) }

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
