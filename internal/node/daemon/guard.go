package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/guard"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// guardOf is the guard of this host. Own reads the pod of this process; nil in a guard.
func guardOf(c config.Daemon, own func(context.Context) (*corev1.Pod, error)) guard.Host {
	m := c.Machine
	proc := filepath.Join(m.HostRoot, "proc")
	return guard.Host{
		Proc: proc, Root: filepath.Join(proc, "1", "root"), // the host's own file system, writable where the mount of it is not
		StateDir: m.StateDir, ProfileDir: m.ProfileDir, KeysDir: c.ImageKeysDir, Own: own, Version: version.Current(),
		Ask: func(ctx context.Context, url string) error {
			if err := newServer(url).ask(ctx); err != nil {
				return fmt.Errorf("ask %s, where the kubelet reaches it: %w", url, err)
			}
			return nil
		},
	}
}

// ownPodTimeout bounds the question for the pod of this process: what asks it is about to write, also to roll back.
const ownPodTimeout = 30 * time.Second

// ownPod reads the pod of this process.
func ownPod(c client.Client, o Options) func(context.Context) (*corev1.Pod, error) {
	return func(ctx context.Context) (*corev1.Pod, error) {
		if o.Config.PodName == "" {
			return nil, errors.New("this process does not know its pod: set --pod-name")
		}
		ctx, done := context.WithTimeout(ctx, ownPodTimeout)
		defer done()
		pod := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: o.Config.Namespace, Name: o.Config.PodName}, pod); err != nil {
			return nil, fmt.Errorf("read the pod of this process: %w", err)
		}
		return pod, nil
	}
}

// How a guard waits.
const (
	// guardPoll is the interval of its looks while something else is in charge, and answerPoll while it works itself.
	guardPoll, answerPoll = 2 * time.Second, 2 * time.Second
	// guardPatience is how long nobody has or claims the state directory, and the API server is silent, before a guard takes over. It
	// spares a daemon that ended, and is started again meanwhile, the wait for a guard; a claim is what keeps one of the two out.
	guardPatience = 10 * time.Second
)

