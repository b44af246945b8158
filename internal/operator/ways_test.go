package operator

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature/signaturetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// ways is a person who knows nothing but the messages of conditions, and types what they say.
type ways struct{ *process }

func newWays(t *testing.T) ways {
	p := start(t, apitest.New(t), "daemon")
	p.eventually("the operator is ready", func() bool { return p.probe("/readyz") == http.StatusOK })
	return ways{p}
}

// says waits for the condition of a row, and gives the object.
func (w ways) says(o client.Object, conditions func() []metav1.Condition, kind, reason string) client.Object {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s says %s %s", o.GetName(), kind, reason), func() bool {
		if !w.get(o) {
			return false
		}
		c := meta.FindStatusCondition(conditions(), kind)
		return c != nil && c.Reason == reason
	})
	return o
}

func (w ways) jobSays(name, kind, reason string) client.Object {
	w.t.Helper()
	o := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return w.says(o, func() []metav1.Condition { return o.Status.Conditions }, kind, reason)
}

func (w ways) policySays(name, reason string) client.Object {
	w.t.Helper()
	o := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return w.says(o, func() []metav1.Condition { return o.Status.Conditions }, v1alpha1.ConditionReady, reason)
}

func (w ways) deviceSays(node, kind, reason string) client.Object {
	w.t.Helper()
	o := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-bios"}}
	return w.says(o, func() []metav1.Condition { return o.Status.Conditions }, kind, reason)
}

// types is that person. What they write in an editor, a script of sed does.
func (w ways) types(key string, o client.Object, editor ...string) {
	w.t.Helper()
	for _, script := range editor {
		w.t.Setenv("KUBE_EDITOR", "sed -i '"+script+"'")
	}
	w.env.TypeWayOut(w.t, "../..", key, o)
}

// pool makes a policy for the nodes that bear its name as a label.
func (w ways) pool(name string, spec v1alpha1.RolloutPolicySpec) {
	w.t.Helper()
	spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}}
	if spec.MaxUnavailable == nil {
		spec.MaxUnavailable = ptr.To(intstr.FromString("100%"))
	}
	w.rollout(name, spec)
}

// member adds a node of a pool. Its device is assigned version 2.
func (w ways) member(node, pool string) {
	w.t.Helper()
	w.nodeIn(pool, node)
	d := w.assigned(node)
	w.observe(node, d.Generation)
}

func (w ways) assigned(node string) *v1alpha1.NodeDevice {
	w.t.Helper()
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-bios"}}
	w.eventually("the device is assigned", func() bool { return w.get(d) && d.Spec.Firmware != nil && d.Spec.Firmware.Digest != "" })
	return d
}

// queued waits for a job of the node other than those, and gives it.
func (w ways) queued(node string, others ...string) (out *v1alpha1.FirmwareJob) {
	w.t.Helper()
	w.eventually(node+" has a job", func() bool {
		out = w.waiting(node)
		return out != nil && !slices.Contains(others, out.Name)
	})
	return out
}

// own is a job that a person makes for the node.
func (w ways) own(node string, change func(*v1alpha1.TaskDevice)) string {
	w.t.Helper()
	d := w.assigned(node)
	u := v1alpha1.TaskDevice{
		Name: d.Name, UniqueID: d.Status.UniqueID, FromVersion: d.Status.Firmware.Running,
		Version: d.Spec.Firmware.Version, Digest: d.Spec.Firmware.Digest,
	}
	change(&u)
	o := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "own-" + node}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{u}},
	}}
	require.NoError(w.t, w.env.Client.Create(w.t.Context(), o))
	return o.Name
}

// fails ends the admitted job of a node without success.
func (w ways) fails(node string, f status.JobFacts) *v1alpha1.FirmwareJob {
	w.t.Helper()
	f.Outcome = step.Failed
	return w.ends(node, f)
}

// ends reports the end of the admitted job of a node as its daemon does.
func (w ways) ends(node string, f status.JobFacts) *v1alpha1.FirmwareJob {
	w.t.Helper()
	j := w.admitted(node)
	f.Name, f.Node = j.Name, node
	now := time.Now()
	s := v1alpha1.FirmwareJobStatus{
		ObservedGeneration: j.Generation, StartTime: &metav1.Time{Time: now}, CompletionTime: &metav1.Time{Time: now},
		Conditions: status.Job(f, nil, j.Generation, now),
	}
	apitest.ApplyStatus(w.t, w.env.Client, v1alpha1.FieldOwnerDaemon, &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: j.Name}, Status: s})
	return j
}

var day = []v1alpha1.RolloutWindow{{Name: "all", Schedule: "0 0 * * *", Duration: "24h", TimeZone: "Europe/Paris"}}

