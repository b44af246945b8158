package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
)

// plane is the control plane: the programs of a cluster's first node, with the authorization and the admission plugins that a
// cluster has by default, and all controllers.
type plane struct {
	authority *authority
	// admin is an administrator's access, as a file and for a client.
	admin    string
	config   *rest.Config
	programs Programs
	dir      string
	// stepLimit bounds the start of the API server.
	stepLimit time.Duration
	// running are the programs in the order they were started.
	running []*child.Process
	// server is the place of the API server among them.
	server int
}

// stopGrace is how long a program of the control plane may take to end.
const stopGrace = 5 * time.Second

// startPlane starts it in this process' namespaces, with its files in the directory. It returns when the API answers.
func startPlane(ctx context.Context, programs Programs, dir string, stepLimit time.Duration) (_ *plane, err error) {
	ca, err := newAuthority(filepath.Join(dir, "pki"))
	if err != nil {
		return nil, err
	}
	p := &plane{authority: ca, programs: programs, dir: dir, server: 1, stepLimit: stepLimit}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	err = errors.Join(
		ca.issue("apiserver", "kube-apiserver", nil, apiAddress, "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
		ca.issue("kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"}),
		ca.signingKey("accounts"),
	)
	if err != nil {
		return nil, err
	}
	if p.admin, err = ca.kubeconfig("admin", "admin", "system:masters"); err != nil {
		return nil, err
	}
	if p.config, err = clientcmd.BuildConfigFromFlags("", p.admin); err != nil {
		return nil, fmt.Errorf("read own access: %w", err)
	}
	p.config.QPS = -1
	data := filepath.Join(dir, "etcd")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	if err := p.start("etcd", "--data-dir="+data, "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380"); err != nil {
		return nil, err
	}
	if err := p.start("kube-apiserver", p.serverFlags()...); err != nil {
		return nil, err
	}
	if err := p.waitReady(ctx); err != nil {
		return nil, err
	}
	return p, p.startControllers()
}

// startControllers starts the controllers and the scheduler.
func (p *plane) startControllers() error {
	ca := p.authority
	manager, err := ca.kubeconfig("controller-manager", "system:kube-controller-manager")
	if err != nil {
		return err
	}
	scheduler, err := ca.kubeconfig("scheduler", "system:kube-scheduler")
	if err != nil {
		return err
	}
	return errors.Join(
		p.start(controlplane.ControllerManager.Name, "--kubeconfig="+manager, "--leader-elect=false", "--secure-port=0",
			"--use-service-account-credentials", "--root-ca-file="+ca.caFile(), "--service-account-private-key-file="+ca.keyFile("accounts")),
		p.start(controlplane.Scheduler.Name, "--kubeconfig="+scheduler, "--leader-elect=false", "--secure-port=0"),
	)
}

func (p *plane) serverFlags() []string {
	ca := p.authority
	return []string{
		"--etcd-servers=http://127.0.0.1:2379", "--bind-address=" + apiAddress, "--advertise-address=" + apiAddress, "--secure-port=443",
		"--service-cluster-ip-range=" + serviceRange, "--client-ca-file=" + ca.caFile(),
		"--tls-cert-file=" + ca.certFile("apiserver"), "--tls-private-key-file=" + ca.keyFile("apiserver"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + ca.keyFile("accounts"),
		"--service-account-signing-key-file=" + ca.keyFile("accounts"),
		"--kubelet-client-certificate=" + ca.certFile("kubelet-client"), "--kubelet-client-key=" + ca.keyFile("kubelet-client"),
		"--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged", "--profiling=false",
	}
}

func (p *plane) start(name string, args ...string) error {
	started, err := child.Start(name, filepath.Join(p.dir, name+".log"), p.programs[name], args...)
	if err != nil {
		return err
	}
	p.running = append(p.running, started)
	return nil
}

// waitReady waits until the API server says that it is ready.
func (p *plane) waitReady(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return fmt.Errorf("wait for the API server: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, p.stepLimit, true, func(ctx context.Context) (bool, error) {
		for _, c := range p.running {
			select {
			case <-c.Done():
				return false, fmt.Errorf("a program of the control plane ended: %w", c.Err())
			default:
			}
		}
		_, last = clients.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server: %w", errors.Join(err, last))
	}
	return nil
}

// silence ends the API server, as in an outage. The controllers end too when they notice, and restore starts all of them.
func (p *plane) silence() { p.running[p.server].Kill() }

// restore serves the API again.
func (p *plane) restore(ctx context.Context) error {
	for _, r := range p.running[p.server:] {
		r.Stop(stopGrace)
	}
	p.running = p.running[:p.server]
	if err := p.start("kube-apiserver", p.serverFlags()...); err != nil {
		return err
	}
	if err := p.waitReady(ctx); err != nil {
		return err
	}
	return p.startControllers()
}

// stop ends the programs, the last one first.
func (p *plane) stop() {
	for i := len(p.running) - 1; i >= 0; i-- {
		p.running[i].Stop(stopGrace)
	}
}