// RunGuard executes the job in the journal while nobody else does and the API server does not answer, as a daemon does that cannot
// reach it. It leaves the job to the daemon as soon as that claims it, or the API server answers, because then the kubelet starts that
// one. When no job is left it removes what the kubelet starts it from, and waits for its end. Where it is to end while a write runs, it ends after that.
func RunGuard(ctx context.Context, o Options, server string) error {
	w, err := newWatchman(o, server)
	if err != nil {
		return err
	}
	defer w.linger()
	for {
		if err := w.round(ctx); err != nil && ctx.Err() == nil {
			o.Log.Error("Guard could not look after the host; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(guardPoll):
		}
	}
}

// linger keeps this process, and with it the container, until no write runs any more, for as long as the grace period of the pod
// allows: where the host's systemd did not take a write over, the write ends with the container. The job itself is left at once.
func (w *watchman) linger() {
	w.release()
	for end := time.Now().Add(writeGrace); time.Now().Before(end); <-time.After(guardPoll) {
		running, err := command.WritesRunning(w.options.Config.StateDir)
		if err == nil && !running {
			return
		}
		if err != nil {
			w.options.Log.Error("Guard is to end and cannot see whether a write runs; it waits", "err", err)
		}
	}
}

// watchman is a guard that runs.
type watchman struct {
	options Options
	host    guard.Host
	journal *state.Guest
	server  server
	live    func() error
	// id is that of the static pod which this guard was started from, once it is known.
	id string
	// free is since when nobody else looks after the job; zero while somebody does.
	free time.Time
}

func newWatchman(o Options, server string) (*watchman, error) {
	self, err := state.ReadMachine(sysfs.DirFS(o.Config.HostRoot))
	if err != nil {
		return nil, err
	}
	return &watchman{options: o, host: guardOf(o.Config, nil), journal: state.NewGuest(o.Config.StateDir, self), server: newServer(server)}, nil
}

// round looks once, and works where nobody else does.
func (w *watchman) round(ctx context.Context) error {
	busy, err := w.unfinished()
	if err != nil {
		return err
	}
	if !busy {
		return w.remove(ctx)
	}
	if replaced, err := w.replaced(); err != nil || replaced {
		return err
	}
	if err := w.announce(); err != nil {
		return err
	}
	taken, err := w.taken()
	if err != nil {
		return err
	}
	if taken || w.server.answers(ctx) {
		w.free = time.Time{}
		return nil
	}
	if w.free.IsZero() {
		w.free = time.Now()
	}
	if time.Since(w.free) < guardPatience {
		return nil
	}
	return w.work(ctx)
}

// taken reports whether another process executes the job or claims it.
func (w *watchman) taken() (bool, error) {
	dir := w.options.Config.StateDir
	if claimed, err := state.Claimed(dir); err != nil || claimed {
		return claimed, err
	}
	return state.Locked(dir)
}

// remove takes away what the kubelet starts this guard from. Whoever has the state directory open does that itself.
func (w *watchman) remove(ctx context.Context) error {
	done, ok, err := w.journal.Share()
	if err != nil || !ok {
		return err
	}
	defer done()
	if busy, err := w.unfinished(); err != nil || busy { // nobody begins a job now
		return err
	}
	w.release()
	return w.host.Remove(ctx)
}

// unfinished reports whether the journal holds a job that has not ended.
func (w *watchman) unfinished() (bool, error) {
	view, err := w.journal.View()
	active := view.Active()
	return active != nil && active.Record.Outcome == "", err
}

// replaced reports whether another static pod is installed than this guard was started from: the kubelet is about to end it, and it
// must not be taken for the next one, which may never start.
func (w *watchman) replaced() (bool, error) {
	id, err := w.host.Installed()
	if err != nil || id == "" {
		return false, err
	}
	w.id = cmp.Or(w.id, id)
	return w.id != id, nil
}

// announce shows that this guard runs, in the directory that is there now.
func (w *watchman) announce() error {
	if alive, err := w.host.Alive(); err != nil || alive {
		return err
	}
	w.release()
	live, err := w.host.Live()
	if err != nil {
		return err
	}
	w.live = live.Close
	return nil
}

func (w *watchman) release() {
	if w.live != nil {
		_ = w.live()
		w.live = nil
	}
}

// errRelieved ends the work of a guard.
var errRelieved = errors.New("a daemon is there, the API server answers, or the job has ended")

// work executes the job until it has ended, a daemon claims it or the API server answers. A write that runs then goes on, and who comes next finds it.
func (w *watchman) work(ctx context.Context) error {
	o := w.options
	host, err := openState(o, 0)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	if claimed, err := state.Claimed(o.Config.StateDir); err != nil || claimed { // who claims it later, waits for untilRelieved
		return errors.Join(err, host.Close())
	}
	// The vendors' tools are asked for their versions first, which a tool that hangs makes long: a daemon that comes does not wait for that.
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return w.untilRelieved(inner) })
	group.Go(func() error { return w.execute(inner, host) })
	err = group.Wait()
	w.free = time.Time{}
	if errors.Is(err, errRelieved) {
		o.Log.Info("Guard leaves the job to the daemon, or the job has ended")
		err = nil
	}
	return errors.Join(err, host.Close())
}

// execute runs the engine until the context ends.
func (w *watchman) execute(ctx context.Context, host *state.State) error {
	o := w.options
	machine, err := newMachine(ctx, o)
	if err != nil {
		return err
	}
	cfg, err := machine.engineConfig(o, host)
	if err != nil {
		return err
	}
	cfg.Maintenance, cfg.Guard = outOfReach{}, w.host
	cfg.Health = health.Checker{Scanner: machine.hardware, Node: w.server, Network: machine.network(), Arrays: machine.hardware.Host}
	o.Log.Warn("No daemon runs on this node and the API server does not answer: this guard executes the job")
	return engine.New(cfg).Run(ctx)
}

func (w *watchman) untilRelieved(ctx context.Context) error {
	tick := time.NewTicker(answerPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if w.relieved(ctx) {
			return errRelieved
		}
	}
}

// relieved reports whether somebody else is to go on with the job, or nobody has to. What cannot be read relieves nobody.
func (w *watchman) relieved(ctx context.Context) bool {
	if claimed, err := state.Claimed(w.options.Config.StateDir); err == nil && claimed {
		return true
	}
	busy, err := w.unfinished()
	return err == nil && !busy || w.server.answers(ctx)
}

var errNoCluster = errors.New("this guard has no access to the API server; the daemon goes on when that answers")

// outOfReach is the maintenance of a node that a guard looks after: it is not known, and nothing of it can be changed.
type outOfReach struct{}

// Schedule implements maintenance.Window.
func (outOfReach) Schedule(context.Context) error { return errNoCluster }

// State implements maintenance.Window.
func (outOfReach) State(context.Context) (maintenance.State, error) {
	return maintenance.State{}, errNoCluster
}

// Fail implements maintenance.Window.
func (outOfReach) Fail(context.Context, string) error { return errNoCluster }

// Release implements maintenance.Window.
func (outOfReach) Release(context.Context) error { return errNoCluster }