// Jobs and policies that wait for a person do so no longer when that person has typed the command of the message.
func TestWaysOutOfWaiting(t *testing.T) {
	w := newWays(t)
	w.policy("Active")
	w.assign()

	denied, nowhere := slices.Concat(day, day), slices.Clone(day)
	denied[1].Name, denied[1].Effect = "none", v1alpha1.WindowDeny
	nowhere[0].TimeZone = "Europe/Nowhere"
	canary := []v1alpha1.RolloutWave{{Name: "canary", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "missing"}}}}
	for name, c := range map[string]struct {
		key    string
		spec   v1alpha1.RolloutPolicySpec
		editor string
	}{
		"paused-job":    {"FirmwareJob Paused", v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutPaused}, ""},
		"paused-policy": {"RolloutPolicy Paused", v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutPaused}, ""},
		"invalid-job":   {"FirmwareJob InvalidSpec", v1alpha1.RolloutPolicySpec{Windows: nowhere}, "s/Nowhere/Paris/"},
		"invalid":       {"RolloutPolicy InvalidSpec", v1alpha1.RolloutPolicySpec{Windows: nowhere}, "s/Nowhere/Paris/"},
		"never":         {"RolloutPolicy NeverOpens", v1alpha1.RolloutPolicySpec{Windows: denied}, "s/Deny/Allow/"},
		"empty":         {"RolloutPolicy WaveEmpty", v1alpha1.RolloutPolicySpec{Waves: canary}, "s/missing/empty/"},
	} {
		t.Run(c.key, func(t *testing.T) {
			w := w
			w.process = w.in(t)
			w.pool(name, c.spec)
			w.member(name, name)
			j := w.queued(name)
			kind, reason := cut(c.key)
			var said client.Object
			if kind == "FirmwareJob" {
				said = w.jobSays(j.Name, v1alpha1.ConditionAdmitted, reason)
			} else {
				said = w.policySays(name, reason)
			}
			w.types(c.key, said, c.editor)
			w.admitted(name)
		})
	}

	for _, key := range []string{"FirmwareJob Conflict", "RolloutPolicy Conflict"} {
		t.Run(key, func(t *testing.T) {
			w := w
			w.process = w.in(t)
			kind, reason := cut(key)
			pool := map[string]string{"FirmwareJob": "both-a", "RolloutPolicy": "both-b"}[kind]
			w.pool(pool, v1alpha1.RolloutPolicySpec{})
			w.rollout("z-"+pool, v1alpha1.RolloutPolicySpec{
				NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}, MaxUnavailable: ptr.To(intstr.FromString("100%")),
			})
			w.member(pool, pool)
			j := w.queued(pool)
			var said client.Object
			if kind == "FirmwareJob" {
				said = w.jobSays(j.Name, v1alpha1.ConditionAdmitted, reason)
			} else {
				said = w.policySays(pool, reason)
			}
			w.types(key, said, "/pool:/s/both/neither/")
			w.admitted(pool)
		})
	}
	w.end()
}

// An aborted policy, a person's cordon, a halt, a held node and a Node that is gone end the same way.
func TestWaysOutOfStopped(t *testing.T) {
	w := newWays(t)
	w.policy("Active")
	w.assign()
	row := func(key string, f func(w ways)) {
		t.Run(key, func(t *testing.T) { f(ways{w.in(t)}) })
	}
	same := func(*v1alpha1.TaskDevice) {}
	aborted := v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutAborted}

	row("FirmwareJob Aborted", func(w ways) {
		w.pool("gone-a", aborted)
		w.member("gone-a", "gone-a")
		w.types("FirmwareJob Aborted", w.jobSays(w.own("gone-a", same), v1alpha1.ConditionAdmitted, v1alpha1.ReasonAborted))
		w.admitted("gone-a")
	})
	row("RolloutPolicy Aborted", func(w ways) {
		w.pool("gone-b", aborted)
		w.member("gone-b", "gone-b")
		w.types("RolloutPolicy Aborted", w.policySays("gone-b", v1alpha1.ReasonAborted))
		w.admitted("gone-b")
	})
	row("FirmwareJob NodeNotReady", func(w ways) {
		w.pool("cordoned", v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutPaused})
		w.member("cordoned", "cordoned")
		w.patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cordoned"}}, `{"spec":{"unschedulable":true}}`)
		j := w.queued("cordoned")
		w.types("RolloutPolicy Paused", w.policySays("cordoned", v1alpha1.ReasonPaused))
		w.types("FirmwareJob NodeNotReady", w.jobSays(j.Name, v1alpha1.ConditionAdmitted, v1alpha1.ReasonNodeNotReady))
		w.admitted("cordoned")
	})
	row("FirmwareJob DeviceUnhealthy", func(w ways) {
		w.pool("unhealthy", v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutPaused})
		w.member("unhealthy", "unhealthy")
		w.queued("unhealthy")
		d := w.assigned("unhealthy")
		require.NoError(w.t, fieldset.ApplyObservation(w.t.Context(), w.env.Client, d.Name, v1alpha1.NodeDeviceStatus{
			ObservedGeneration: d.Generation, Class: d.Status.Class, UniqueID: d.Status.UniqueID, Vendor: d.Status.Vendor, Model: d.Status.Model,
			Firmware: d.Status.Firmware, Conditions: d.Status.Conditions,
			Failure: &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonUnhealthy, Message: "no link", Job: "before", Time: metav1.Now()},
		}))
		w.eventually("its job is withdrawn", func() bool { return w.waiting("unhealthy") == nil })
		own := w.own("unhealthy", same)
		w.types("RolloutPolicy Paused", w.policySays("unhealthy", v1alpha1.ReasonPaused))
		w.types("FirmwareJob DeviceUnhealthy", w.jobSays(own, v1alpha1.ConditionAdmitted, v1alpha1.ReasonDeviceUnhealthy))
		w.admitted("unhealthy")
	})
	row("FirmwareJob ImageNotFound", func(w ways) {
		w.pool("unlisted", aborted)
		w.member("unlisted", "unlisted")
		own := w.own("unlisted", func(u *v1alpha1.TaskDevice) { u.RollbackDigest = v1alpha1.Digest("sha256:" + strings.Repeat("a", 64)) })
		w.types("RolloutPolicy Aborted", w.policySays("unlisted", v1alpha1.ReasonAborted))
		w.types("FirmwareJob ImageNotFound", w.jobSays(own, v1alpha1.ConditionAdmitted, v1alpha1.ReasonImageNotFound))
		assert.NotEqual(w.t, own, w.admitted("unlisted").Name)
	})
	for key, pool := range map[string]string{"FirmwareJob RolloutHalted": "halted-a", "RolloutPolicy RolloutHalted": "halted-b"} {
		row(key, func(w ways) {
			w.pool(pool, v1alpha1.RolloutPolicySpec{Halt: &v1alpha1.RolloutHalt{}, MaxUnavailable: ptr.To(intstr.FromInt32(1))})
			w.member(pool+"-1", pool)
			w.member(pool+"-2", pool)
			first := w.admitted(pool+"-1", pool+"-2").Spec.NodeName
			other := map[string]string{pool + "-1": pool + "-2", pool + "-2": pool + "-1"}[first]
			waits := w.queued(other)
			w.fails(first, status.JobFacts{Held: true, Failure: &step.Failure{Reason: step.WriteFailed, Message: "exit code 1", Step: "flash"}})
			said := w.policySays(pool, v1alpha1.ReasonRolloutHalted)
			if strings.HasPrefix(key, "FirmwareJob") {
				said = w.jobSays(waits.Name, v1alpha1.ConditionAdmitted, v1alpha1.ReasonRolloutHalted)
			}
			w.types(key, said)
			w.types("RolloutPolicy BudgetExhausted", w.policySays(pool, v1alpha1.ReasonBudgetExhausted))
			o := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: first}}
			require.True(w.t, w.get(o) && o.Spec.Requests.Release != "")
			w.releases(first) // as its daemon does then
			w.admitted(other)
		})
	}
	row("FirmwareJob NodeGone", func(w ways) {
		w.pool("vanished", v1alpha1.RolloutPolicySpec{})
		w.member("vanished", "vanished")
		j := w.admitted("vanished")
		apitest.ApplyStatus(w.t, w.env.Client, v1alpha1.FieldOwnerDaemon, &v1alpha1.FirmwareJob{
			ObjectMeta: metav1.ObjectMeta{Name: j.Name}, Status: v1alpha1.FirmwareJobStatus{StartTime: ptr.To(metav1.Now())}})
		w.patch(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "vanished"}}, `{"spec":{"scanThreshold":"10m"}}`)
		require.NoError(w.t, w.env.Client.Delete(w.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "vanished"}}))
		w.types("FirmwareJob NodeGone", w.jobSays(j.Name, v1alpha1.ConditionStalled, v1alpha1.ReasonNodeGone))
		w.eventually("the job has ended", func() bool { return w.get(j) && j.Ended() })
		o := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "vanished"}}
		require.True(w.t, w.get(o), "its requests are kept")
		w.happened(o.Name, v1alpha1.ReasonNodeGone)
		w.types("NodeFirmware NodeGone", o)
		w.eventually("it is gone", func() bool { return !w.get(o) })
	})
	w.end()
}

