package lab

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
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
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/mirror"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// binDir holds the product's binaries, built once for the tests of this package.
var binDir string

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	flag.Parse()
	_ = flag.Set("test.parallel", "99") // room is the bound; a test that waits for it must keep no subtest of another from running
	dir, err := os.MkdirTemp("", "firmware-lab-bin-")
	if err == nil {
		binDir = dir
		err = child.Build(dir, "firmware-operator", "firmware-daemon", "firmware-simtools")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// lines is what the lab said.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// room is how many control planes and machines run at once: two cores bear more, but then each step takes longer than a person would wait. A
// parallel test gives its place to others while its subtests run, so -parallel is no such bound.
var room = semaphore.NewWeighted(mostRoom)

const mostRoom = 10

// reserve waits until there is room for a lab, and keeps it until the test has ended.
func reserve(t *testing.T, nodes int) {
	t.Helper()
	share := min(int64(nodes)+1, mostRoom)
	require.NoError(t, room.Acquire(t.Context(), share))
	t.Cleanup(func() { room.Release(share) })
}

// startLab starts a lab that is closed, with nothing left behind, when the test ends.
func startLab(t *testing.T, nodes int) *Lab {
	t.Helper()
	return startLabWith(t, Options{Nodes: nodes})
}

func startLabWith(t *testing.T, o Options) *Lab {
	t.Helper()
	reserve(t, o.Nodes)
	dir := t.TempDir()
	out := &lines{}
	o.Dir, o.BinDir, o.Out, o.Mirror = dir, cmp.Or(o.BinDir, binDir), out, true
	o.ScanInterval, o.WriteTime = 30*time.Second, 800*time.Millisecond
	o.QuietPeriod = cmp.Or(o.QuietPeriod, time.Second)
	o.HealthTimeout = cmp.Or(o.HealthTimeout, 30*time.Second)
	l, err := Up(t.Context(), o)
	require.NoError(t, err, out)
	l.allow(t, 1)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the lab said:\n%s", out)
			t.Logf("operator:\n%s", tailOf(l.operatorLog()))
			for _, n := range l.Nodes {
				t.Logf("daemon of %s:\n%s", n.Name, n.log())
			}
			l.describe(t)
		}
		require.NoError(t, l.Close())
		assert.Empty(t, processesOf(t, dir), "the lab leaves no process behind")
	})
	return l
}

// allow lets so many nodes be disturbed at once, with a short soak.
func (l *Lab) allow(t *testing.T, maxUnavailable int) {
	t.Helper()
	require.NoError(t, l.declare(t.Context(), policy(maxUnavailable)))
}

func tailOf(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-6000):])
}

// processesOf lists the processes whose arguments name the directory.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, f := range list {
		args, err := os.ReadFile(f)
		if err == nil && bytes.Contains(args, []byte(dir)) {
			out = append(out, strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return out
}

// eventually waits for a state that real processes bring about, on a machine that may be busy.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 10*time.Minute, 100*time.Millisecond, what)
}

// scene is one node of a lab with a template of its own.
type scene struct {
	t    *testing.T
	lab  *Lab
	node *Node
}

func (l *Lab) scene(t *testing.T, index int) *scene {
	return &scene{t: t, lab: l, node: l.Nodes[index]}
}

// want declares the targets of the given rules for the scene's node alone.
func (s *scene) want(rules ...string) []target {
	s.t.Helper()
	list := targetsOf(rules...)
	require.Len(s.t, list, len(rules))
	for _, t := range list {
		require.NoError(s.t, t.publish(s.t.Context(), s.lab))
	}
	s.declare(list)
	return list
}

func (s *scene) declare(list []target) {
	s.t.Helper()
	template := fleetTemplate(list)
	template.Name = "only-" + s.node.Name
	template.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/hostname": s.node.Name}}
	require.NoError(s.t, s.lab.admin.Create(s.t.Context(), template))
}

// job is the newest job of the node, or nil.
func (s *scene) job() *v1alpha1.FirmwareJob {
	var jobs v1alpha1.FirmwareJobList
	if s.lab.admin.List(s.t.Context(), &jobs, client.MatchingFields{"spec.nodeName": s.node.Name}) != nil {
		return nil
	}
	var newest *v1alpha1.FirmwareJob
	for i := range jobs.Items {
		if newest == nil || newest.CreationTimestamp.Before(&jobs.Items[i].CreationTimestamp) {
			newest = &jobs.Items[i]
		}
	}
	return newest
}

