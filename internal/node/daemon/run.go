package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Options configures a daemon.
type Options struct {
	Config config.Daemon
	// Access is the access to the API server, which may be unreachable.
	Access  *rest.Config
	Drivers DriverList
	// Worker is the command line of a program that calls command.RunWorker; writes run through it.
	Worker []string
	// Own are the tools that are part of this program, each with its command line.
	Own map[string][]string
	// Plugins are drivers that come and go; nil for none.
	Plugins Plugins
	Log     *slog.Logger
}

// Plugins are drivers that come and go.
type Plugins interface {
	// Watch calls changed when a driver has appeared, changed or disappeared, until the context ends.
	Watch(ctx context.Context, changed func())
}

// writeGrace is how long the process waits for a running write before it ends. It is a little less than the grace
// period of the pod; the write continues in any case.
const writeGrace = 55 * time.Minute

// Run runs the daemon until the context ends. An interrupted job is continued first and needs no API server. With the
// strategy pod, jobs are left to processes that run RunJob.
func Run(ctx context.Context, o Options) error {
	if o.Config.UpdateStrategy == config.StrategyPod {
		return observe(ctx, o)
	}
	host, err := takeState(o)
	if err != nil {
		return err
	}
	e, err := newExecutor(ctx, o, host.State, "")
	if err != nil {
		return errors.Join(err, host.Close())
	}
	return errors.Join(e.runForever(ctx), host.Close())
}

// taken is an open state directory with the claim of this process on it.
type taken struct {
	*state.State
	claim io.Closer
}

// takeState claims the state directory, so that a guard leaves it, and opens it. The claim is held as long as the directory. A disk on
// which nothing can be claimed keeps no daemon away: the guard also leaves when the API server answers it.
func takeState(o Options) (taken, error) {
	claim, err := state.Claim(o.Config.StateDir)
	if err != nil {
		o.Log.Warn("A guard on this host cannot see that a daemon is running; it exits when the API server answers", "err", err)
		claim = io.NopCloser(nil)
	}
	host, err := openState(o, jobPatience)
	if err != nil {
		return taken{}, errors.Join(err, claim.Close())
	}
	return taken{host, claim}, nil
}

// Close gives the directory to whoever comes next.
func (t taken) Close() error { return errors.Join(t.State.Close(), t.claim.Close()) }

// openState opens the state directory, waiting up to patience for another process that has it open.
func openState(o Options, patience time.Duration) (*state.State, error) {
	machine, err := state.ReadMachine(sysfs.DirFS(o.Config.HostRoot))
	if err != nil {
		return nil, err
	}
	host, err := state.Open(o.Config.StateDir, state.Options{Daemon: version.Current(), Machine: machine, Patience: patience})
	if err != nil {
		return nil, err
	}
	if host.Notice != "" {
		o.Log.Error("Set the state of another machine aside", "err", host.Notice)
	}
	if host.Leftover != "" {
		o.Log.Warn("Moved incomplete state of an interrupted first start aside", "directory", host.Leftover)
	}
	if host.Earlier != "" {
		o.Log.Warn("Moved aside the state of a development build, which this version cannot read; a job that was running then is not continued",
			"directory", filepath.Join(o.Config.StateDir, host.Earlier))
	}
	if host.Unswept != nil {
		o.Log.Warn("Leftovers of an interrupted archive run could not be removed; remove them by hand", "err", host.Unswept)
	}
	return host, nil
}

// runForever runs the parts of a daemon that executes all jobs of its node.
func (e executor) runForever(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	e.start(ctx, group)
	group.Go(func() error { trimMemory(ctx, e.log); return nil })
	group.Go(func() error { pruneArchive(ctx, e.log, e.discovery, e.archive); return nil })
	return group.Wait()
}

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