// happened waits for an event about an object.
func (w ways) happened(name, reason string) {
	w.t.Helper()
	w.eventually("there is an event "+reason, func() bool {
		var list eventsv1.EventList
		return w.env.Client.List(w.t.Context(), &list) == nil && slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.Reason == reason
		})
	})
}

// releases reports the failed job of a node as its daemon does that returned the node to service.
func (w ways) releases(node string) {
	w.t.Helper()
	for _, j := range w.jobs(node) {
		if j.Held() {
			f := status.JobFacts{Name: j.Name, Node: node, Outcome: step.Failed, Released: true, Failure: &step.Failure{Reason: step.WriteFailed, Message: "exit code 1", Step: "flash"}}
			apitest.ApplyStatus(w.t, w.env.Client, v1alpha1.FieldOwnerDaemon, &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: j.Name}, Status: v1alpha1.FirmwareJobStatus{
				ObservedGeneration: j.Generation, StartTime: j.Status.StartTime, CompletionTime: j.Status.CompletionTime, Conditions: status.Job(f, nil, j.Generation, time.Now()),
			}})
		}
	}
}

// A job that failed is history. What its message offers has its update tried again, whatever it failed for, and whether or not it holds the
// node.
func TestWaysOutOfFailure(t *testing.T) {
	w := newWays(t)
	w.policy("Active")
	w.assign()
	failed := map[string]status.JobFacts{}
	for _, key := range []string{
		"FirmwareJob WriteFailed", "FirmwareJob ActivationFailed", "FirmwareJob VerifyFailed", "FirmwareJob RebootFailed", "FirmwareJob Unhealthy",
		"FirmwareJob PowerCycleRequired", "FirmwareJob Cancelled", "FirmwareJob StepFailed", "FirmwareJob AttemptsExhausted", "FirmwareJob ImageRejected", "FirmwareJob ParameterInvalid",
		"FirmwareJob SignatureInvalid", "FirmwareJob SignatureUntrusted", "FirmwareJob ArchiveFailed", "FirmwareJob RollbackUnavailable",
		"FirmwareJob NotUpdatable", "FirmwareJob DowngradeForbidden", "FirmwareJob PathBlocked",
		"FirmwareJob UnlockUnavailable",
	} {
		_, reason := cut(key)
		failed[key] = status.JobFacts{Failure: &step.Failure{Reason: step.Reason(reason), Message: "it says why", Step: "flash"}}
	}
	held := func(r step.Reason, f status.JobFacts) status.JobFacts {
		f.Held, f.Failure = true, &step.Failure{Reason: r, Message: "it says why", Step: "flash", Blames: []string{"bios"}}
		return f
	}
	failed["FirmwareJob MaintenanceLost"] = held(step.MaintenanceLost, status.JobFacts{})
	failed["FirmwareJob NeedsIntervention"] = held(step.VerifyFailed, status.JobFacts{Rollback: &step.Rollback{Failure: &step.Failure{Reason: step.RollbackUnavailable, Message: "it is gone"}}})
	rolledBack := held(step.VerifyFailed, status.JobFacts{Rollback: &step.Rollback{Done: true}})
	rolledBack.Held = false
	failed["FirmwareJob RolledBack"] = rolledBack

	nodes := map[string]string{}
	jobs := map[string]*v1alpha1.FirmwareJob{}
	for key := range failed {
		_, reason := cut(key)
		nodes[key] = strings.ToLower(reason)
		w.pool(nodes[key], v1alpha1.RolloutPolicySpec{})
		w.member(nodes[key], nodes[key])
	}
	for key, f := range failed {
		jobs[key] = w.fails(nodes[key], f)
	}
	for key, j := range jobs {
		w.eventually("the job has failed", func() bool { return w.get(j) && j.Failed() && w.waiting(nodes[key]) == nil })
		w.types(key, j)
	}
	for key, j := range jobs {
		assert.NotEqual(t, j.Name, w.admitted(nodes[key]).Name, key)
	}
	w.end()
}