func (s *scene) jobs() int {
	var jobs v1alpha1.FirmwareJobList
	require.NoError(s.t, s.lab.admin.List(s.t.Context(), &jobs, client.MatchingFields{"spec.nodeName": s.node.Name}))
	return len(jobs.Items)
}

// condition is the status and reason of a condition of the newest job.
func (s *scene) condition(kind string) string {
	if j := s.job(); j != nil {
		if c := meta.FindStatusCondition(j.Status.Conditions, kind); c != nil {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// running reports whether the newest job is in the step.
func (s *scene) running(step string) bool {
	if j := s.job(); j != nil {
		for _, st := range j.Status.Steps {
			if st.Name == step && st.State == v1alpha1.StepRunning {
				return true
			}
		}
	}
	return false
}

func (s *scene) kubeNode() *corev1.Node {
	n := &corev1.Node{}
	require.NoError(s.t, s.lab.admin.Get(s.t.Context(), client.ObjectKey{Name: s.node.Name}, n))
	return n
}

func (s *scene) maintenances() int {
	var list maintenancev1alpha1.NodeMaintenanceList
	require.NoError(s.t, s.lab.admin.List(s.t.Context(), &list))
	count := 0
	for _, nm := range list.Items {
		if nm.Spec.NodeName == s.node.Name {
			count++
		}
	}
	return count
}

// hold stops the machine in the middle of its next write, after so many others, until the function it returns is called: what a test does during
// a write it does however slow the test is.
func (s *scene) hold(operation string, skip int) (release func()) {
	s.t.Helper()
	require.NoError(s.t, s.node.Machine.SetFault(simhost.Fault{ID: "held", Kind: simhost.Hang, Operation: operation, Skip: skip, Count: 1}))
	return func() { require.NoError(s.t, s.node.Machine.ClearFault("held")) }
}

// requireDone requires that the node runs the targets and is back in service.
func (s *scene) requireDone(list []target, reboots int) {
	s.t.Helper()
	eventually(s.t, "the job completes", func() bool { return strings.HasPrefix(s.condition(v1alpha1.ConditionComplete), "True") })
	for _, t := range list {
		for _, key := range t.keys {
			running, err := s.node.Machine.Running(key)
			require.NoError(s.t, err)
			assert.Equal(s.t, t.image.Version, running, key)
		}
	}
	assert.Equal(s.t, reboots, s.node.Reboots())
	assert.Equal(s.t, 1, s.jobs())
	assert.Zero(s.t, s.maintenances())
	assert.False(s.t, s.kubeNode().Spec.Unschedulable)
	job := s.job()
	began, ended := maintained(job)
	assert.NotNil(s.t, began)
	assert.NotNil(s.t, ended)
}

// writes counts the writes to devices since the machine was made, in all states.
func (s *scene) writes() int {
	ops, err := s.node.Machine.Operations()
	require.NoError(s.t, err)
	n := 0
	for _, op := range ops {
		if op.Action == "Write" || op.Action == "Download" || op.Action == "Commit" {
			n++
		}
	}
	return n
}

// flashes counts the images that were written to each device; settings are none.
func (s *scene) flashes() map[string]int {
	ops, err := s.node.Machine.Operations()
	require.NoError(s.t, err)
	out := map[string]int{}
	for _, op := range ops {
		if (op.Action == "Write" || op.Action == "Commit") && op.Version != "" {
			out[op.Device]++
		}
	}
	return out
}

func TestFleetReachesItsFirmwareWithinItsBudget(t *testing.T) { // R000-2, R001-6, R000-18
	t.Parallel()
	l := startLabWith(t, Options{Nodes: 3, Uplink: true, QuietPeriod: 10 * time.Second}) // the devices of a node are assigned in that time on a busy machine too
	killed := l.killWhileCutOff(t)
	var screen bytes.Buffer
	report, err := l.Demo(t.Context(), DemoOptions{MaxUnavailable: 2, Timeout: 30 * time.Minute, Screen: &screen, BadImage: true, CutOff: true, Settings: true, Cleaning: true})
	require.NoError(t, err, screen.String())
	assert.Equal(t, "Succeeded", report.Result)
	assert.LessOrEqual(t, report.MaxDisturbed, 2)
	assert.Equal(t, 2, report.MaxDisturbed, "the budget is used")
	for _, n := range report.Nodes {
		assert.Equal(t, 1, n.Reboots, n.Name)
		assert.Equal(t, 1, n.ForetoldReboots, n.Name)
		assert.Equal(t, 1, n.Maintenances, n.Name)
		assert.NotNil(t, n.MaintenanceEnd)
		for _, d := range n.Devices {
			assert.NotEqual(t, d.From, d.Running)
			assert.Equal(t, d.To, d.Running)
		}
	}
	assert.Contains(t, l.options.Out.(*lines).String(), "signed with minisign key "+l.mirror.KeyID())
	var sources v1alpha1.FirmwareSourceList
	require.NoError(t, l.admin.List(t.Context(), &sources))
	assert.Len(t, sources.Items, len(targets())+2, "one for each target, and those of the two bad images")
	for _, s := range sources.Items {
		assert.True(t, meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionSignatureVerified), s.Name)
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		var template v1alpha1.FirmwareTemplate
		require.NoError(t, l.admin.Get(context.Background(), client.ObjectKey{Name: "gpu-pool"}, &template))
		assert.Equal(t, int32(3), template.Status.Nodes.Selected)
		assert.Equal(t, int32(3), template.Status.Nodes.UpToDate)
		assert.Equal(t, int32(15), template.Status.Devices.UpToDate)
		assert.Zero(t, template.Status.Nodes.OutOfDate)
		assert.Equal(t, int32(1), template.Status.Nodes.Baselines, "R003-3: the nodes are equal")
		var nodes corev1.NodeList
		require.NoError(t, l.admin.List(context.Background(), &nodes))
		for _, n := range nodes.Items {
			var nfw v1alpha1.NodeFirmware
			require.NoError(t, l.admin.Get(context.Background(), client.ObjectKey{Name: n.Name}, &nfw))
			says := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == v1alpha1.ConditionFirmwareCompliant && c.Status == corev1.ConditionTrue
			})
			assert.Equal(t, meta.IsStatusConditionTrue(nfw.Status.Conditions, v1alpha1.ConditionReady), says, n.Name)
		}
	}, 2*time.Minute, 200*time.Millisecond)
	s := l.scene(t, 0)
	want := map[string]int{"bios": 1, "nic0": 1, "nic1": 1, "nvme0": 1, "nvme1": 1}
	require.NotNil(t, report.Rollback)
	assert.Equal(t, 2, report.Rollback.Spared, "R002-26: a bad image concerns one node")
	assert.Equal(t, 2, report.Rollback.Reboots, "R002-25")
	if report.Rollback.Node == s.node.Name {
		want["nic1"] += 2 // the bad image, and what ran before
	}
	require.NotNil(t, report.CutOff)
	assert.Equal(t, "RolledBack", report.CutOff.Result, "a node that reaches nobody returns by itself")
	assert.Equal(t, 2, report.CutOff.Spared)
	assert.Zero(t, report.CutOff.Reboots, "the adapter is activated by a reset")
	assert.GreaterOrEqual(t, report.CutOff.CutOffSeconds, isolationTimeout.Seconds())
	if report.CutOff.Node == s.node.Name {
		want["nic0"] += 2
	}
	require.NotNil(t, report.Settings)
	assert.Equal(t, "RolledBack", report.Settings.Result)
	assert.Equal(t, 3, report.Settings.Nodes, "R002-50: each node has its settings, given with its firmware")
	assert.Equal(t, 1, report.Settings.RolledBack, "a value that takes a link down concerns one node")
	assert.NotEmpty(t, report.Settings.Node)
	require.NotNil(t, report.Cleaned)
	assert.Equal(t, "Clean", report.Cleaned.Result)
	assert.Len(t, report.Cleaned.Certificates, 2, "R003-43: one for each drive that was erased")
	var quarantines v1alpha1.FirmwareQuarantineList
	require.NoError(t, l.admin.List(t.Context(), &quarantines))
	versions := map[string]int{}
	for _, q := range quarantines.Items {
		version, _, _ := strings.Cut(q.Status.Version, " ")
		versions[version]++
	}
	assert.Equal(t, map[string]int{"28.42.1000": 1, "22.42.1000": 1, "settings": 1}, versions, "settings that were in force all along are none of them")
	assert.Equal(t, report.CutOff.Node, <-killed)
	for _, n := range l.Nodes {
		if waits := n.waits(); n.Name == report.CutOff.Node {
			require.GreaterOrEqual(t, len(waits), 2, "both daemons wait")
			assert.Zero(t, waits[0])
			assert.Positive(t, waits[1], "R002-9: the wait goes on where the daemon that was killed left it")
		}
	}
	assert.Equal(t, want, s.flashes(), "one write a card, whatever its ports")
}

