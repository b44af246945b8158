package enginetest

import (
	"context"
	"sync"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Window is a maintenance that gets ready at the second look, and counts.
type Window struct {
	mu           sync.Mutex
	Phase        step.Maintenance
	Scheduled    int
	Released     int
	Failed       string
	NotInstalled bool
	// Node identifies the Node while the window is ready, and Cordon is its cordon then.
	Node   string
	Cordon maintenance.Cordon
	// Message is what the window says.
	Message string
	Err     error
	OnReady func()
	// Away says why the API server cannot be asked now; nil for never.
	Away func() error
}

// failure is why a call fails; nil when it does not.
func (w *Window) failure() error {
	if w.Away != nil {
		if err := w.Away(); err != nil {
			return err
		}
	}
	return w.Err
}

// Change is what happens to the maintenance while a job runs.
func (w *Window) Change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// Schedule implements maintenance.Window.
func (w *Window) Schedule(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failure(); err != nil {
		return err
	}
	if w.Phase != step.MaintenanceReady && w.Phase != step.MaintenanceRequested && !w.NotInstalled {
		w.Phase = step.MaintenanceRequested
		w.Scheduled++
	}
	w.Failed = ""
	return nil
}

// State implements maintenance.Window.
func (w *Window) State(context.Context) (maintenance.State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	phase := w.Phase
	switch {
	case w.failure() != nil:
		return maintenance.State{}, w.failure()
	case w.NotInstalled:
		return maintenance.State{Phase: step.MaintenanceNotInstalled, Message: "install the maintenance-operator"}, nil
	case phase == step.MaintenanceRequested:
		w.Phase = step.MaintenanceReady
	case phase == step.MaintenanceReady && w.OnReady != nil:
		f := w.OnReady
		w.OnReady = nil
		f()
	case phase == 0:
		phase = step.MaintenanceNone
	}
	state := maintenance.State{Phase: phase, Message: w.Message}
	if phase == step.MaintenanceReady {
		state.Node, state.Cordon = w.Node, w.Cordon
	}
	return state, nil
}

// Fail implements maintenance.Window.
func (w *Window) Fail(_ context.Context, message string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Phase == step.MaintenanceNone {
		w.Phase = step.MaintenanceRequested
	}
	w.Failed = message
	return nil
}

// Release implements maintenance.Window.
func (w *Window) Release(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failure(); err != nil {
		return err
	}
	if w.Phase != step.MaintenanceNone {
		w.Phase = step.MaintenanceNone
		w.Released++
	}
	return nil
}
