package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// scopeTimeout is how long the host may take to adopt a worker; a write is not kept waiting for longer.
const scopeTimeout = 15 * time.Second

// startWorker starts a worker, moves it out of this process' container, so that the end of the container does not end it,
// and only then gives it its order.
func (w *following) startWorker(ctx context.Context, tool []string, give inherited) error {
	cmd, orders, err := w.spawn(give)
	if err != nil {
		return err
	}
	w.protect(ctx, cmd.Process.Pid)
	if err = errors.Join(ctx.Err(), w.unprotected(ctx)); err == nil {
		err = order{
			Argv: argvOf(tool, w.command.reading(writeImageFD)), Base: w.base, MaxOutput: w.runner.cfg.MaxOutput, Inhibit: w.inhibit(),
			HasImage: give.image != nil, Writing: w.record,
		}.send(orders)
	}
	_ = orders.Close() // a worker without its order ends by itself
	if err != nil {
		_ = cmd.Wait()
		return err
	}
	go w.superviseWorker(cmd, give.lock)
	return nil
}

// spawn starts the worker, which waits for its order.
func (w *following) spawn(give inherited) (cmd *exec.Cmd, orders *os.File, err error) {
	from, orders, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("start worker: %w", err)
	}
	defer from.Close()
	argv := w.runner.cfg.Worker
	cmd = exec.Command(argv[0], argv[1:]...)
	w.runner.prepare(cmd, w.command)
	cmd.Stdout, cmd.Stderr = w.stdout.file, w.stderr.file
	cmd.ExtraFiles = append([]*os.File{give.lock, from}, files(give.image)...) // lockFD, orderFD and workerImageFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start worker: %w", err), orders.Close())
	}
	return cmd, orders, nil
}

// protect moves the worker. A worker that cannot be moved writes nevertheless; the record and the log contain the reason.
func (w *following) protect(ctx context.Context, pid int) {
	if err := w.runner.moveOut(ctx, pid); err != nil {
		w.record.Unprotected = err.Error()
		if ProtectionRequired(ctx) {
			return // it does not begin
		}
		w.runner.cfg.Log.Warn("Write is not protected; do not delete the daemon's pod before it has ended",
			"argv", w.command.Argv, "err", err)
		return
	}
	w.record.Protected = true
}

// inhibit is the command that holds off a shutdown, its tool resolved.
func (w *following) inhibit() []string {
	argv := w.runner.cfg.Inhibit
	if len(argv) == 0 {
		return nil
	}
	// A tool that is not there fails in the worker, which records why the host was not asked.
	tool, err := w.runner.find(argv[0])
	if err != nil {
		tool = []string{filepath.Join(w.runner.cfg.Path[0], argv[0])}
	}
	return argvOf(tool, argv)
}

// superviseWorker follows the output until the worker ends and takes the result from its record. Until then it also holds
// the lock, so that the next write does not empty the files too early.
func (w *following) superviseWorker(cmd *exec.Cmd, lock *os.File) {
	defer close(w.done)
	defer w.closeOutputs()
	w.follow(cmd)
	record, err := readRecord(w.base)
	switch {
	case err == nil && record != nil && record.Ended != nil:
		w.result, w.err = record.result(w.command, w.base, w.runner.cfg.MaxOutput)
		_ = lock.Close()
	case cmd.ProcessState.ExitCode() > 0 && (record == nil || record.Tool == Process{}):
		tail, _, _ := readTail(w.base+errSuffix, maxLine)
		w.err = Failed(w.command, Result{ExitCode: -1, Stderr: tail}, errors.New("its worker did not start the tool"))
		_ = lock.Close()
	default:
		_ = lock.Close()
		w.awaitOrphan()
		w.err = failedToRun(w.command, fmt.Errorf("%w (%v ended its worker)", ErrLost, cmd.ProcessState))
	}
}

// awaitOrphan follows a tool whose worker is gone until the lock is free.
func (w *following) awaitOrphan() {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for range ticker.C {
		w.listen()
		if running, err := w.runner.WriteRunning(w.command.Lock); err == nil && !running {
			return
		}
	}
}

// errNoWorker and errNoScope are why nothing is protected with such a configuration.
var (
	errNoWorker = errors.New("no worker is configured")
	errNoScope  = errors.New("nothing is configured that could protect it")
)

// requireProtection is the key of RequireProtection.
type requireProtection struct{}

// RequireProtection returns a context under which a Write begins only if it survives the end of the container of this process, and fails
// with ErrUnprotected otherwise. It is in the context because drivers, which make the commands, do not decide about it.
func RequireProtection(ctx context.Context) context.Context {
	return context.WithValue(ctx, requireProtection{}, true)
}

// ProtectionRequired reports whether the context is of RequireProtection.
func ProtectionRequired(ctx context.Context) bool { return ctx.Value(requireProtection{}) != nil }