func TestLabSurvivesDisasters(t *testing.T) {
	t.Parallel()
	l := startLab(t, 7)
	l.allow(t, 7)
	t.Run("on one node, whatever happens on the others", l.nodesSurvive)
	t.Run("on all", l.fleetSurvives)
}

func (l *Lab) nodesSurvive(t *testing.T) {
	t.Run("a daemon killed in the middle of a write adopts it", func(t *testing.T) { // R003-49
		t.Parallel()
		s := l.scene(t, 0)
		release := s.hold("write", 0)
		list := s.want("cx7")
		eventually(t, "the write begins", func() bool { return s.running("flash") && s.writes() > 0 })
		s.node.KillDaemon()
		require.NoError(t, s.node.StartDaemon())
		release()
		s.requireDone(list, 1)
		assert.Equal(t, map[string]int{"nic1": 1}, s.flashes(), "the write went on and was not repeated")
	})

	t.Run("an image for another board is refused before the node is touched", func(t *testing.T) {
		t.Parallel()
		s := l.scene(t, 3)
		list := targetsOf("cx6dx")
		list[0].rule, list[0].file, list[0].image.PSID = "wrong-board", "wrong.bin", "MT_0000000999"
		require.NoError(t, list[0].publish(t.Context(), l))
		s.declare(list)
		eventually(t, "the job fails", func() bool { return s.condition(v1alpha1.ConditionFailed) == "True "+v1alpha1.ReasonImageRejected })
		assert.Zero(t, s.writes())
		assert.False(t, s.kubeNode().Spec.Unschedulable)
		assert.Zero(t, s.maintenances())
		assert.Zero(t, s.node.Reboots())
	})

	t.Run("an image that no key on the node vouches for is not written, whatever the operator verified", func(t *testing.T) {
		t.Parallel()
		s := l.scene(t, 6)
		other, err := mirror.Start(t.TempDir())
		require.NoError(t, err)
		require.NoError(t, other.Close())
		require.NoError(t, os.WriteFile(filepath.Join(l.options.Dir, "nodes", s.node.Name, "image-keys", "publisher.pub"), []byte(other.PublicKey()), 0o600))
		image := s.wantAs("cx6dx", nil)
		eventually(t, "the job fails", func() bool {
			return s.condition(v1alpha1.ConditionFailed) == "True "+v1alpha1.ReasonSignatureUntrusted
		})
		assert.Zero(t, s.writes())
		assert.False(t, s.kubeNode().Spec.Unschedulable)
		assert.Zero(t, s.maintenances())
		var source v1alpha1.FirmwareSource
		require.NoError(t, l.admin.Get(t.Context(), client.ObjectKey{Name: image.sourceName()}, &source))
		assert.True(t, meta.IsStatusConditionTrue(source.Status.Conditions, v1alpha1.ConditionSignatureVerified))
	})

	t.Run("a tool that lies is found out by reading the hardware, and the node is held until a person releases it", func(t *testing.T) {
		t.Parallel()
		s := l.scene(t, 4)
		require.NoError(t, s.node.Machine.SetFault(simhost.Fault{Kind: simhost.Lie, Device: "nic1", Operation: "write"}))
		s.want("cx7")
		eventually(t, "the job fails", func() bool { return strings.HasPrefix(s.condition(v1alpha1.ConditionFailed), "True") })
		eventually(t, "the node is held", func() bool { return strings.HasPrefix(s.condition(v1alpha1.ConditionHeld), "True") })
		assert.True(t, s.kubeNode().Spec.Unschedulable)
		assert.Equal(t, 1, s.maintenances())
		assert.Zero(t, s.node.Reboots(), "nothing is stored, so nothing is rebooted for")
		release := `{"spec":{"requests":{"release":"as it is"}}}`
		require.NoError(t, l.admin.Patch(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: s.node.Name}}, client.RawPatch("application/merge-patch+json", []byte(release))))
		eventually(t, "the node is released", func() bool { return s.maintenances() == 0 && !s.kubeNode().Spec.Unschedulable })
	})

	t.Run("a node that is deleted in the middle of a job stops before its next write and frees its place", func(t *testing.T) {
		t.Parallel()
		s := l.scene(t, 5)
		release := s.hold("write", 0)
		s.want("cx7", "bios")
		eventually(t, "the write begins", func() bool { return s.running("flash") && s.writes() > 0 })
		require.NoError(t, s.node.remove(t.Context(), l.admin))
		release()
		eventually(t, "the job stops before its next write", func() bool {
			return s.condition(v1alpha1.ConditionFailed) == "True "+v1alpha1.ReasonMaintenanceLost
		})
		assert.Equal(t, 1, s.writes())
		assert.Zero(t, s.node.Reboots())
		eventually(t, "its place is free", func() bool {
			var p v1alpha1.RolloutPolicy
			if l.admin.Get(t.Context(), client.ObjectKey{Name: v1alpha1.DefaultRolloutPolicy}, &p) != nil {
				return false
			}
			for _, a := range p.Status.Admitted {
				if a.Node == s.node.Name {
					return false
				}
			}
			return true
		})
		var devices v1alpha1.NodeDeviceList
		eventually(t, "its devices are gone", func() bool {
			return l.admin.List(t.Context(), &devices, client.MatchingFields{"spec.nodeName": s.node.Name}) == nil && len(devices.Items) == 0
		})
	})
}

