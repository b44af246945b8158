package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// bootTime is how long a simulated machine takes to reboot.
const bootTime = 2 * time.Second

// Node is one simulated machine with its kubelet and its daemon.
type Node struct {
	Name    string
	Machine *simhost.Machine
	kubelet *cluster.Kubelet
	// arguments of the daemon.
	daemonArgs   []string
	daemonBinary string
	// access makes the kubeconfig of a pod on the node.
	access  func(ctx context.Context, pod *corev1.Pod) (kubeconfig string, err error)
	logPath string
	reboots atomic.Int32

	// local are the arguments that say where the machine and its access are, for whatever runs on it.
	local []string

	mu     sync.Mutex
	daemon *process
	// jobs are the processes of the pods that execute jobs, by uid; none is started while the machine is off.
	jobs map[types.UID]*process
	off  bool
}

// newNode makes the machine in dir, or finds it there, and registers its Node.
func newNode(ctx context.Context, l *Lab, index int) (*Node, error) {
	name := fmt.Sprintf("node-%d", index)
	dir := filepath.Join(l.options.Dir, "nodes", name)
	n := &Node{Name: name, jobs: map[types.UID]*process{}, logPath: filepath.Join(dir, "daemon.log"), daemonBinary: l.binary("firmware-daemon")}
	machine := filepath.Join(dir, "host")
	var err error
	if n.Machine, err = simhost.Open(machine); errors.Is(err, fs.ErrNotExist) {
		spec := simhost.DefaultSpec(name, index)
		spec.WriteTime = l.options.WriteTime
		n.Machine, err = simhost.Create(machine, spec)
	} else if err == nil {
		err = n.Machine.Boot()
	}
	if err != nil {
		return nil, err
	}
	if err := n.Machine.InstallTools(l.binary("firmware-simtools")); err != nil {
		return nil, err
	}
	member, err := l.Join(ctx, name, map[string]string{
		"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", index%3), "pool": "gpu",
	})
	if err != nil {
		return nil, err
	}
	n.kubelet = member.Kubelet
	kubeconfig, err := writeAccess(filepath.Join(dir, "access"), l.plane.Config(), member.Token)
	if err != nil {
		return nil, err
	}
	if err := writePrivate(filepath.Join(dir, "access", "image-token"), member.ImageToken); err != nil {
		return nil, err
	}
	n.local = []string{
		"--host-root=" + machine, "--state-dir=" + filepath.Join(machine, "var/lib/node-firmware"), "--tool-path=" + n.Machine.ToolPath(),
		"--scan-interval=" + l.options.ScanInterval.String(), "--health-timeout=" + l.options.HealthTimeout.String(),
		"--image-server=https://" + l.imageAddress, "--image-server-ca=" + l.imageCA(),
		"--image-token-file=" + filepath.Join(dir, "access", "image-token"),
		"--health-probe-bind-address=0", "--metrics-bind-address=0",
	}
	n.daemonArgs = append([]string{"run", "--update-strategy=" + l.options.DaemonStrategy, "--node-name=" + name, "--kubeconfig=" + kubeconfig,
		"--namespace=" + cluster.Namespace}, n.local...)
	n.access = func(ctx context.Context, pod *corev1.Pod) (string, error) {
		token, err := cluster.PodToken(ctx, l.admin, pod)
		if err != nil {
			return "", err
		}
		return writeAccess(filepath.Join(dir, "access-"+string(pod.UID)), l.plane.Config(), token)
	}
	return n, nil
}

// powerOn starts the daemon and reports the Node Ready.
func (n *Node) powerOn(ctx context.Context) error {
	bootID, err := n.Machine.BootID()
	if err != nil {
		return err
	}
	if err := n.StartDaemon(); err != nil {
		return err
	}
	return n.kubelet.Report(ctx, corev1.ConditionTrue, bootID)
}

