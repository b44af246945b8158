package daemon

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/job"
	"github.com/nodefirmware/node-firmware-operator/internal/node/memory"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
)

// observe runs a daemon that reads the machine and reports it, and executes no job. It never opens the state directory
// for itself; while a process that executes a job has it open, that process reads and reports.
func observe(ctx context.Context, o Options) error {
	base, err := newBase(ctx, o)
	if err != nil {
		return err
	}
	self, err := state.ReadMachine(base.hardware.FS)
	if err != nil {
		return err
	}
	guest := state.NewGuest(o.Config.StateDir, self)
	config := base.scans(o, guest)
	config.Turn, config.MayConfigure = guest.Share, nil // other processes change the devices
	disc := discovery.New(config)
	observer := &job.Observer{
		Client: base.manager.GetClient(), NodeName: o.Config.NodeName, Turn: guest.Share,
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

// settleTime is how long the daemon takes to start: by then it has scanned, filled its caches and published its
// objects.
const settleTime = 10 * time.Second

// trimMemory releases memory that only the start of the daemon needed: freed heap, and the pages of the program that
// registered kinds and set up clients. The kernel reads a page again from its file cache when it is needed.
func trimMemory(ctx context.Context, log logr.Logger) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	if err := memory.Release(); err != nil {
		log.V(1).Info("Could not release pages of the program", "cause", err.Error())
	}
}
