package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrInterrupted says that the process was asked to end before its job had ended. Run it again to continue.
var ErrInterrupted = errors.New("stopped before the job ended; start it again to continue")

const (
	// jobPatience is how long a process that executes jobs waits for another one to leave the state directory: a daemon that is
	// reading the devices, or a guard, which looks for a claim every two seconds. A write goes on without its process.
	jobPatience = 30 * time.Second
	// settlePoll is the interval of checks whether everything is done and reported.
	settlePoll = 500 * time.Millisecond
)

// RunJob executes one job as a daemon does, with the same journal, maintenance, progress and reports, and returns nil
// when it has ended, successfully or not, and the API server has its result. A job that an earlier process left
// unfinished in the journal is finished first, and needs no API server. While the API server is unreachable, the report
// is retried.
func RunJob(ctx context.Context, o Options, name string) error {
	host, err := takeState(o)
	if err != nil {
		return err
	}
	e, err := newExecutor(ctx, o, host.State, name)
	if err != nil {
		return errors.Join(err, host.Close())
	}
	return errors.Join(e.runUntilSettled(ctx), host.Close())
}

// errSettled ends the parts of a process whose job has ended.
var errSettled = errors.New("the job has ended")

func (e executor) runUntilSettled(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	e.start(inner, group)
	group.Go(func() error {
		if !e.manager.GetCache().WaitForCacheSync(inner) {
			return nil // asked to end
		}
		return e.awaitSettled(inner)
	})
	switch err := group.Wait(); {
	case errors.Is(err, errSettled):
		pruneOnce(e.log, e.discovery, e.archive)
		return nil
	case err == nil:
		return fmt.Errorf("execute job %s: %w", e.jobs.Only, ErrInterrupted)
	default:
		return err
	}
}

// awaitSettled returns errSettled when everything is done and published, and nil when the context has ended.
func (e executor) awaitSettled(ctx context.Context) error {
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		settled, err := e.jobs.Settled(ctx)
		if err == nil && settled {
			err = e.discovery.Publish(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			e.log.Error(err, "Could not report the end of the job; trying again", "job", e.jobs.Only)
		case settled:
			return errSettled
		}
	}
}
