package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
)

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