// StartDaemon starts the daemon of the node, unless it runs.
func (n *Node) StartDaemon() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.daemon != nil {
		return nil
	}
	p, err := start("firmware-daemon of "+n.Name, n.logPath, n.daemonBinary, n.daemonArgs...)
	if err != nil {
		return err
	}
	n.daemon = p
	return nil
}

// KillDaemon ends the daemon with SIGKILL; a write it started continues.
func (n *Node) KillDaemon() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.daemon != nil {
		n.daemon.kill()
		n.daemon = nil
	}
}

// DaemonPID is the daemon's process id, or 0 when it does not run.
func (n *Node) DaemonPID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.daemon == nil {
		return 0
	}
	return n.daemon.pid()
}

// daemonExited is closed when the current daemon has ended.
func (n *Node) daemonExited() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.daemon == nil {
		return nil
	}
	return n.daemon.done
}

// Reboots is how often the machine booted since the lab started it.
func (n *Node) Reboots() int { return int(n.reboots.Load()) }

// live acts as the machine's power switch and its kubelet until the context ends.
func (n *Node) live(ctx context.Context, complain func(format string, args ...any)) {
	go n.kubelet.Reap(ctx, 200*time.Millisecond)
	go n.restartCrashed(ctx, complain)
	go n.runJobPods(ctx, complain)
	for ctx.Err() == nil { // a machine that is off in the middle of a boot stays so
		if _, err := n.Machine.WaitPowerEvent(ctx); err != nil {
			if ctx.Err() == nil {
				complain("watch power of %s: %v", n.Name, err)
			}
			return
		}
		if err := n.reboot(ctx); err != nil && ctx.Err() == nil {
			complain("reboot %s: %v", n.Name, err)
		}
	}
}

// reboot takes the machine through a boot: every process dies, pending firmware is activated, the boot id is new.
func (n *Node) reboot(ctx context.Context) error {
	n.KillDaemon()
	n.killJobs()
	if bootID, err := n.Machine.BootID(); err == nil {
		// If the API server is unreachable the Node stays as it was; the machine reboots all the same.
		_ = n.kubelet.Report(ctx, corev1.ConditionUnknown, bootID)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(bootTime):
	}
	if err := n.Machine.Boot(); err != nil {
		return err
	}
	n.reboots.Add(1)
	n.mu.Lock()
	n.off = false
	n.mu.Unlock()
	if err := n.StartDaemon(); err != nil {
		return err
	}
	bootID, err := n.Machine.BootID()
	if err != nil {
		return err
	}
	for n.kubelet.Report(ctx, corev1.ConditionTrue, bootID) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return nil
}

// restartCrashed restarts a daemon that ended by itself, as the kubelet restarts a container.
func (n *Node) restartCrashed(ctx context.Context, complain func(format string, args ...any)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		select {
		case <-n.daemonExited():
			event, err := n.Machine.PowerEvent()
			if err != nil || event != simhost.NoPowerEvent || ctx.Err() != nil {
				continue
			}
			complain("The daemon of %s ended by itself; see %s. It is started again.", n.Name, n.logPath)
			n.KillDaemon()
			if err := n.StartDaemon(); err != nil {
				complain("%v", err)
			}
		default:
		}
	}
}

// powerOff ends the daemon, between two writes if possible, and then everything on the machine.
func (n *Node) powerOff() error {
	n.stopJobs()
	n.mu.Lock()
	if n.daemon != nil {
		n.daemon.stop(stopGrace)
		n.daemon = nil
	}
	n.mu.Unlock()
	return n.Machine.CutPower()
}

// remove deletes the Node, as when it is removed from the cluster.
func (n *Node) remove(ctx context.Context, c client.Client) error {
	node := &corev1.Node{}
	node.Name = n.Name
	return client.IgnoreNotFound(c.Delete(ctx, node))
}

// log returns the end of the daemon's log, for messages about failures.
func (n *Node) log() string {
	data, err := os.ReadFile(n.logPath)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4096):])
}
