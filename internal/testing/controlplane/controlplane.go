package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout and stopTimeout bound each program's start and stop.
const (
	startTimeout = 90 * time.Second
	stopTimeout  = 10 * time.Second
)

// Options say where a control plane runs.
type Options struct {
	// DataDir keeps etcd's data, the certificates, the kubeconfig and the logs. It is created where it is missing. A
	// control plane that starts in a directory another one used before finds its objects again, under new certificates
	// and another port. Empty: a temporary directory, removed by Stop.
	DataDir string
	// AuditUsers are the users whose writes the API server records in AuditPath.
	AuditUsers []string
	// Out receives progress messages while etcd and kube-apiserver are downloaded or built. Nil: nothing is written.
	Out io.Writer
}

// ControlPlane is a running etcd and kube-apiserver with RBAC, service-account tokens and the admission plugins a
// cluster has by default, ServiceAccount excepted: pods are stored as they are written. There is no controller manager
// but the garbage collector, where it was started, no scheduler and no kubelet. Nothing is synced to disk, so it survives the death of its processes but not that of the
// machine.
//
// Its processes end with the process that started them, however it ends.
type ControlPlane struct {
	environment *envtest.Environment
	directory   *directory
	lifeline    *lifeline
	locator     *Locator
	// collector is the garbage collector; nil while none runs.
	collector *exec.Cmd
}

// Start finds the programs as Locator does and starts them. It returns when the API answers.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	out := options.Out
	if out == nil {
		out = io.Discard
	}
	locator, err := NewLocator(out)
	if err != nil {
		return nil, err
	}
	assets, err := locator.Locate(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := openDirectory(options.DataDir, assets)
	if err != nil {
		return nil, err
	}
	c, err := startIn(dir, options.AuditUsers)
	if err != nil {
		return nil, errors.Join(err, dir.close())
	}
	c.locator = locator
	return c, nil
}

func startIn(dir *directory, audited []string) (*ControlPlane, error) {
	lifeline, err := startLifeline(dir)
	if err != nil {
		return nil, err
	}
	logs, err := dir.openLogs()
	if err != nil {
		return nil, errors.Join(err, lifeline.release())
	}
	defer logs.close()

	c := &ControlPlane{environment: newEnvironment(dir, logs), directory: dir, lifeline: lifeline}
	if err := c.audit(audited); err != nil {
		return nil, errors.Join(err, lifeline.release())
	}
	if _, err := c.environment.Start(); err != nil {
		_ = c.environment.Stop()
		return nil, errors.Join(
			fmt.Errorf("start control plane: %w\n%s", err, dir.logTail()), dir.killLeftovers(), lifeline.release())
	}
	if err := os.WriteFile(c.KubeconfigPath(), c.Kubeconfig(), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("write kubeconfig: %w", err), c.Stop())
	}
	return c, nil
}

func newEnvironment(dir *directory, logs *logFiles) *envtest.Environment {
	etcd := &envtest.Etcd{
		Path: dir.program(etcdBinary), DataDir: dir.sub("etcd"), Out: logs.etcd, Err: logs.etcd,
	}
	etcd.Configure().Set("log-level", "warn")
	server := &envtest.APIServer{
		Path: dir.program(apiServerBinary), CertDir: dir.sub("apiserver"), Out: logs.apiServer, Err: logs.apiServer,
	}
	server.Configure().
		// Without these two the API server needs a default route and fails on a machine that has none.
		Set("advertise-address", "127.0.0.1").
		Set("endpoint-reconciler-type", "none").
		Set("profiling", "false")
	return &envtest.Environment{
		UseExistingCluster:       ptr.To(false),
		ControlPlane:             envtest.ControlPlane{APIServer: server, Etcd: etcd},
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  stopTimeout,
	}
}

// Config is an administrator's access to the API. The caller may change it.
func (c *ControlPlane) Config() *rest.Config {
	return rest.CopyConfig(c.environment.Config)
}

// Kubeconfig is the same access as a kubeconfig file.
func (c *ControlPlane) Kubeconfig() []byte {
	return c.environment.KubeConfig
}

// KubeconfigPath is the file that holds it until Stop.
func (c *ControlPlane) KubeconfigPath() string {
	return filepath.Join(c.directory.path, "kubeconfig")
}

// AddUser returns the access of a user with a client certificate. The user may do what RBAC gives the name and groups.
func (c *ControlPlane) AddUser(name string, groups ...string) (*rest.Config, error) {
	user, err := c.environment.AddUser(envtest.User{Name: name, Groups: groups}, c.Config())
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	return rest.CopyConfig(user.Config()), nil
}

// StopAPIServer stops the API server, as in an outage. The objects stay.
func (c *ControlPlane) StopAPIServer() error {
	return c.stopAPIServer()
}

// StartAPIServer serves the API again under the same address and certificates.
func (c *ControlPlane) StartAPIServer() error {
	logs, err := c.directory.openLogs()
	if err != nil {
		return err
	}
	defer logs.close()
	server := c.environment.ControlPlane.APIServer
	server.Out, server.Err = logs.apiServer, logs.apiServer
	if err := server.Start(); err != nil {
		return fmt.Errorf("start API server again: %w\n%s", err, c.directory.logTail())
	}
	return nil
}

// Stop ends all processes and removes the lock, and the directory if it was a temporary one.
func (c *ControlPlane) Stop() error {
	return errors.Join(
		c.stopGarbageCollector(),
		c.stopAPIServer(),
		c.directory.stop(etcdBinary, c.environment.ControlPlane.Etcd.Stop),
		c.lifeline.release(),
		c.directory.close(),
	)
}

// stopAPIServer kills the API server: it has no state of its own, and an orderly stop waits for every open watch.
func (c *ControlPlane) stopAPIServer() error {
	return errors.Join(
		c.directory.kill(apiServerBinary),
		c.directory.stop(apiServerBinary, c.environment.ControlPlane.APIServer.Stop),
	)
}
