package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// bootTime is how long a simulated machine takes to reboot.
const bootTime = 2 * time.Second

// A kubelet reports every 10 seconds and is missed after 50; here all of it is faster.
const (
	heartbeatEvery = 2 * time.Second
	heartbeatGrace = 10 * time.Second
	kubeletTimeout = 5 * time.Second
	// podPoll is how often a kubelet looks after its pods.
	podPoll = time.Second
)

// Node is one simulated machine with its kubelet and its daemon.
type Node struct {
	Name    string
	Machine *simhost.Machine
	kubelet *cluster.Kubelet
	// lifecycle reports the Node for the control plane when the kubelet does not.
	lifecycle *cluster.Kubelet
	// uplink is the machine's only way to the cluster; nil for a machine that is never cut off.
	uplink *uplink
	daemon container
	// daemonBinary is what also runs in the pods of jobs.
	daemonBinary string
	// access makes the kubeconfig of a pod on the node.
	access  func(ctx context.Context, pod *corev1.Pod) (kubeconfig string, err error)
	logPath string
	reboots atomic.Int32

	// local are the arguments that say where the machine and its access are, for whatever runs on it.
	local []string
	// keys are the arguments that say whose images the node takes, for the daemon and for pods that execute jobs. A guard has a copy of the
	// keys of its own.
	keys []string

	// static are the pods that the kubelet runs without the API server.
	static staticPods

	mu sync.Mutex
	// rebooted is set from a boot until the kubelet has reached the API server and starts the daemon's pod.
	rebooted bool
	// jobs are the processes of the pods that execute jobs, by uid; none is started while the machine is off.
	jobs map[types.UID]*child.Process
	off  bool
}

