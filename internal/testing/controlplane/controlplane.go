package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
)

// startTimeout and stopGrace bound the start of the API server, and how long a program may take to end in order.
const (
	startTimeout = 5 * time.Minute // on a machine that does much else
	stopGrace    = 10 * time.Second
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
	// Flags are those of the API server that come after its own.
	Flags []string
	// Cluster makes it the control plane of a cluster that has nodes; nil for an API alone, on the loopback interface.
	Cluster *Cluster
}

// Cluster is what the API server of a cluster with nodes is told.
type Cluster struct {
	// Address is the one that it listens on, at port 443.
	Address string
	// Flags are those that such an API server has in place of the ones in alone.
	Flags []string
	// Authority signs the certificates.
	Authority *Authority
	// StartTimeout bounds the start of the API server.
	StartTimeout time.Duration
}

// ControlPlane is a running etcd and kube-apiserver with RBAC, service-account tokens and the admission plugins a
// cluster has by default, ServiceAccount excepted: pods are stored as they are written. There is no controller manager
// but the garbage collector, where it was started, no scheduler and no kubelet. Nothing is synced to disk, so it survives the death of its
// processes but not that of the machine.
//
// Its processes end with the process that started them, however it ends.
type ControlPlane struct {
	options   Options
	dir       string
	lock      *flock.Flock
	locator   *Locator
	assets    string
	authority *Authority
	config    *rest.Config
	flags     []string
	// storage is the address of etcd.
	storage string
	// etcd and server are nil until they were started; programs are the others, by name.
	etcd, server *child.Process
	programs     map[string]*child.Process
}

// Start finds the programs as Locator does and starts them. It returns when the API answers.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	if options.Out == nil {
		options.Out = io.Discard
	}
	locator, err := NewLocator(options.Out)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{options: options, dir: options.DataDir, locator: locator, programs: map[string]*child.Process{}}
	if c.assets, err = locator.Locate(ctx); err != nil {
		return nil, err
	}
	if err := c.open(); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w\n%s", err, c.logTail()), c.Stop())
	}
	return c, nil
}