// A job on a machine that no image executes jobs on has its update planned again when one was added.
func TestWayOutWithoutAHandler(t *testing.T) {
	env := apitest.New(t)
	const file = "handlers.yaml"
	handlers := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: "node-firmware-pod-handlers"},
		Data: map[string]string{file: "handlers:\n- {vendor: Dell, image: registry.example.com/daemon:1}\n"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: "operator", Labels: map[string]string{
			"app.kubernetes.io/name": "node-firmware-operator", "app.kubernetes.io/component": "operator",
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "x"}}},
	}
	require.NoError(t, env.Client.Create(t.Context(), handlers))
	require.NoError(t, env.Client.Create(t.Context(), pod))
	conf := config.Operator{UpdateStrategies: []string{config.StrategyPod}, PodHandlers: filepath.Join(t.TempDir(), file), StoreDir: t.TempDir(), FileSourceDir: t.TempDir()}
	run := func() ways { // with what the kubelet mounts
		require.NoError(t, os.WriteFile(conf.PodHandlers, []byte(handlers.Data[file]), 0o600))
		return ways{startWith(t, env, conf)}
	}
	w := run()
	w.policy("Active")
	w.assign()
	subject{w, "unhandled"}.joins()
	subject{w, "unhandled"}.machine("A")
	w.observe("unhandled", w.assigned("unhandled").Generation)
	var failed *v1alpha1.FirmwareJob
	w.eventually("a job has failed", func() bool {
		for _, j := range w.jobs("unhandled") {
			if j.FailureReason() == v1alpha1.ReasonNoRunner {
				failed = &j
			}
		}
		return failed != nil
	})
	w.types("FirmwareJob NoRunner", failed, "s/Dell/Lenovo/")
	w.end()
	require.False(t, w.get(pod), "a ReplicaSet makes another one")
	require.True(t, w.get(handlers))

	w = run()
	w.eventually("a job waits for its pod", func() bool {
		return slices.ContainsFunc(w.jobs("unhandled"), func(j v1alpha1.FirmwareJob) bool { return j.Admitted() && !j.Ended() })
	})
	w.end()
}

// subject is a template with a source of its own, for the nodes with a label.
type subject struct {
	ways
	name string
}

// source makes the FirmwareSource of the subject with an image of the version.
func (s subject) source(version string, change func(*v1alpha1.FirmwareSource)) *v1alpha1.FirmwareSource {
	s.t.Helper()
	file := s.file(s.name+".cab", []byte("image of "+s.name))
	file.Images = []v1alpha1.ImageDescription{{Class: v1alpha1.ClassBIOS, Models: []string{"7X21"}, Version: version}}
	o := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{file}}}
	change(o)
	require.NoError(s.t, s.env.Client.Create(s.t.Context(), o))
	return o
}

// file puts a file where sources may have theirs.
func (w ways) file(name string, content []byte) v1alpha1.FirmwareFile {
	w.t.Helper()
	path := filepath.Join(w.conf.FileSourceDir, name)
	require.NoError(w.t, os.WriteFile(path, content, 0o600))
	return v1alpha1.FirmwareFile{URL: "file://" + path, Digest: v1alpha1.Digest(fmt.Sprintf("sha256:%x", sha256.Sum256(content)))}
}

// assigns makes the FirmwareTemplate of the subject, which assigns version v2.
func (s subject) assigns(change func(*v1alpha1.FirmwareTemplateSpec)) {
	s.t.Helper()
	o := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: v1alpha1.FirmwareTemplateSpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": s.name}},
		Rules: []v1alpha1.FirmwareRule{{
			Name: "bios", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS, Vendor: v1alpha1.AnyVendor}, Version: "v2",
			SourceRef: v1alpha1.SourceReference{Name: s.name},
		}},
	}}
	change(&o.Spec)
	require.NoError(s.t, s.env.Client.Create(s.t.Context(), o))
}

// joins adds the node of the subject.
func (s subject) joins() {
	s.t.Helper()
	s.nodeIn(s.name, s.name)
}

// reports writes the status of the subject's device.
func (s subject) reports(change func(*v1alpha1.NodeDeviceStatus)) {
	s.t.Helper()
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-bios"}}
	require.True(s.t, s.get(d))
	next := v1alpha1.NodeDeviceStatus{
		ObservedGeneration: d.Generation, Class: d.Status.Class, UniqueID: d.Status.UniqueID, Vendor: d.Status.Vendor, Model: d.Status.Model,
		Firmware: d.Status.Firmware,
	}
	for _, c := range d.Status.Conditions {
		if slices.Contains(status.DeviceConditions, c.Type) {
			next.Conditions = append(next.Conditions, c)
		}
	}
	change(&next)
	require.NoError(s.t, fieldset.ApplyObservation(s.t.Context(), s.env.Client, d.Name, next))
}

func (s subject) blocked(reason string) client.Object {
	return s.deviceSays(s.name, v1alpha1.ConditionBlocked, reason)
}

func (s subject) templateSays(reason string) client.Object {
	s.t.Helper()
	o := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	return s.says(o, func() []metav1.Condition { return o.Status.Conditions }, v1alpha1.ConditionReady, reason)
}

func (s subject) sourceSays(reason string) client.Object {
	s.t.Helper()
	o := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	return s.says(o, func() []metav1.Condition { return o.Status.Conditions }, v1alpha1.ConditionReady, reason)
}

// free waits until nothing blocks the device and it has its image.
func (s subject) free() {
	s.t.Helper()
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-bios"}}
	s.eventually(s.name+" is free", func() bool {
		return s.get(d) && d.Spec.Firmware != nil && d.Spec.Firmware.Digest != "" &&
			!meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionBlocked) && !meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionConflict)
	})
}