func (l *Lab) fleetSurvives(t *testing.T) {
	t.Run("an API server that is away in the middle of a job delays nothing on the node", func(t *testing.T) {
		s := l.scene(t, 1)
		release := s.hold("write", 0)
		list := s.want("cx6dx")
		eventually(t, "the write begins", func() bool { return s.running("flash") && s.writes() > 0 })
		require.NoError(t, l.StopAPIServer())
		release()
		eventually(t, "the card is flashed", func() bool {
			device, err := s.node.Machine.Device("nic0")
			return err == nil && device.Stored == list[0].image.Version
		})
		require.NoError(t, l.StartAPIServer())
		s.requireDone(list, 0)
		assert.Equal(t, map[string]int{"nic0": 1}, s.flashes())
	})

	t.Run("an operator killed while jobs are queued admits them after its return", func(t *testing.T) {
		s := l.scene(t, 2)
		l.KillOperator()
		list := s.want("pm9a3")
		require.NoError(t, l.StartOperator())
		s.requireDone(list, 0)
	})
}

func TestRestartsKilledPrograms(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1)
	for name, pid := range map[string]func() int{"operator": l.OperatorPID, "daemon": l.Nodes[0].DaemonPID} {
		killed := pid()
		require.NoError(t, syscall.Kill(killed, syscall.SIGKILL))
		eventually(t, "the "+name+" runs again", func() bool { return pid() != killed && pid() != 0 })
	}
	s := l.scene(t, 0)
	list := s.want("pm9a3")
	s.requireDone(list, 0)
}

