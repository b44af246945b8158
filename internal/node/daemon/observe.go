package daemon

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/job"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
)

// observe runs a daemon that reads the machine and reports it, and executes no job. It never opens the state directory
// for itself; while a process that executes a job has it open, that process reads and reports.
func observe(ctx context.Context, o Options) error {
	base, err := newBase(ctx, o)
	if err != nil {
		return err
	}
	guest := state.NewGuest(o.Config.StateDir)
	config := base.scans(o, guest)
	config.Turn = guest.Share
	disc := discovery.New(config)
	observer := &job.Observer{
		Client: base.manager.GetClient(), NodeName: o.Config.NodeName, Results: disc, Turn: guest.Share,
		Recorder: base.recorder(o), Now: time.Now,
	}
	if err := base.report(ctx, disc, observer.SetupWithManager); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return base.confine(ctx, o) })
	group.Go(func() error { return disc.RunScans(ctx) })
	group.Go(func() error { return runManager(ctx, base.manager, managerGrace) })
	group.Go(func() error { trimMemory(ctx, base.log); return nil })
	base.watch(ctx, group, disc)
	return group.Wait()
}