// newNode makes the machine in dir, or finds it there, and registers its Node.
func newNode(ctx context.Context, l *Lab, index int) (*Node, error) {
	name := fmt.Sprintf("node-%d", index)
	dir := filepath.Join(l.options.Dir, "nodes", name)
	n := &Node{Name: name, jobs: map[types.UID]*child.Process{}, logPath: filepath.Join(dir, "daemon.log"), daemonBinary: l.binary("firmware-daemon")}
	machine := filepath.Join(dir, "host")
	var err error
	if n.Machine, err = simhost.Open(machine); errors.Is(err, fs.ErrNotExist) {
		spec := simhost.DefaultSpec(name, index)
		spec.WriteTime = l.options.WriteTime
		spec.Uplink = cmp.Or(l.options.UplinkAdapter, spec.Uplink)
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
	n.kubelet, n.lifecycle = member.Kubelet, member.Kubelet
	server, images := l.plane.Config(), l.imageAddress
	if l.options.Uplink {
		spec, err := n.Machine.Spec()
		if err == nil && spec.Uplink == "" {
			err = fmt.Errorf("connect %s: an earlier version of the lab made this machine without an uplink; choose another directory", name)
		}
		if err != nil {
			return nil, err
		}
		if server, images, err = n.connect(l); err != nil {
			return nil, err
		}
	}
	if err := configureKubelet(machine, server.Host); err != nil {
		return nil, err
	}
	n.static = staticPods{root: machine, run: n.startStaticPod, runs: map[string]*staticPod{}}
	kubeconfig, err := writeAccess(filepath.Join(dir, "access"), server, member.Token)
	if err != nil {
		return nil, err
	}
	if err := writePrivate(filepath.Join(dir, "access", "image-token"), member.ImageToken); err != nil {
		return nil, err
	}
	n.local = []string{
		"--host-root=" + machine, "--state-dir=" + filepath.Join(machine, "var/lib/node-firmware"), "--tool-path=" + n.Machine.ToolPath(),
		"--scan-interval=" + l.options.ScanInterval.String(), "--health-timeout=" + l.options.HealthTimeout.String(), "--isolation-timeout=" + isolationTimeout.String(),
		"--image-server=https://" + images, "--image-server-ca=" + l.imageCA(),
		"--image-token-file=" + filepath.Join(dir, "access", "image-token"),
		"--health-probe-bind-address=0", "--metrics-bind-address=0",
	}
	if n.keys, err = l.imageKeys(dir); err != nil {
		return nil, err
	}
	args := append([]string{"run", "--update-strategy=" + l.options.DaemonStrategy, "--maintenance=" + l.options.Maintenance,
		fmt.Sprintf("--allow-undrained=%t", l.options.Maintenance == config.MaintenanceNone), "--node-name=" + name, "--kubeconfig=" + kubeconfig,
		"--namespace=" + cluster.Namespace, "--pod-name=" + podOf(name)}, slices.Concat(n.local, n.keys)...)
	n.daemon.run = func() (*child.Process, error) {
		return child.Start("firmware-daemon of "+name, n.logPath, n.daemonBinary, args...)
	}
	n.access = func(ctx context.Context, pod *corev1.Pod) (string, error) {
		token, err := cluster.PodToken(ctx, l.admin, pod)
		if err != nil {
			return "", err
		}
		return writeAccess(filepath.Join(dir, "access-"+string(pod.UID)), server, token)
	}
	return n, nil
}

// connect opens the only way of the machine to the cluster, and gives its kubelet no other. It returns the near ends for what
// runs on the machine.
func (n *Node) connect(l *Lab) (server *rest.Config, images string, err error) {
	n.uplink = newUplink(n.Machine)
	server = rest.CopyConfig(l.plane.Config())
	target, err := url.Parse(server.Host)
	if err != nil {
		return nil, "", fmt.Errorf("connect %s: %w", n.Name, err)
	}
	if target.Host, err = n.uplink.relay(target.Host); err != nil {
		return nil, "", err
	}
	if images, err = n.uplink.relay(l.imageAddress); err != nil {
		return nil, "", err
	}
	server.Host, server.Timeout = target.String(), kubeletTimeout
	c, err := client.New(server, client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		return nil, "", fmt.Errorf("connect %s: %w", n.Name, err)
	}
	n.kubelet = &cluster.Kubelet{Client: c, Node: n.Name, Labels: n.lifecycle.Labels}
	return server, images, nil
}

// Traffic is what became of the machine's connections; zero for a machine that is never cut off.
func (n *Node) Traffic() Traffic {
	if n.uplink == nil {
		return Traffic{}
	}
	return n.uplink.seen()
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
func (n *Node) StartDaemon() error { return n.daemon.start() }

// KillDaemon ends the daemon with SIGKILL; a write it started continues.
func (n *Node) KillDaemon() { n.daemon.kill() }

// DaemonPID is the daemon's process id, or 0 when it does not run.
func (n *Node) DaemonPID() int { return n.daemon.pid() }

// Reboots is how often the machine booted since the lab started it.
func (n *Node) Reboots() int { return int(n.reboots.Load()) }

// live acts as the machine's power switch and its kubelet until the context ends.
func (n *Node) live(ctx context.Context, complain func(format string, args ...any)) {
	var kubelet sync.WaitGroup
	defer kubelet.Wait()
	kubelet.Go(func() { n.kubelet.Reap(ctx, podPoll) })
	kubelet.Go(func() { n.daemon.keep(ctx, n.goesDown, complain) })
	kubelet.Go(func() { n.runJobPods(ctx, complain) })
	kubelet.Go(func() { n.runStaticPods(ctx, complain) })
	kubelet.Go(func() { n.heartbeat(ctx, complain) })
	if n.uplink != nil {
		kubelet.Go(func() { n.uplink.watch(ctx) })
	}
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
	n.endJobs((*child.Process).Kill)
	n.static.end((*child.Process).Kill)
	n.KillDaemon()
	if bootID, err := n.Machine.BootID(); err == nil {
		// If the API server is unreachable the Node stays as it was; the machine reboots all the same.
		_ = n.lifecycle.Report(ctx, corev1.ConditionUnknown, bootID)
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
	if n.uplink != nil {
		n.uplink.look() // no connection of the last boot may be left for the kubelet's next report
	}
	n.mu.Lock()
	n.off, n.rebooted = false, n.uplink != nil
	n.mu.Unlock()
	n.static.boot()
	if n.uplink != nil {
		return nil // a kubelet knows the pods of a DaemonSet only from the API server
	}
	return n.StartDaemon()
}

// heartbeat keeps the condition Ready of the Node until the context ends: the kubelet reports that the machine is up, and
// when nothing was heard of it for the grace period the control plane reports that nothing is known. A kubelet that reaches
// the API server after a boot starts the daemon.
func (n *Node) heartbeat(ctx context.Context, complain func(format string, args ...any)) {
	last := time.Now()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		n.mu.Lock()
		off, rebooted := n.off, n.rebooted
		n.mu.Unlock()
		bootID, err := n.Machine.BootID()
		switch {
		case off || err != nil:
			last = time.Now()
		case n.kubelet.Ensure(ctx, corev1.ConditionTrue, bootID) == nil:
			last = time.Now()
			if rebooted {
				n.startAfterBoot(complain)
			}
		case n.uplink != nil && time.Since(last) > heartbeatGrace:
			_ = n.lifecycle.Ensure(ctx, corev1.ConditionUnknown, bootID) // the next heartbeat tries again
		}
	}, heartbeatEvery)
}

func (n *Node) startAfterBoot(complain func(format string, args ...any)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.off {
		return
	}
	if err := n.StartDaemon(); err != nil {
		complain("%v", err)
		return
	}
	n.rebooted = false
}

// goesDown reports whether the machine reboots or has no power: what ends then is not started again before its boot.
func (n *Node) goesDown() bool {
	event, err := n.Machine.PowerEvent()
	return err != nil || event != simhost.NoPowerEvent
}

// powerOff ends the daemon, between two writes if possible, and then everything on the machine.
func (n *Node) powerOff() error {
	stop := func(p *child.Process) { p.Stop(stopGrace) }
	n.endJobs(stop)
	n.static.end(stop)
	n.daemon.stop()
	if n.uplink != nil {
		n.uplink.close()
	}
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