// Protects returns nil if a Write that began now would survive the end of this process's container, and otherwise an error that says why
// not. To find out it starts and moves a worker as for a write; the worker exits because it gets no order.
func (r *ExecRunner) Protects(ctx context.Context) error {
	if len(r.cfg.Worker) == 0 {
		return errNoWorker
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	defer null.Close()
	w := &following{runner: r, stdout: &follower{file: null}, stderr: &follower{file: null}}
	cmd, orders, err := w.spawn(inherited{lock: null})
	if err != nil {
		return err
	}
	err = r.moveOut(ctx, cmd.Process.Pid)
	_ = orders.Close()
	_ = cmd.Wait() // it complains that there was no order
	return err
}

// moveOut moves a worker out of the container of this process, so that the end of the container does not end it.
func (r *ExecRunner) moveOut(ctx context.Context, pid int) error {
	if r.cfg.Scope == nil {
		return errNoScope
	}
	ctx, cancel := context.WithTimeout(ctx, scopeTimeout)
	defer cancel()
	return r.cfg.Scope.Scope(ctx, pid, fmt.Sprintf("firmware-write-%d-%d", pid, processOf(pid).Start))
}

// unprotected returns why a write must not begin; nil when it may.
func (w *following) unprotected(ctx context.Context) error {
	if w.record.Protected || !ProtectionRequired(ctx) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnprotected, w.record.Unprotected)
}

// The descriptors a worker inherits beside its output files: the lock, and the pipe its order comes through. An image is behind them.
const (
	lockFD  = 3
	orderFD = 4
)

// RunWorker is the whole life of a worker: the process between a daemon and a tool that writes to a device. It waits
// for its order, and ends without having done anything when its daemon dies before that. Then it starts the tool, waits
// for its end and records it. Only the end of the tool ends it; if the worker is killed, the tool keeps running.
//
// It returns an error when the tool was not started. The program must print it and exit with a code other than 0.
func RunWorker() error {
	// Signals are taken and dropped instead of ignored: what is ignored here would be ignored by the tool as well.
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(dropped)
	lock, orders := os.NewFile(lockFD, "lock"), os.NewFile(orderFD, "orders")
	if info, err := orders.Stat(); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		return errors.New("start worker: it is started by the daemon alone, which gives it its order through a pipe")
	}
	syscall.CloseOnExec(lockFD)
	syscall.CloseOnExec(orderFD)
	o, err := receive(orders)
	if err = errors.Join(err, orders.Close()); err != nil {
		return err
	}
	var image *os.File
	if o.HasImage {
		syscall.CloseOnExec(workerImageFD)
		image = os.NewFile(workerImageFD, "image")
	}
	return o.carryOut(inherited{lock, image})
}

// carryOut records and starts the tool, and waits until it has ended.
func (o order) carryOut(give inherited) error {
	w := &o.Writing
	w.Worker = processOf(os.Getpid())
	hold, err := newInhibition(o.Inhibit)
	if err != nil {
		w.Uninhibited = err.Error()
	}
	w.Inhibited = hold != nil
	if err := w.save(o.Base); err != nil { // a write that leaves no trace must not begin
		return errors.Join(err, hold.release())
	}
	cmd := exec.Command(o.Argv[0], o.Argv[1:]...) // no context: a write outlives all of them
	cmd.Dir, cmd.Env = "/", os.Environ()          //nolint:forbidigo // the runner has set the worker's environment for the tool
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = slices.Concat([]*os.File{give.lock}, files(give.image), hold.files()) // the lock, writeImageFD and the inhibitor's
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	printed, err := openOutputs(o.Base)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start tool: %w", explainStart(err)), hold.release())
	}
	w.Tool = processOf(cmd.Process.Pid)
	_ = w.save(o.Base) // the write goes on, and its lock shows that
	w.Ended = printed.until(cmd, o.MaxOutput)
	_ = hold.release() // before anybody learns that the write is over, and reboots
	_ = w.save(o.Base) // what cannot be recorded is lost, and the device is asked
	return nil
}

// outputs are the two output files, of which a tool with endless output must not fill the disk.
type outputs [2]*os.File

func openOutputs(base string) (outputs, error) {
	var o outputs
	for i, suffix := range []string{outSuffix, errSuffix} {
		f, err := os.OpenFile(base+suffix, os.O_WRONLY, 0)
		if err != nil {
			return o, fmt.Errorf("open output: %w", err)
		}
		o[i] = f
	}
	return o, nil
}

// until waits for the tool, and bounds its output.
func (o outputs) until(cmd *exec.Cmd, limit int64) *Ended {
	reap(cmd, func() {
		for _, f := range o {
			giveBack(f, limit)
		}
	})
	return ended(cmd.ProcessState)
}
