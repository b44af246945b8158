package pluginserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/wire"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// remembered bounds the known tasks, including running ones.
const remembered = 64

type work struct {
	kind pluginv1.TaskKind
	// writes says that the work is never cancelled.
	writes bool
	do     func(ctx context.Context, progress driver.Progress) (inventory.Activation, error)
}

// tasks are the running tasks and the last ended ones.
type tasks struct {
	log *slog.Logger

	mu       sync.Mutex
	all      []*task // the newest last
	stopping bool
	writing  sync.WaitGroup
}

func newTasks(log *slog.Logger) *tasks { return &tasks{log: log} }

// begin returns the running task of this id, or begins it.
func (ts *tasks) begin(id string, device inventory.Identity, w work) (*task, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.all {
		switch {
		case t.ended():
		case t.id == id:
			return t, nil
		case t.work.writes && w.writes && t.device.UniqueID == device.UniqueID:
			return nil, fmt.Errorf("task %s writes to %s: %w", t.id, device.UniqueID, command.ErrBusy)
		}
	}
	if ts.stopping {
		return nil, fmt.Errorf("%w; try again after its restart", plugin.ErrStopping)
	}
	if ts.all = slices.DeleteFunc(ts.all, func(t *task) bool { return t.id == id }); !ts.forget() {
		return nil, fmt.Errorf("%d tasks run already", remembered)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	t := &task{id: id, device: device, work: w, cancel: cancel, done: make(chan struct{}), moved: make(chan struct{})}
	ts.all = append(ts.all, t)
	if w.writes {
		ts.writing.Add(1)
	}
	go func() {
		ts.log.Info("Task began", "task", id, "kind", w.kind, "device", device.UniqueID)
		needs, err := t.run(ctx)
		ts.log.Info("Task ended", "task", id, "kind", w.kind, "device", device.UniqueID, "err", err)
		t.end(needs, err)
		cancel(nil)
		if w.writes {
			ts.writing.Done()
		}
	}()
	return t, nil
}

// forget drops an ended task to make room, and reports whether there is room.
func (ts *tasks) forget() bool {
	if len(ts.all) < remembered {
		return true
	}
	oldest := slices.IndexFunc(ts.all, func(t *task) bool { return t.ended() })
	if oldest < 0 {
		return false
	}
	ts.all = slices.Delete(ts.all, oldest, oldest+1)
	return true
}

func (ts *tasks) find(id string) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.all {
		if t.id == id {
			return t
		}
	}
	return nil
}

// writesTo is the task that writes to the device now; nil when there is none. The kernel and the driver may use
// different ids for the device.
func (ts *tasks) writesTo(id inventory.Identity) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.all {
		if t.work.writes && !t.ended() && sameDevice(t.device, id) {
			return t
		}
	}
	return nil
}

// idle returns an error while a task writes to the device.
func (ts *tasks) idle(id inventory.Identity) error {
	if t := ts.writesTo(id); t != nil {
		return fmt.Errorf("task %s writes to %s: %w", t.id, t.device.UniqueID, command.ErrStillRunning)
	}
	return nil
}

// sameDevice compares the kernel's handles first: drives of one controller share its address.
func sameDevice(a, b inventory.Identity) bool {
	switch {
	case a.Class != b.Class:
		return false
	case a.UniqueID == b.UniqueID:
		return true
	case a.Node != "" && b.Node != "":
		return a.Node == b.Node
	}
	return slices.ContainsFunc(a.PCI, func(function inventory.PCIAddress) bool { return slices.Contains(b.PCI, function) })
}

func (ts *tasks) list() []*pluginv1.Task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var out []*pluginv1.Task
	for _, t := range slices.Backward(ts.all) {
		out = append(out, t.describe())
	}
	return out
}

// drain begins no new tasks, cancels those that read and waits for those that write.
func (ts *tasks) drain() {
	ts.mu.Lock()
	ts.stopping = true
	for _, t := range ts.all {
		if !t.work.writes {
			t.cancel(plugin.ErrStopping)
		}
	}
	ts.mu.Unlock()
	ts.writing.Wait()
}

// task is one piece of work.
type task struct {
	id     string
	device inventory.Identity
	work   work
	cancel context.CancelCauseFunc
	// done is closed when it has ended; needs and err are set then.
	done  chan struct{}
	needs inventory.Activation
	err   error

	mu      sync.Mutex
	percent int
	// moved is closed and replaced with each progress.
	moved chan struct{}
}

func (t *task) run(ctx context.Context) (needs inventory.Activation, err error) {
	defer func() {
		if p := recover(); p != nil {
			needs, err = 0, panicked(p)
		}
	}()
	needs, err = t.work.do(ctx, t.progress)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return needs, err
}

func (t *task) progress(percent int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if percent = min(max(percent, 0), 100); percent > t.percent || t.percent == 0 {
		t.percent = percent
		close(t.moved)
		t.moved = make(chan struct{})
	}
}

// at returns the progress and a channel that is closed with the next progress.
func (t *task) at() (percent int, moved <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.percent, t.moved
}

func (t *task) end(needs inventory.Activation, err error) {
	t.needs, t.err = needs, err
	close(t.done)
}

func (t *task) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

func (t *task) result() *pluginv1.TaskResult {
	needs, reason, err := driver.StillNeeded(t.needs, t.err)
	if err != nil {
		return &pluginv1.TaskResult{Status: wire.StatusTo(err)}
	}
	activation, err := wire.ActivationTo(needs)
	if err != nil {
		return &pluginv1.TaskResult{Status: wire.StatusTo(err)}
	}
	return &pluginv1.TaskResult{Status: wire.OK(), Activation: activation, Reason: plugin.Message(reason)}
}

func (t *task) describe() *pluginv1.Task {
	percent, _ := t.at()
	m := &pluginv1.Task{
		Id: t.id, Kind: t.work.kind, State: pluginv1.TaskState_TASK_STATE_RUNNING, UniqueId: t.device.UniqueID,
		Percent: int32(percent), //nolint:gosec // from 0 to 100
	}
	if t.ended() {
		m.State, m.Result = pluginv1.TaskState_TASK_STATE_ENDED, t.result()
	}
	return m
}

// wait waits for the end of the task, for at most the given time.
func (t *task) wait(ctx context.Context, atMost time.Duration) bool {
	timer := time.NewTimer(cmp.Or(atMost, time.Nanosecond))
	defer timer.Stop()
	select {
	case <-t.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return t.ended()
}

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
