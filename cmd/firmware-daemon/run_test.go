package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = flag.Set(parallel.Name, "8") // they mostly wait
	}
	apitest.Main(m)
}

// TestDaemon runs the real daemon against a real API server and simulated machines, each of a node of its own: they mostly wait. Those
// that stop the API server come alone.
func TestDaemon(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, child.Build(bin, "firmware-daemon", "firmware-simtools"))
	program, err := os.Stat(filepath.Join(bin, "firmware-daemon"))
	require.NoError(t, err)
	assert.LessOrEqual(t, program.Size(), int64(44<<20), "size of the program, as it is shipped")
	env := newEnv(t)
	nodes := 0
	run := func(t *testing.T, name string, test func(*testing.T, *cluster, *machine), parallel bool) {
		nodes++
		index := nodes
		t.Run(name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			m := newMachine(t, bin, index)
			test(t, newCluster(t, env, m.node), m)
		})
	}
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *cluster, *machine){
			"updates its node": updatesItsNode, "sees a card leave": seesACardLeave,
			"writes on when its pod ends": writesOnWhenItsPodEnds, "reads back what lost its worker": readsBackWhatLostItsWorker,
			"outlives every kill": outlivesEveryKill, "refuses to run unconfined": refusesToRunUnconfined,
			"writes nothing for a stolen operator": writesNothingForAStolenOperator, "rests quietly": restsQuietly, "checks its state first": checksTheStateFirst,
		} {
			run(t, name, test, true)
		}
	})
	run(t, "starts without an API server", startsWithoutAPIServer, false)
	run(t, "executes one job alone", executesOneJobAlone, false)
}

// machine is a simulated machine with the daemon that runs on it.
type machine struct {
	*simhost.Machine
	bin, node string

	mu     sync.Mutex
	daemon *exec.Cmd
	log    *bytes.Buffer
	ended  chan struct{}
}

// newMachine is the machine of node n<index>.
func newMachine(t *testing.T, bin string, index int) *machine {
	t.Helper()
	node := fmt.Sprintf("n%d", index)
	m, err := simhost.Create(filepath.Join(t.TempDir(), node), simhost.DefaultSpec(node, index))
	require.NoError(t, err)
	require.NoError(t, m.InstallTools(filepath.Join(bin, "firmware-simtools")))
	return &machine{Machine: m, bin: bin, node: node}
}

func (m *machine) stateDir() string { return filepath.Join(m.Dir(), "var/lib/node-firmware") }

// local are the flags that say where the machine is.
func (m *machine) local() []string {
	return []string{"--host-root=" + m.Dir(), "--state-dir=" + m.stateDir(), "--tool-path=" + m.ToolPath()}
}

// start starts the daemon, and stops it at the end of the test.
func (m *machine) start(t *testing.T, args ...string) {
	t.Helper()
	m.startAs(t, "run", args...)
}

// startAs starts a subcommand of the daemon.
func (m *machine) startAs(t *testing.T, command string, args ...string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	c := exec.Command(filepath.Join(m.bin, "firmware-daemon"), append([]string{command, "--node-name=" + m.node, "--health-probe-bind-address=0"}, append(m.local(), args...)...)...)
	m.log = &bytes.Buffer{}
	c.Stderr, c.Stdout = m.log, m.log
	require.NoError(t, c.Start())
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	m.daemon, m.ended = c, ended
	t.Cleanup(func() { m.stop(syscall.SIGKILL) })
}

// stop ends the daemon by the signal and returns its exit code.
func (m *machine) stop(s syscall.Signal) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.daemon == nil {
		return 0
	}
	_ = m.daemon.Process.Signal(s)
	<-m.ended
	code := m.daemon.ProcessState.ExitCode()
	m.daemon = nil
	return code
}

// cluster is the API with a Node, everything around its daemon that is not the daemon, and an image server.
type cluster struct {
	*apitest.Env
	node   string
	images map[string][]byte
	// claims are the statements about images, by digest.
	claims map[string][]artifact.Claim
	args   []string
}