// Devices that are blocked, and the templates and sources that they hang on, are so no longer when a person has typed the command.
func TestWaysOutOfABlock(t *testing.T) {
	w := newWays(t)
	w.policy("Paused")
	row := func(key string, f func(s subject)) {
		t.Run(key, func(t *testing.T) {
			name := strings.ToLower(strings.ReplaceAll(key, " ", "-"))
			f(subject{ways{w.in(t)}, name[max(0, len(name)-40):]})
		})
	}
	asIs, whole := func(*v1alpha1.FirmwareSource) {}, func(*v1alpha1.FirmwareTemplateSpec) {}

	row("NodeDevice SourceNotFound", func(s subject) {
		s.source("v2", asIs)
		s.assigns(func(spec *v1alpha1.FirmwareTemplateSpec) { spec.Rules[0].SourceRef.Name = "nowhere" })
		s.joins()
		s.types("NodeDevice SourceNotFound", s.blocked(v1alpha1.ReasonSourceNotFound), "s/nowhere/"+s.name+"/")
		s.free()
	})
	row("NodeDevice ImageNotFound", func(s subject) {
		s.source("v7", asIs)
		s.assigns(whole)
		s.joins()
		s.types("NodeDevice ImageNotFound", s.blocked(v1alpha1.ReasonImageNotFound), "s/v7/v2/")
		s.free()
	})
	row("NodeDevice ImageAmbiguous", func(s subject) {
		s.source("v2", func(o *v1alpha1.FirmwareSource) { // that one device is of both, a source cannot know
			other := s.file("other", []byte("another image"))
			other.Images = []v1alpha1.ImageDescription{{Class: v1alpha1.ClassBIOS, BoardIDs: []string{"board-1"}, Version: "v2"}}
			o.Spec.Files[0].Images[0].Models = []string{"7X21"}
			o.Spec.Files = append(o.Spec.Files, other)
		})
		s.assigns(whole)
		s.joins()
		s.reports(func(d *v1alpha1.NodeDeviceStatus) { d.BoardID = "board-1" })
		s.types("NodeDevice ImageAmbiguous", s.blocked(v1alpha1.ReasonImageAmbiguous), "s/- board-1/- board-2/")
		s.free()
	})
	row("NodeDevice PathBlocked", func(s subject) {
		s.source("v2", func(o *v1alpha1.FirmwareSource) {
			o.Spec.UpgradePaths = []v1alpha1.UpgradePath{{To: "v2", From: []string{"1"}}}
		})
		s.assigns(whole)
		s.joins()
		s.types("NodeDevice PathBlocked", s.blocked(v1alpha1.ReasonPathBlocked), `s/- "1"/- "0"/`)
		s.free()
	})
	row("NodeDevice Paused", func(s subject) {
		s.assigns(whole)
		s.joins()
		s.blocked(v1alpha1.ReasonSourceNotFound)
		s.patch(&v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, `{"spec":{"state":"Paused"}}`)
		s.source("v2", asIs)
		s.types("NodeDevice Paused", s.blocked(v1alpha1.ReasonPaused))
		s.free()
	})
	for _, key := range []string{"NodeDevice InvalidSpec", "FirmwareTemplate InvalidSpec"} {
		row(key, func(s subject) {
			s.assigns(whole)
			s.joins()
			s.blocked(v1alpha1.ReasonSourceNotFound)
			s.patch(&v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, `{"spec":{"nodeSelector":{"matchLabels":{"pool":"not a label"}}}}`)
			s.source("v2", asIs)
			said := s.blocked(v1alpha1.ReasonInvalidSpec)
			if strings.HasPrefix(key, "FirmwareTemplate") {
				said = s.templateSays(v1alpha1.ReasonInvalidSpec)
			}
			s.types(key, said, "s/not a label/"+s.name+"/")
			s.free()
		})
	}
	row("FirmwareTemplate Paused", func(s subject) {
		s.source("v2", asIs)
		s.assigns(func(spec *v1alpha1.FirmwareTemplateSpec) { spec.State = v1alpha1.TemplatePaused })
		s.joins()
		s.types("FirmwareTemplate Paused", s.templateSays(v1alpha1.ReasonPaused))
		s.free()
	})
	row("FirmwareTemplate NoMatch", func(s subject) {
		s.source("v2", asIs)
		s.assigns(func(spec *v1alpha1.FirmwareTemplateSpec) { spec.NodeSelector.MatchLabels["pool"] = "nobody" })
		s.joins()
		s.types("FirmwareTemplate NoMatch", s.templateSays(v1alpha1.ReasonNoMatch), "s/nobody/"+s.name+"/")
		s.free()
	})
	row("NodeDevice DowngradeForbidden", func(s subject) {
		s.source("v2", asIs)
		s.assigns(whole)
		s.joins()
		s.reports(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.VersionFormat = v1alpha1.VersionFormatDotted })
		s.types("NodeDevice DowngradeForbidden", s.blocked(v1alpha1.ReasonDowngradeForbidden), "s/downgrade: Forbid/downgrade: Allow/")
		s.free()
	})
	for key, change := range map[string]func(*v1alpha1.ObservedFirmware){
		"NodeDevice NotUpdatable":       func(f *v1alpha1.ObservedFirmware) { f.Driver = "" },
		"NodeDevice PowerCycleRequired": func(f *v1alpha1.ObservedFirmware) { f.Activation = v1alpha1.ActivationPowerCycle },
	} {
		row(key, func(s subject) {
			_, reason := cut(key)
			s.source("v2", asIs)
			s.assigns(whole)
			s.joins()
			s.reports(func(d *v1alpha1.NodeDeviceStatus) { change(d.Firmware) })
			s.types(key, s.blocked(reason), "s/class: BIOS/class: NIC/")
			d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-bios"}}
			s.eventually("nothing is assigned", func() bool { return s.get(d) && d.Spec.Firmware == nil })
		})
	}
	for _, key := range []string{"NodeDevice Conflict", "FirmwareTemplate Conflict"} {
		row(key, func(s subject) {
			s.source("v2", asIs)
			s.assigns(whole)
			s.assigns2()
			s.joins()
			said := s.deviceSays(s.name, v1alpha1.ConditionConflict, v1alpha1.ReasonConflict)
			if strings.HasPrefix(key, "FirmwareTemplate") {
				said = s.templateSays(v1alpha1.ReasonConflict)
			}
			s.types(key, said, "s/pool: .*/pool: nobody/")
			s.eventually("it has one claim", func() bool {
				d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: s.name + "-bios"}}
				return s.get(d) && !meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionConflict)
			})
		})
	}
	for _, key := range []string{"NodeDevice NoMatch", "NodeFirmware NoMatch"} {
		row(key, func(s subject) {
			s.source("v2", asIs)
			s.assigns(whole)
			s.joins()
			s.machine("A")
			s.pins("Dell")
			said := s.deviceSays(s.name, v1alpha1.ConditionBlocked, v1alpha1.ReasonNoMatch)
			if strings.HasPrefix(key, "NodeFirmware") {
				o := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
				said = s.says(o, func() []metav1.Condition { return o.Status.Conditions }, v1alpha1.ConditionPinsUnmatched, v1alpha1.ReasonNoMatch)
			}
			s.types(key, said, "s/Dell/Lenovo/")
			s.free()
		})
	}
	row("NodeDevice HardwareChanged", func(s subject) {
		s.source("v2", asIs)
		s.joins()
		s.machine("A")
		s.pins("Lenovo")
		o := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
		s.eventually("the pins are for machine A", func() bool { return s.get(o) && o.Status.PinnedMachine == "A" })
		s.machine("B")
		s.types("NodeDevice HardwareChanged", s.blocked(v1alpha1.ReasonHardwareChanged))
		s.free()
	})
	for _, key := range []string{"NodeDevice Quarantined", "FirmwareQuarantine Quarantined", "FirmwareJob Quarantined"} {
		row(key, func(s subject) {
			digest := s.source("v2", asIs).Spec.Files[0].Digest
			s.assigns(whole)
			s.joins()
			s.assigned(s.name)
			q := &v1alpha1.FirmwareQuarantine{
				ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(digest, "lenovo:7x21")},
				Spec:       v1alpha1.FirmwareQuarantineSpec{Digest: digest, Model: "lenovo:7x21", State: v1alpha1.QuarantineConfirmed},
			}
			require.NoError(s.t, s.env.Client.Create(s.t.Context(), q))
			said := s.blocked(v1alpha1.ReasonQuarantined)
			switch kind, _ := cut(key); kind {
			case "FirmwareQuarantine":
				said = s.says(q, func() []metav1.Condition { return q.Status.Conditions }, v1alpha1.ConditionReady, v1alpha1.ReasonQuarantined)
			case "FirmwareJob":
				said = s.jobSays(s.own(s.name, func(*v1alpha1.TaskDevice) {}), v1alpha1.ConditionAdmitted, v1alpha1.ReasonQuarantined)
			}
			s.types(key, said)
			s.free()
		})
	}
	for _, key := range []string{
		"NodeDevice UpdateFailed", "FirmwareTemplate UpdateFailed", "NodeDevice DeviceUnhealthy", "NodeDevice Restored", "FirmwareTemplate Restored",
	} {
		row(key, func(s subject) {
			s.source("v2", asIs)
			s.assigns(whole)
			s.joins()
			w := s.assigned(s.name).Spec.Firmware
			kind, reason := cut(key)
			failure := &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonWriteFailed, Digest: w.Digest, Message: "exit code 1", Job: "before", Time: metav1.Now()}
			facts := status.DeviceFacts{Node: s.name, Desired: inventory.Version(w.Version), Verdict: plan.Decision{Outcome: plan.Blocked, Reason: plan.ReasonUpdateFailed}}
			switch reason {
			case v1alpha1.ReasonDeviceUnhealthy:
				failure.Reason, failure.Digest, facts.Unhealthy = v1alpha1.ReasonUnhealthy, "", "no link"
			case v1alpha1.ReasonRestored:
				failure.Reason, facts.Verdict.Reason = reason, plan.ReasonRestored
			}
			s.reports(func(d *v1alpha1.NodeDeviceStatus) {
				d.Failure, d.Conditions = failure, status.Device(facts, d.Conditions, d.ObservedGeneration, time.Now())
			})
			said := s.deviceSays(s.name, v1alpha1.ConditionReady, reason)
			if kind == "FirmwareTemplate" {
				said = s.templateSays(reason)
			}
			s.eventually("no job waits for it", func() bool { return s.waiting(s.name) == nil })
			s.types(key, said)
			s.queued(s.name)
		})
	}
	w.end()
}