func TestClosesDuringReboot(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	dir := t.TempDir()
	l, err := Up(t.Context(), Options{Nodes: 1, Dir: dir, BinDir: binDir, Out: &lines{}, QuietPeriod: time.Second, ScanInterval: time.Minute, HealthTimeout: 30 * time.Second, WriteTime: time.Second})
	require.NoError(t, err)
	require.NoError(t, exec.CommandContext(t.Context(), filepath.Join(l.Nodes[0].Machine.ToolPath(), "systemctl"), "reboot").Run())
	eventually(t, "the machine goes down", func() bool { return l.Nodes[0].DaemonPID() == 0 })
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(5 * time.Minute):
		t.Fatal("the lab does not close")
	}
	assert.Empty(t, processesOf(t, dir))
}

func targetsOf(rules ...string) []target {
	var list []target
	for _, t := range targets() {
		for _, r := range rules {
			if t.rule == r {
				list = append(list, t)
			}
		}
	}
	return list
}

func TestSecondRunFindsMachines(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	dir := t.TempDir()
	up := func() *Lab {
		l, err := Up(context.WithoutCancel(t.Context()), Options{Nodes: 1, Dir: dir, BinDir: binDir, Out: &lines{}, QuietPeriod: time.Second, ScanInterval: time.Minute, HealthTimeout: 30 * time.Second, WriteTime: time.Second})
		require.NoError(t, err)
		return l
	}
	l := up()
	var before v1alpha1.NodeDeviceList
	eventually(t, "devices appear", func() bool { return l.admin.List(t.Context(), &before) == nil && len(before.Items) == 6 })
	require.NoError(t, l.Close())
	l = up()
	var after v1alpha1.NodeDeviceList
	require.NoError(t, l.admin.List(t.Context(), &after))
	require.NoError(t, l.Close())
	require.Len(t, after.Items, len(before.Items))
	for i := range after.Items {
		assert.Equal(t, before.Items[i].UID, after.Items[i].UID)
	}
	assert.Empty(t, processesOf(t, dir))
}

func TestALabThatCannotStartSaysWhy(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "controlplane"), nil, 0o600))
	_, err := Up(t.Context(), Options{Nodes: 1, Dir: dir, BinDir: binDir, Out: io.Discard})
	require.ErrorContains(t, err, "controlplane")
}