// newEnv is the API with the stand-in of the maintenance-operator, which takes every node at once.
func newEnv(t *testing.T) *apitest.Env {
	t.Helper()
	env := apitest.New(t)
	operator, err := maintenance.New(env.Config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); operator.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return env
}

func newCluster(t *testing.T, env *apitest.Env, name string) *cluster {
	t.Helper()
	c := &cluster{Env: env, node: name, images: map[string][]byte{}, claims: map[string][]artifact.Claim{}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(t, c.Client.Create(t.Context(), node))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	require.NoError(t, c.Client.Status().Update(t.Context(), node))
	require.NoError(t, c.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name}}))

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		image, ok := c.images[strings.TrimPrefix(r.URL.Path, "/images/")]
		switch {
		case r.Header.Get("Authorization") != "Bearer image-token":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/statements/"):
			_ = json.NewEncoder(w).Encode(artifact.Statement{Claims: c.claims[strings.TrimPrefix(r.URL.Path, "/statements/")]})
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(image))
		}
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("image-token"), 0o600))
	c.args = []string{"--allow-unconfined", "--kubeconfig=" + c.ControlPlane.KubeconfigPath(), "--image-server=" + server.URL,
		"--image-server-ca=" + filepath.Join(dir, "ca.crt"), "--image-token-file=" + filepath.Join(dir, "token")}
	return c
}

// own chooses the objects of this cluster's node.
func (c *cluster) own() client.ListOption { return client.MatchingFields{"spec.nodeName": c.node} }

// maintenances are those of the node.
func (c *cluster) maintenances(t *testing.T) (own []maintenancev1alpha1.NodeMaintenance) {
	t.Helper()
	var list maintenancev1alpha1.NodeMaintenanceList
	require.NoError(t, c.Client.List(t.Context(), &list))
	for _, m := range list.Items {
		if m.Spec.NodeName == c.node {
			own = append(own, m)
		}
	}
	return own
}

// stock adds an image and returns its digest.
func (c *cluster) stock(kind simhost.ImageKind, o simhost.ImageOptions) v1alpha1.Digest {
	image := simhost.BuildImage(kind, o)
	digest := inventory.Digest(sha256.Sum256(image)).String()
	c.images[digest] = image
	return v1alpha1.Digest(digest)
}

// devices waits until the daemon has published the devices, and returns them by class and model.
func (c *cluster) device(t *testing.T, match func(v1alpha1.NodeDevice) bool) v1alpha1.NodeDevice {
	t.Helper()
	var found *v1alpha1.NodeDevice
	require.Eventually(t, func() bool {
		var list v1alpha1.NodeDeviceList
		if c.Client.List(t.Context(), &list, c.own()) != nil {
			return false
		}
		for _, d := range list.Items {
			if d.Status.Firmware != nil && match(d) {
				found = &d
			}
		}
		return found != nil
	}, 5*time.Minute, 50*time.Millisecond)
	return *found
}

func update(d v1alpha1.NodeDevice, version string, digest v1alpha1.Digest) v1alpha1.TaskDevice {
	return v1alpha1.TaskDevice{
		Name: d.Name, UniqueID: d.Status.UniqueID, FromVersion: d.Status.Firmware.Running, Version: version, Digest: digest,
	}
}