// open makes the directory and locks it for this process.
func (c *ControlPlane) open() (err error) {
	if c.dir == "" {
		c.dir, err = os.MkdirTemp("", "controlplane-")
	} else if c.dir, err = filepath.Abs(c.dir); err == nil {
		err = os.MkdirAll(c.dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("create control plane directory: %w", err)
	}
	c.lock = flock.New(filepath.Join(c.dir, "lock"))
	if locked, err := c.lock.TryLock(); err != nil || !locked {
		return errors.Join(fmt.Errorf("lock %s: another control plane runs there; stop it or choose another directory", c.dir), err)
	}
	return errors.Join(os.MkdirAll(filepath.Join(c.dir, "etcd"), 0o700), os.MkdirAll(filepath.Join(c.dir, "logs"), 0o700))
}

func (c *ControlPlane) start(ctx context.Context) error {
	address, err := FreeAddress()
	if err != nil {
		return err
	}
	flags := alone(address)
	if o := c.options.Cluster; o != nil {
		address, flags, c.authority = net.JoinHostPort(o.Address, "443"), o.Flags, o.Authority
	} else if c.authority, err = NewAuthority(filepath.Join(c.dir, "pki")); err != nil {
		return err
	}
	etcd, err := FreeAddress()
	if err != nil {
		return err
	}
	c.storage = "http://" + etcd
	if c.flags, err = c.serverFlags(address, c.storage, flags); err != nil {
		return err
	}
	if c.config, err = c.user("https://"+address, c.KubeconfigPath(), "admin", "system:masters"); err != nil {
		return err
	}
	c.etcd, err = c.run(etcdBinary, filepath.Join(c.assets, etcdBinary), "--data-dir="+filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
		"--log-level=warn", "--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd, "--listen-peer-urls=http://127.0.0.1:0")
	if err != nil {
		return err
	}
	return c.serve(ctx)
}

// alone are the flags of an API server without nodes. It needs no default route.
func alone(address string) []string {
	return []string{
		"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://" + address + "/",
	}
}

// serverFlags are all flags of the API server, whose certificates it makes.
func (c *ControlPlane) serverFlags(address, etcd string, flags []string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ca := c.authority
	err = errors.Join(ca.SigningKey("accounts"),
		ca.Issue("apiserver", "kube-apiserver", nil, host, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"))
	if err != nil {
		return nil, err
	}
	flags = append(flags, c.options.Flags...)
	flags = append([]string{
		"--etcd-servers=" + etcd, "--bind-address=" + host, "--advertise-address=" + host, "--secure-port=" + port,
		"--client-ca-file=" + ca.CAFile(), "--tls-cert-file=" + ca.CertFile("apiserver"), "--tls-private-key-file=" + ca.KeyFile("apiserver"),
		"--service-account-key-file=" + ca.KeyFile("accounts"), "--service-account-signing-key-file=" + ca.KeyFile("accounts"),
		"--allow-privileged", "--profiling=false",
	}, flags...)
	if len(c.options.AuditUsers) == 0 {
		return flags, nil
	}
	policy, err := json.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []string{"RequestReceived"},
		"rules": []map[string]any{
			{"level": "Metadata", "users": c.options.AuditUsers, "verbs": []string{"create", "update", "patch", "delete", "deletecollection"}},
			{"level": "None"},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encode audit policy: %w", err)
	}
	path := filepath.Join(c.dir, "audit-policy.json")
	return append(flags, "--audit-policy-file="+path, "--audit-log-path="+c.AuditPath(), "--audit-log-mode=blocking",
		"--audit-log-maxsize=1000000"), os.WriteFile(path, policy, 0o600) // MB: never rotated
}

// AuditPath is the file of the audit events of the writes of Options.AuditUsers, one JSON object in a line, in the order in which
// they were answered.
func (c *ControlPlane) AuditPath() string { return c.logPath("audit") }

func (c *ControlPlane) logPath(name string) string { return filepath.Join(c.dir, "logs", name+".log") }

func (c *ControlPlane) run(name, program string, args ...string) (*child.Process, error) {
	return child.Start(name, c.logPath(name), program, args...)
}

// serve starts the API server, and returns when it is ready.
func (c *ControlPlane) serve(ctx context.Context) (err error) {
	if c.server, err = c.run(apiServerBinary, filepath.Join(c.assets, apiServerBinary), c.flags...); err != nil {
		return err
	}
	api, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return fmt.Errorf("wait for the API server: %w", err)
	}
	limit := startTimeout
	if o := c.options.Cluster; o != nil {
		limit = o.StartTimeout
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		for _, p := range []*child.Process{c.etcd, c.server} {
			if !p.Running() {
				return false, fmt.Errorf("%s ended: %w", p.Name, p.Err())
			}
		}
		_, last = api.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the API server: %w", errors.Join(err, last))
	}
	return nil
}

// user is the access of a user, which is also written to a file.
func (c *ControlPlane) user(server, path, name string, groups ...string) (*rest.Config, error) {
	if err := c.authority.Kubeconfig(server, path, name, groups...); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read access of %s: %w", name, err)
	}
	config.QPS, config.Burst = 1000, 2000
	return config, nil
}

// Config is an administrator's access to the API. The caller may change it.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// KubeconfigPath is the file that holds it until Stop.
func (c *ControlPlane) KubeconfigPath() string { return filepath.Join(c.dir, "kubeconfig") }

// AddUser returns the access of a user with a client certificate. The user may do what RBAC gives the name and groups.
func (c *ControlPlane) AddUser(name string, groups ...string) (*rest.Config, error) {
	return c.user(c.config.Host, filepath.Join(c.dir, name+".conf"), name, groups...)
}

// Stored returns what etcd has under the key of an object, such as "nodefirmware.io/nodedevices/a", and nil where it has none. Custom resources are
// stored as JSON.
func (c *ControlPlane) Stored(ctx context.Context, object string) ([]byte, error) {
	key, err := json.Marshal(map[string][]byte{"key": []byte("/registry/" + object)})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.storage+"/v3/kv/range", bytes.NewReader(key))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read %s from etcd: %w", object, err)
	}
	defer response.Body.Close()
	var answer struct {
		KVs []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("read %s from etcd: %w", object, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read %s from etcd: %s", object, response.Status)
	}
	if len(answer.KVs) == 0 {
		return nil, nil
	}
	return answer.KVs[0].Value, nil
}

// StopAPIServer stops the API server, as in an outage. The objects stay. It is killed: it has no state of its own, and an orderly stop waits
// for every open watch.
func (c *ControlPlane) StopAPIServer() error {
	c.server.Kill()
	return nil
}

// StartAPIServer serves the API again under the same address and certificates.
func (c *ControlPlane) StartAPIServer() error {
	if err := c.serve(context.Background()); err != nil {
		return fmt.Errorf("start API server again: %w\n%s", err, c.logTail())
	}
	return nil
}

// StartGarbageCollector runs the garbage collector of Kubernetes, and no other controller of kube-controller-manager, until
// Stop. Without it an object outlives its owners, which it does in no real cluster. The program is built when it is needed
// first. The collector learns of a kind that is defined later after at most half a minute; define the kinds before.
func (c *ControlPlane) StartGarbageCollector(ctx context.Context) error {
	if c.programs[ControllerManager.Name] != nil {
		return nil
	}
	return c.StartProgram(ctx, ControllerManager, "--kubeconfig="+c.KubeconfigPath(), "--controllers=garbage-collector-controller",
		"--leader-elect=false", "--use-service-account-credentials=false", "--secure-port=0", "--profiling=false")
}

// StartProgram runs a program of the cluster beside the API server until Stop, in place of the one that was started before.
func (c *ControlPlane) StartProgram(ctx context.Context, p Program, args ...string) error {
	path, err := c.locator.Program(ctx, p)
	if err != nil {
		return err
	}
	if before := c.programs[p.Name]; before != nil {
		before.Kill()
	}
	started, err := c.run(p.Name, path, args...)
	if err == nil {
		c.programs[p.Name] = started
	}
	return err
}

// Stop ends all processes, and removes the directory if it was a temporary one.
func (c *ControlPlane) Stop() error {
	for _, p := range c.programs {
		p.Kill() // they have no state
	}
	if c.server != nil {
		c.server.Kill()
	}
	if c.etcd != nil {
		c.etcd.Stop(stopGrace)
	}
	var err error
	if c.options.DataDir == "" {
		err = os.RemoveAll(c.dir)
	}
	return errors.Join(err, c.lock.Close())
}

// logTail is the end of both logs, for the error of a start that failed.
func (c *ControlPlane) logTail() string {
	var out []string
	for _, name := range []string{etcdBinary, apiServerBinary} {
		if text, err := os.ReadFile(c.logPath(name)); err == nil && len(text) > 0 {
			out = append(out, fmt.Sprintf("end of the log of %s:\n%s", name, tail(string(text), 15)))
		}
	}
	return strings.Join(out, "\n")
}