// assigns2 makes another template of the same wish.
func (s subject) assigns2() {
	s.t.Helper()
	other := s
	other.name = "z-" + s.name
	other.assigns(func(spec *v1alpha1.FirmwareTemplateSpec) {
		spec.NodeSelector.MatchLabels["pool"], spec.Rules[0].SourceRef.Name = s.name, s.name
	})
}

// pins has the node's BIOS pinned to v2, where it is of that vendor.
func (s subject) pins(vendor string) {
	s.t.Helper()
	o := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	s.eventually("the NodeFirmware is there", func() bool { return s.get(o) })
	s.patch(o, fmt.Sprintf(`{"spec":{"pins":[{"name":"p","selector":{"class":"BIOS","vendor":%q},"version":"v2","sourceRef":{"name":%q}}]}}`, vendor, s.name))
}

// machine reports that the node is a machine with that serial number.
func (s subject) machine(serial string) {
	s.t.Helper()
	o := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	s.eventually("the NodeFirmware is there", func() bool { return s.get(o) })
	require.NoError(s.t, fieldset.ApplyNode(s.t.Context(), s.env.Client, s.name, v1alpha1.NodeFirmwareStatus{
		LastScanTime: ptr.To(metav1.Now()), Machine: &v1alpha1.Machine{Vendor: "Lenovo", Model: "7X21", SerialNumber: serial},
	}))
}