// assign has the device run the version of an update, and waits until the daemon has seen it, as the operator does.
func (c *cluster) assign(t *testing.T, u v1alpha1.TaskDevice) {
	t.Helper()
	require.Eventually(t, func() bool {
		var d v1alpha1.NodeDevice
		if c.Client.Get(t.Context(), client.ObjectKey{Name: u.Name}, &d) != nil {
			return false
		}
		if w := d.Spec.Firmware; w != nil && w.Digest == u.Digest {
			return d.Status.ObservedGeneration >= d.Generation
		}
		d.Spec.Firmware = &v1alpha1.DesiredFirmware{
			Version: u.Version, Digest: u.Digest, Downgrade: v1alpha1.DowngradeForbid, Policy: v1alpha1.PolicyApply,
		}
		d.Spec.Origin = []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: d.Name, Rule: "r"}}
		apitest.Want(t, c.Client, d.Name, d.Status.Class, *d.Spec.Firmware)
		_ = c.Client.Update(t.Context(), &d) // a conflict is tried again
		return false
	}, 5*time.Minute, 50*time.Millisecond)
}

// admit queues a job and admits it, as the operator does.
func (c *cluster) admit(t *testing.T, name string, updates ...v1alpha1.TaskDevice) {
	t.Helper()
	for _, u := range updates {
		c.assign(t, u)
	}
	name = c.node + "-" + name
	require.NoError(t, c.Client.Create(t.Context(), &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.FirmwareJobSpec{NodeName: c.node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: updates, HealthyFor: "0s"}}}))
	apitest.ApplyStatus(t, c.Client, v1alpha1.FieldOwnerOperator, &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1alpha1.FirmwareJobStatus{Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted, LastTransitionTime: metav1.Now(),
		}}}})
}

func (c *cluster) job(t *testing.T, name string) v1alpha1.FirmwareJob {
	t.Helper()
	var j v1alpha1.FirmwareJob
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: c.node + "-" + name}, &j))
	return j
}

func byBoard(id string) func(v1alpha1.NodeDevice) bool {
	return func(d v1alpha1.NodeDevice) bool { return d.Status.BoardID == id }
}

const (
	nic0PSID = "MT_0000000359"
	nic1PSID = "MT_0000000834"
)

// updatesItsNode plays the operator and the power switch (R001-6, R001-7, R001-20, R000-12).
func updatesItsNode(t *testing.T, c *cluster, m *machine) {
	m.start(t, c.args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("daemon:\n%s", m.log)
		}
	})
	fast, slow := c.device(t, byBoard(nic0PSID)), c.device(t, byBoard(nic1PSID))
	require.Equal(t, simhost.DefaultCX6Version, fast.Status.Firmware.Running)
	c.admit(t, "aaaa",
		update(fast, "22.41.1000", c.stock(simhost.NICImage, simhost.ImageOptions{Version: "22.41.1000", PSID: nic0PSID})),
		update(slow, "28.41.1000", c.stock(simhost.NICImage, simhost.ImageOptions{Version: "28.41.1000", PSID: nic1PSID})))

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	event, err := m.WaitPowerEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, simhost.RebootRequested, event)
	require.Len(t, c.maintenances(t), 1, "the node is in maintenance while it reboots")
	m.stop(syscall.SIGKILL)
	require.NoError(t, m.Boot())
	m.start(t, c.args...)

	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		j := c.job(t, "aaaa")
		assert.True(ct, meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionComplete), "%+v", j.Status)
	}, 5*time.Minute, 100*time.Millisecond)
	j := c.job(t, "aaaa")
	assert.EqualValues(t, 1, j.Status.Reboots)
	for _, key := range []string{"nic0", "nic1"} {
		running, err := m.Running(key)
		require.NoError(t, err)
		assert.Contains(t, []string{"22.41.1000", "28.41.1000"}, running)
	}
	operations, err := m.Operations()
	require.NoError(t, err)
	counts := map[string]int{}
	for _, o := range operations {
		counts[o.Action+" "+o.Device]++
	}
	assert.Equal(t, 1, counts["Write nic0"])
	assert.Equal(t, 1, counts["Write nic1"])
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		fast, slow := c.device(t, byBoard(nic0PSID)), c.device(t, byBoard(nic1PSID))
		assert.Equal(ct, "22.41.1000", fast.Status.Firmware.Running)
		assert.Equal(ct, "28.41.1000", slow.Status.Firmware.Running)
		require.NotNil(ct, slow.Status.Applied)
		bootID, err := m.BootID()
		require.NoError(ct, err)
		assert.Equal(ct, bootID, slow.Status.Applied.BootID)
		var n v1alpha1.NodeFirmware
		require.NoError(ct, c.Client.Get(t.Context(), client.ObjectKey{Name: c.node}, &n))
		assert.Nil(ct, n.Status.CurrentStep)
		assert.Equal(ct, bootID, n.Status.BootID)
	}, 5*time.Minute, 100*time.Millisecond)
	assert.Empty(t, c.maintenances(t), "the maintenance is released")

	assert.LessOrEqual(t, allocatedKiB(t, m.daemon.Process.Pid), 20<<10, "memory that the process allocated")
	assert.Zero(t, m.stop(syscall.SIGTERM), "a daemon ends when it is asked to")
}

