package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// operator is the process that is measured.
type operator struct {
	binary, dir, kubeconfig string
	quietPeriod             time.Duration
	probe                   string
	// process is nil while none is to run.
	process *child.Process
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
	o.probe = "http://" + probe + "/readyz"
	o.process, err = child.Start("firmware-operator", o.logPath(), o.binary, "--update-strategy=daemon", "--kubeconfig="+o.kubeconfig, "--namespace="+cluster.Namespace,
		"--store-dir="+filepath.Join(o.dir, "store"), "--file-source-dir="+o.dir, "--quiet-period="+o.quietPeriod.String(),
		"--image-server-bind-address="+images, "--image-server-dns-names=127.0.0.1",
		"--health-probe-bind-address="+probe, "--metrics-bind-address=0", "--leader-elect=false") // a busy machine is no failure
	if err != nil {
		return err
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
		case <-o.ended():
			return fmt.Errorf("wait until %s: the operator ended (%w); see %s", what, o.process.Err(), o.logPath())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// ended is closed when the operator has ended by itself.
func (o *operator) ended() <-chan struct{} {
	if o.process == nil {
		return nil
	}
	return o.process.Done()
}

// patience is how long the operator may take to end in order.
const patience = time.Minute

// stop ends the process as a kubelet does.
func (o *operator) stop() error {
	if o.process == nil {
		return nil
	}
	peak, err := peakMemory(o.process.PID())
	if err != nil {
		return err
	}
	o.peak = max(o.peak, peak)
	stopped := o.process
	o.process = nil
	if stopped.Stop(patience); stopped.Err() != nil {
		return fmt.Errorf("stop operator: %w; see %s", stopped.Err(), o.logPath())
	}
	return nil
}

// kill ends the process, if it runs, when a run has failed.
func (o *operator) kill() {
	if o.process != nil {
		o.process.Kill()
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