// A source that is not ready is so after the correction that its message asks for, at once.
func TestWaysOutOfASource(t *testing.T) {
	w := newWays(t)
	vendor, stranger := newKey(t), newKey(t)
	// signed is a file of a source that asks for the vendor's signature; it names a signature by its ending.
	signed := func(ending string) func(subject, *v1alpha1.FirmwareSource) {
		return func(s subject, o *v1alpha1.FirmwareSource) {
			content := []byte("image of " + s.name)
			s.file(s.name+".cab.minisig", vendor.sign(content))
			s.file(s.name+".cab.other", vendor.sign([]byte("another image")))
			s.file(s.name+".cab.stranger", stranger.sign(content))
			o.Spec.Verification = &v1alpha1.SourceVerification{Keys: []string{vendor.public}}
			o.Spec.Files[0].SignatureURL = o.Spec.Files[0].URL + ending
		}
	}
	for key, c := range map[string]struct {
		change func(subject, *v1alpha1.FirmwareSource)
		editor string
	}{
		"FirmwareSource DownloadFailed": {func(_ subject, o *v1alpha1.FirmwareSource) { o.Spec.Files[0].URL += ".gone" }, "s/.gone//"},
		"FirmwareSource DigestMismatch": {func(_ subject, o *v1alpha1.FirmwareSource) {
			o.Annotations = map[string]string{"right": string(o.Spec.Files[0].Digest)}
			o.Spec.Files[0].Digest = v1alpha1.Digest("sha256:" + strings.Repeat("a", 64))
		}, ""},
		"FirmwareSource UnpackFailed":  {func(_ subject, o *v1alpha1.FirmwareSource) { o.Spec.Files[0].Images[0].Path = "in/it.bin" }, "/path: in.it.bin/d"},
		"FirmwareSource BoardsUnknown": {func(_ subject, o *v1alpha1.FirmwareSource) { o.Spec.Files[0].Images[0].Models = nil }, "s/class: BIOS/class: BIOS\\n      models: [7X21]/"},
		"FirmwareSource InvalidSpec": {func(s subject, o *v1alpha1.FirmwareSource) {
			o.Spec.Files[0].URL = strings.ReplaceAll(o.Spec.Files[0].URL, s.conf.FileSourceDir, "/elsewhere")
		}, "s,/elsewhere,DIR,"},
		"FirmwareSource ImageMismatch": {func(s subject, o *v1alpha1.FirmwareSource) {
			adapter, err := os.ReadFile("../../pkg/imageinfo/testdata/fs3.bin")
			require.NoError(s.t, err)
			o.Spec.Files[0] = s.file(s.name+".bin", adapter)
			o.Spec.Files[0].Images = []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Version: "22.39.1002"}}
		}, "s/22.39.1002/22.41.1000/"},
		"FirmwareSource SignatureMissing":   {signed(".gone"), "s/.gone/.minisig/"},
		"FirmwareSource SignatureInvalid":   {signed(".other"), "s/.other/.minisig/"},
		"FirmwareSource SignatureUntrusted": {signed(".stranger"), "s/.stranger/.minisig/"},
	} {
		t.Run(key, func(t *testing.T) {
			_, reason := cut(key)
			s := subject{ways{w.in(t)}, strings.ToLower(reason)}
			o := s.source("v2", func(o *v1alpha1.FirmwareSource) { c.change(s, o) })
			editor := strings.ReplaceAll(c.editor, "DIR", w.conf.FileSourceDir)
			if right := o.Annotations["right"]; right != "" {
				editor = "s/" + string(o.Spec.Files[0].Digest) + "/" + right + "/"
			}
			s.types(key, s.sourceSays(reason), editor)
			s.sourceSays(v1alpha1.ReasonSucceeded)
		})
	}
	w.end()
}

// key is a key pair of minisign.
type key struct {
	public  string
	private minisign.PrivateKey
}

func newKey(t *testing.T) key {
	t.Helper()
	public, private, err := minisign.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return key{public.String(), private}
}

func (k key) sign(content []byte) []byte {
	r := minisign.NewReader(bytes.NewReader(content))
	_, _ = io.Copy(io.Discard, r)
	return r.Sign(k.private)
}

