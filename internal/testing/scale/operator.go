package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// operator is the process that is measured.
type operator struct {
	binary, dir, kubeconfig string
	quietPeriod             time.Duration
	probe                   string
	cmd                     *exec.Cmd
	done                    chan error
	// peak is the largest resident memory of the processes that ended, in KiB.
	peak int
}

func (o *operator) logPath() string { return filepath.Join(o.dir, "operator.log") }

// start starts the process and returns when it has its first lists.
func (o *operator) start(ctx context.Context) error {
	probe, err := controlplane.FreeAddress()
	if err != nil {
		return err
	}
	images, err := controlplane.FreeAddress()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(o.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start operator: %w", err)
	}
	defer log.Close()
	o.probe = "http://" + probe + "/readyz"
	o.cmd = exec.Command(o.binary, "--update-strategy=daemon", "--kubeconfig="+o.kubeconfig, "--namespace="+cluster.Namespace,
		"--store-dir="+filepath.Join(o.dir, "store"), "--file-source-dir="+o.dir, "--quiet-period="+o.quietPeriod.String(),
		"--image-server-bind-address="+images, "--image-server-dns-names=127.0.0.1",
		"--health-probe-bind-address="+probe, "--metrics-bind-address=0", "--leader-elect=false") // a busy machine is no failure
	o.cmd.Stdout, o.cmd.Stderr = log, log
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	o.done = make(chan error, 1)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the death signal is sent when the thread that forked ends
		defer runtime.UnlockOSThread()
		err := o.cmd.Start()
		started <- err
		if err == nil {
			o.done <- o.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start operator: %w", err)
	}
	return o.await(ctx, "the operator is ready", func() bool {
		response, err := http.Get(o.probe)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// await waits until something is so, and fails when the operator ends before.
func (o *operator) await(ctx context.Context, what string, is func() bool) error {
	for !is() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		case err := <-o.done:
			o.done <- err
			return fmt.Errorf("wait until %s: the operator ended (%w); see %s", what, err, o.logPath())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// stop ends the process as a kubelet does.
func (o *operator) stop() error {
	if o.cmd == nil {
		return nil
	}
	peak, err := peakMemory(o.cmd.Process.Pid)
	if err != nil {
		return err
	}
	o.peak = max(o.peak, peak)
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop operator: %w", err)
	}
	o.cmd = nil
	if err := <-o.done; err != nil {
		return fmt.Errorf("stop operator: %w; see %s", err, o.logPath())
	}
	return nil
}

// kill ends the process, if it runs, when a run has failed.
func (o *operator) kill() {
	if o.cmd != nil {
		_ = o.cmd.Process.Kill()
		<-o.done //nolint:errcheck // it was killed, and says so
	}
}

// peakMemory is the largest resident memory of a process so far, in KiB.
func peakMemory(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory of the operator: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmHWM:" {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				return 0, fmt.Errorf("read memory of the operator: %w", err)
			}
			return kib, nil
		}
	}
	return 0, errors.New("read memory of the operator: no VmHWM")
}

// loggedErrors are the first lines of the log at level ERROR.
func (o *operator) loggedErrors() ([]string, error) {
	f, err := os.Open(o.logPath())
	if err != nil {
		return nil, fmt.Errorf("read log of the operator: %w", err)
	}
	defer f.Close()
	out := []string{}
	for lines := bufio.NewScanner(f); lines.Scan() && len(out) < 20; {
		if strings.Contains(lines.Text(), `"level":"ERROR"`) {
			out = append(out, lines.Text())
		}
	}
	return out, nil
}
