package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/imageserver"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/mirror"
)

// stopGrace is how long a program of the lab may take to stop.
const stopGrace = 15 * time.Second

// Options say how large the lab is and where it lives.
type Options struct {
	// Nodes is the number of simulated machines. Others may Join.
	Nodes int
	// Dir keeps everything the lab writes: the API's data, the machines, logs. A lab that starts in the directory of an
	// earlier one continues with its machines and objects.
	Dir string
	// BinDir holds firmware-operator, firmware-daemon and firmware-simtools.
	BinDir string
	// Out receives a line for each event.
	Out io.Writer
	// QuietPeriod, ScanInterval, HealthTimeout: see the operator's and the daemon's flags of these names.
	QuietPeriod, ScanInterval, HealthTimeout time.Duration
	// ImageServerNames are names of the operator's image server besides 127.0.0.1.
	ImageServerNames []string
	// WriteTime is how long a simulated device takes for one image.
	WriteTime time.Duration
	// Uplink makes the first network adapter of each machine its only way to the API server and the image server. A machine
	// whose adapter has no link is cut off.
	Uplink bool
	// UplinkAdapter is the key of another adapter for that, of a new machine; the first one when empty.
	UplinkAdapter string
	// UpdateStrategy is the operator's flag of this name, by default daemon; DaemonStrategy is the daemons' flag, by
	// default that of the operator.
	UpdateStrategy, DaemonStrategy string
	// Handlers is the file of the operator's --pod-handlers.
	Handlers string
	// Maintenance is the flag of operator and daemons of this name, by default Operator. The stand-in of the
	// maintenance-operator runs with that one only.
	Maintenance string
	// Mirror publishes the images of the lab as signed archives, on a server of its own with a private authority and a password. The operator
	// reaches it by a proxy, and each node takes only what the publisher signed. Without it sources name files below ImageDir, as those of the
	// quickstart do, and no node demands a signature.
	Mirror bool
	// OperatorEnv is the environment of the operator besides the proxy of the mirror, as NAME=value; nil for that of the lab.
	OperatorEnv []string
	// MaintenanceOperator is the file of a real maintenance-operator's manager, which runs in place of the stand-in; empty for
	// the stand-in.
	MaintenanceOperator string
	// Manifests is the directory deploy of another version of the product, which is installed in place of this one.
	Manifests fs.FS
}

// Lab is a running lab.
type Lab struct {
	Nodes []*Node

	options  Options
	plane    *controlplane.ControlPlane
	admin    client.WithWatch
	operator container
	// maintenance runs where the lab has the real maintenance-operator.
	maintenance  container
	imageAddress string
	// mirror is nil unless Options.Mirror.
	mirror   *mirror.Mirror
	cancel   context.CancelFunc
	running  sync.WaitGroup
	out      sync.Mutex
	rollouts []RolloutReport // as the demo saw them
}

// Up starts a lab. It must be closed.
func Up(ctx context.Context, o Options) (l *Lab, err error) {
	if o.Nodes < 0 || o.Nodes > 100 {
		return nil, fmt.Errorf("start lab: %d nodes; choose up to 100", o.Nodes)
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, fmt.Errorf("start lab: %w", err)
	}
	o.UpdateStrategy = cmp.Or(o.UpdateStrategy, config.StrategyDaemon)
	o.DaemonStrategy = cmp.Or(o.DaemonStrategy, o.UpdateStrategy)
	o.Maintenance = cmp.Or(o.Maintenance, config.MaintenanceOperator)
	for _, sub := range []string{"nodes", "images", "operator"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("start lab: %w", err)
		}
	}
	if o.MaintenanceOperator != "" && o.Maintenance != config.MaintenanceOperator {
		return nil, fmt.Errorf("start lab: with --maintenance=%s no maintenance-operator is asked; leave %s out", o.Maintenance, o.MaintenanceOperator)
	}
	l = &Lab{options: o}
	programs := []string{"firmware-operator"}
	if o.Nodes > 0 {
		programs = append(programs, "firmware-daemon", "firmware-simtools")
	}
	for _, name := range programs {
		if _, err := os.Stat(l.binary(name)); err != nil {
			return nil, fmt.Errorf("start lab: %w; build the binaries with: make build", err)
		}
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	started := l // not l, which the returns below set to nil
	defer func() {
		if err != nil {
			err = errors.Join(err, started.Close())
		}
	}()
	l.say("Starting etcd and kube-apiserver …")
	if l.plane, err = controlplane.Start(ctx, controlplane.Options{DataDir: filepath.Join(o.Dir, "controlplane"), Out: o.Out}); err != nil {
		return nil, err
	}
	access := rest.CopyConfig(l.plane.Config())
	access.QPS, access.Burst = 500, 1000 // it serves every simulated kubelet
	if l.admin, err = client.NewWithWatch(access, client.Options{Scheme: cluster.Scheme()}); err != nil {
		return nil, fmt.Errorf("start lab: %w", err)
	}
	if o.Manifests != nil {
		err = cluster.InstallFrom(ctx, l.admin, o.Manifests)
	} else {
		err = cluster.Install(ctx, l.admin)
	}
	if err != nil {
		return nil, err
	}
	if o.UpdateStrategy == config.StrategyPod {
		if err := cluster.InstallPodStrategy(ctx, l.admin, l.options.Handlers); err != nil {
			return nil, err
		}
	}
	if err := l.startMaintenance(background); err != nil {
		return nil, err
	}
	if o.Mirror {
		if err := l.startMirror(ctx); err != nil {
			return nil, err
		}
	}
	if err := l.startOperator(ctx); err != nil {
		return nil, err
	}
	l.running.Go(func() { l.operator.keep(background, func() bool { return false }, l.say) })
	if o.Nodes > 0 {
		l.say("Starting %d simulated machines …", o.Nodes)
	}
	for i := range o.Nodes {
		n, err := newNode(ctx, l, i)
		if err != nil {
			return nil, err
		}
		l.Nodes = append(l.Nodes, n)
		if err := n.powerOn(ctx); err != nil {
			return nil, err
		}
		l.running.Go(func() { n.live(background, l.say) })
	}
	return l, nil
}