// A catalog whose provider answers what cannot be used is corrected, and one that is paused asks again.
func TestWaysOutOfACatalog(t *testing.T) {
	w := newWays(t)
	const metadata = `<?xml version="1.0" encoding="utf-8"?><components origin="lvfs" version="0.9"></components>`
	vendor, stranger := signaturetest.NewAuthority(t), signaturetest.NewAuthority(t)
	url := func(dir string) string { return "file://" + filepath.Join(w.conf.FileSourceDir, dir, "firmware.xml") }
	for dir, sign := range map[string]func() string{
		"new":      func() string { return vendor.Jcat(t, "firmware.xml", metadata) },
		"undated":  func() string { return vendor.UndatedJcat(t, "firmware.xml", metadata) },
		"stranger": func() string { return stranger.Jcat(t, "firmware.xml", metadata) },
	} {
		require.NoError(t, os.Mkdir(filepath.Join(w.conf.FileSourceDir, dir), 0o700))
		w.file(dir+"/firmware.xml", []byte(metadata))
		w.file(dir+"/firmware.xml.jcat", []byte(sign()))
	}
	w.file("index.json", []byte(`{"schema": "nodefirmware.io/catalog/v1", "versions": []}`))
	w.file("page.html", []byte(`<html>sorry</html>`))
	lvfs := v1alpha1.CatalogProvider{Name: "p", Type: v1alpha1.ProviderLVFS, URL: url("stranger"), Signers: vendor.PEM()}
	behind := lvfs
	behind.URL = url("new")
	index := v1alpha1.CatalogProvider{Name: "p", Type: v1alpha1.ProviderIndex, URL: "file://" + filepath.Join(w.conf.FileSourceDir, "page.html")}
	for key, c := range map[string]struct {
		spec   v1alpha1.FirmwareCatalogSpec
		then   string // what its provider is set to when it has answered
		editor string
	}{
		"FirmwareCatalog Paused":           {v1alpha1.FirmwareCatalogSpec{State: v1alpha1.CatalogPaused}, "", ""},
		"FirmwareCatalog SignatureInvalid": {v1alpha1.FirmwareCatalogSpec{Providers: []v1alpha1.CatalogProvider{lvfs}}, "", "s,/stranger/,/new/,"},
		"FirmwareCatalog Replayed":         {v1alpha1.FirmwareCatalogSpec{Providers: []v1alpha1.CatalogProvider{behind}}, url("undated"), "s,/undated/,/new/,"},
		"FirmwareCatalog InvalidCatalog":   {v1alpha1.FirmwareCatalogSpec{Providers: []v1alpha1.CatalogProvider{index}}, "", "s/page.html/index.json/"},
	} {
		t.Run(key, func(t *testing.T) {
			w := ways{w.in(t)}
			_, reason := cut(key)
			c.spec.Machine = v1alpha1.CatalogMachine{Vendor: "lenovo", Model: strings.ToLower(reason)}
			o := &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: "lenovo." + c.spec.Machine.Model}, Spec: c.spec}
			require.NoError(t, w.env.Client.Create(t.Context(), o))
			says := func(reason string) client.Object {
				return w.says(o, func() []metav1.Condition { return o.Status.Conditions }, v1alpha1.ConditionReady, reason)
			}
			if c.then != "" {
				says(v1alpha1.ReasonSucceeded)
				c.spec.Providers[0].URL = c.then
				require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
					if err := w.env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
						return err
					}
					o.Spec.Providers = c.spec.Providers
					return w.env.Client.Update(t.Context(), o)
				}))
			}
			w.types(key, says(reason), c.editor)
			says(v1alpha1.ReasonSucceeded)
		})
	}
	w.end()
}

func cut(key string) (kind, reason string) {
	_, _ = fmt.Sscan(key, &kind, &reason)
	return kind, reason
}

// in is the operator for a test within the test.
func (p *process) in(t *testing.T) *process {
	out := *p
	out.t = t
	return &out
}

// A policy of cleaning and the nodes that it concerns, likewise.
func TestWaysOutOfCleaning(t *testing.T) {
	w := newWays(t)
	w.policy("Active")
	cleaning := func(name, pool string, change func(*v1alpha1.CleaningPolicySpec)) {
		t.Helper()
		p := &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CleaningPolicySpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}, When: []v1alpha1.CleaningTime{v1alpha1.CleaningOutOfService},
			Steps: []v1alpha1.CleaningStep{{Name: "verify-firmware", Priority: ptr.To[int32](1)}},
		}}
		change(&p.Spec)
		require.NoError(t, w.env.Client.Create(t.Context(), p))
	}
	says := func(name, reason string) client.Object {
		t.Helper()
		o := &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return w.says(o, func() []metav1.Condition { return o.Status.Conditions }, v1alpha1.ConditionReady, reason)
	}
	plain := func(*v1alpha1.CleaningPolicySpec) {}
	for _, pool := range []string{"paused", "twice", "invalid", "failed"} {
		w.nodeIn(pool, pool)
	}

	cleaning("paused", "paused", func(s *v1alpha1.CleaningPolicySpec) { s.State = v1alpha1.CleaningPaused })
	w.types("CleaningPolicy Paused", says("paused", v1alpha1.ReasonPaused))
	says("paused", v1alpha1.ReasonSucceeded)

	cleaning("twice", "twice", plain)
	cleaning("too", "twice", plain)
	w.types("CleaningPolicy Conflict", says("twice", v1alpha1.ReasonConflict), "s/pool: twice/pool: paused-too/")
	says("too", v1alpha1.ReasonSucceeded)

	cleaning("invalid", "invalid", func(s *v1alpha1.CleaningPolicySpec) { s.NodeSelector.MatchLabels["pool"] = "no label!" })
	w.types("CleaningPolicy InvalidSpec", says("invalid", v1alpha1.ReasonInvalidSpec), "s/no label!/invalid/")
	says("invalid", v1alpha1.ReasonSucceeded)

	cleaning("failed", "failed", plain)
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "failed"}}
	w.eventually("the node has its object", func() bool { return w.get(n) })
	require.NoError(t, fieldset.ApplyNode(t.Context(), w.env.Client, n.Name, v1alpha1.NodeFirmwareStatus{LastScanTime: ptr.To(metav1.Now())}))
	require.NoError(t, w.env.Client.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"service":"OutOfService"}}`))))
	clean := func(reason string) client.Object {
		t.Helper()
		return w.says(n, func() []metav1.Condition { return n.Status.Conditions }, v1alpha1.ConditionClean, reason)
	}
	j := w.fails("failed", status.JobFacts{Failure: &step.Failure{Reason: step.StepFailed, Step: plan.VerifyFirmware, Held: true, Message: "the device runs 1 instead of 2"}})
	w.types("NodeFirmware StepFailed", clean(v1alpha1.ReasonStepFailed))
	w.queued("failed", j.Name)
	clean(v1alpha1.ReasonPending)
	w.ends("failed", status.JobFacts{Outcome: step.Complete})
	w.types("NodeFirmware Succeeded", clean(v1alpha1.ReasonSucceeded))
	w.eventually("it is in service", func() bool {
		return w.get(n) && n.Spec.Service == v1alpha1.NodeInService && meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionClean) == nil
	})
}