// allocatedKiB is what the process allocated itself. How much of its program is in memory besides is the kernel's choice, and differs with
// what else the machine does.
func allocatedKiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 {
			t.Logf("allocated: %d KiB", kib)
			return kib
		}
	}
	t.Fatal("no RssAnon")
	return 0
}

// refusesToRunUnconfined: the administrator of this cluster may write the objects of every node, and no policy is there.
func refusesToRunUnconfined(t *testing.T, c *cluster, m *machine) {
	c.args = slices.DeleteFunc(c.args, func(a string) bool { return a == "--allow-unconfined" })
	m.start(t, c.args...)
	select {
	case <-m.ended:
	case <-time.After(5 * time.Minute):
		t.Fatal("it runs")
	}
	assert.NotZero(t, m.stop(syscall.SIGTERM))
	assert.Contains(t, m.log.String(), "nothing confines this daemon to its node")
	var devices v1alpha1.NodeDeviceList
	require.NoError(t, c.Client.List(t.Context(), &devices, c.own()))
	assert.Empty(t, devices.Items, "and has written nothing")
}

// startsWithoutAPIServer: the daemon scans, keeps trying, and publishes once the API server is back.
func startsWithoutAPIServer(t *testing.T, c *cluster, m *machine) {
	require.NoError(t, c.ControlPlane.StopAPIServer())
	m.start(t, c.args...)
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(m.stateDir(), "journal.db"))
		return err == nil
	}, 5*time.Minute, 20*time.Millisecond)
	second := exec.Command(filepath.Join(m.bin, "firmware-daemon"), append([]string{"run", "--node-name=" + m.node}, append(m.local(), c.args...)...)...)
	out, err := second.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "another firmware-daemon is using it", "one daemon a state directory")
	assert.Zero(t, m.stop(syscall.SIGTERM), "it ends when it is asked to, without an API server")

	m.start(t, c.args...)
	require.NoError(t, c.ControlPlane.StartAPIServer())
	c.device(t, byBoard(nic0PSID))
}

// seesACardLeave: a requested scan is answered only when the objects are true (R001-2).
func seesACardLeave(t *testing.T, c *cluster, m *machine) {
	m.start(t, c.args...)
	d := c.device(t, byBoard(nic0PSID))
	require.NoError(t, m.Unplug("nic0"))
	firmware := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: c.node}}
	scan := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"requests":{"scan":"now"}}}`))
	require.NoError(t, c.Client.Patch(t.Context(), firmware, scan))
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		require.NoError(ct, c.Client.Get(t.Context(), client.ObjectKeyFromObject(firmware), firmware))
		assert.Equal(ct, "now", firmware.Status.Requests.Scan)
	}, 5*time.Minute, 50*time.Millisecond)
	require.Error(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(&d), &d), "the card is gone when the scan is answered")
	require.NoError(t, m.Plug("nic0"))
	again := c.device(t, byBoard(nic0PSID)) // by itself, long before the next scan is due
	assert.Equal(t, d.Name, again.Name)
	assert.NotEqual(t, d.UID, again.UID)
}