// Close stops everything that the lab started, in order: daemons and machines, operator, API.
func (l *Lab) Close() error {
	l.cancel()
	l.running.Wait()
	var errs []error
	var mu sync.Mutex
	var stopping sync.WaitGroup
	for _, n := range l.Nodes {
		stopping.Go(func() {
			if err := n.powerOff(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	stopping.Wait()
	l.operator.stop()
	l.maintenance.stop()
	if l.mirror != nil {
		errs = append(errs, l.mirror.Close())
	}
	if l.plane != nil {
		errs = append(errs, l.plane.Stop())
	}
	return errors.Join(errs...)
}

// KubeconfigPath is a file with which kubectl reaches the API as its administrator.
func (l *Lab) KubeconfigPath() string { return l.plane.KubeconfigPath() }

// ImageDir is where file URLs of FirmwareSources may point, in a lab without a mirror.
func (l *Lab) ImageDir() string { return filepath.Join(l.options.Dir, "images") }

func (l *Lab) binary(name string) string { return filepath.Join(l.options.BinDir, name) }

func (l *Lab) imageCA() string { return filepath.Join(l.options.Dir, "operator", "image-ca.crt") }

func (l *Lab) say(format string, args ...any) {
	l.out.Lock()
	defer l.out.Unlock()
	fmt.Fprintf(l.options.Out, format+"\n", args...)
}

func (l *Lab) startMaintenance(ctx context.Context) error {
	switch l.options.Maintenance {
	case config.MaintenanceDrain:
		return cluster.InstallDrain(ctx, l.admin)
	case config.MaintenanceNone:
		return nil
	}
	if l.options.MaintenanceOperator != "" {
		return l.startMaintenanceOperator(ctx)
	}
	standIn, err := maintenance.New(l.plane.Config())
	if err != nil {
		return err
	}
	l.running.Go(func() { standIn.Run(ctx) })
	return nil
}

// startOperator starts the operator with the token of its own service account and waits until it serves images.
func (l *Lab) startOperator(ctx context.Context) error {
	address, err := controlplane.FreeAddress()
	if err != nil {
		return err
	}
	l.imageAddress = address
	dir := filepath.Join(l.options.Dir, "operator")
	pod, err := cluster.RunPod(ctx, l.admin, "firmware-operator", cluster.OperatorAccount, "control-plane")
	if err != nil {
		return err
	}
	token, err := cluster.PodToken(ctx, l.admin, pod)
	if err != nil {
		return err
	}
	kubeconfig, err := writeAccess(dir, l.plane.Config(), token)
	if err != nil {
		return err
	}
	args := []string{
		"--update-strategy=" + l.options.UpdateStrategy, "--pod-handlers=" + l.options.Handlers, "--maintenance=" + l.options.Maintenance,
		"--kubeconfig=" + kubeconfig, "--namespace=" + cluster.Namespace, "--store-dir=" + filepath.Join(dir, "store"),
		"--quiet-period=" + l.options.QuietPeriod.String(),
		"--image-server-bind-address=" + address, "--image-server-dns-names=" + strings.Join(append([]string{"127.0.0.1"}, l.options.ImageServerNames...), ","),
		"--health-probe-bind-address=0", "--metrics-bind-address=0", "--leader-elect=false",
	}
	env := l.options.OperatorEnv
	if l.mirror != nil {
		env = append([]string{"HTTPS_PROXY=" + l.mirror.Proxy()}, env...) // which leaves loopback addresses out, such as that of the API server
	} else {
		args = append(args, "--file-source-dir="+l.ImageDir())
	}
	l.operator.run = func() (*child.Process, error) {
		return child.StartWith(env, "firmware-operator", l.operatorLog(), l.binary("firmware-operator"), args...)
	}
	if err := l.StartOperator(); err != nil {
		return err
	}
	return l.fetchImageCA(ctx)
}

// StartOperator starts the operator again after KillOperator.
func (l *Lab) StartOperator() error { return l.operator.start() }

// KillOperator ends the operator with SIGKILL.
func (l *Lab) KillOperator() { l.operator.kill() }

// OperatorPID is the operator's process id, or 0 when it does not run.
func (l *Lab) OperatorPID() int { return l.operator.pid() }

// StopAPIServer makes the API unreachable; StartAPIServer makes it reachable again on the same address.
func (l *Lab) StopAPIServer() error { return l.plane.StopAPIServer() }

// StartAPIServer makes the API reachable again.
func (l *Lab) StartAPIServer() error { return l.plane.StartAPIServer() }

func (l *Lab) operatorLog() string { return filepath.Join(l.options.Dir, "operator", "operator.log") }

// fetchImageCA does what the kubelet does for the daemons' volume: it copies the published authority into a file.
func (l *Lab) fetchImageCA(ctx context.Context) error {
	var cm corev1.ConfigMap
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		if p := l.operator.exited(); p != nil {
			return false, fmt.Errorf("it ended at once (%w)", p.Err())
		}
		err := l.admin.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: imageserver.ConfigMapName}, &cm)
		return err == nil && cm.Data[imageserver.CAKey] != "", nil
	})
	if err != nil {
		return fmt.Errorf("start operator: wait for its image authority: %w; see %s", err, l.operatorLog())
	}
	return writePrivate(l.imageCA(), cm.Data[imageserver.CAKey])
}
