package daemon

import (
	"context"
	"time"
)

// managerGrace is how long the manager may take to end. The next daemon repeats what it interrupts.
const managerGrace = 10 * time.Second

// starter is a manager.
type starter interface{ Start(context.Context) error }

// runManager returns when the manager ends, or at the latest after grace when the context has ended. A manager that has
// not filled its caches yet, because the API server is unreachable, never ends (runnableGroup.Start of
// controller-runtime 0.24); it ends with the process.
func runManager(ctx context.Context, m starter, grace time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return nil
	}
}
