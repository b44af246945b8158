package kubectl_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

// read reads an object.
func read[O client.Object](t *testing.T, env *apitest.Env, name string, o O) O {
	t.Helper()
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: name}, o))
	return o
}

// eventsOn are the notes of the events that the command left on an object, with their reason and action.
func eventsOn(t *testing.T, env *apitest.Env, kind, name string) (out []string) {
	t.Helper()
	var list eventsv1.EventList
	require.NoError(t, env.Client.List(t.Context(), &list, client.InNamespace("default")))
	for _, e := range list.Items {
		if e.Regarding.Kind == kind && e.Regarding.Name == name && e.ReportingController == "kubectl-firmware" {
			out = append(out, fmt.Sprintf("%s %s %s: %s", e.Type, e.Action, e.Reason, e.Note))
		}
	}
	slices.Sort(out)
	return out
}

// typed is a command with the exit code that it has.
type typed struct {
	code int
	line string
}

// aTime is when a request was made.
var aTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ someone`)

// transcript types commands one after the other, and compares what they print. Their requests are of a time that is always the same.
func transcript(t *testing.T, access, file string, commands []typed) {
	t.Helper()
	var all strings.Builder
	for _, c := range commands {
		out, said, code := shell(t, access, words(c.line)...)
		assert.Equal(t, c.code, code, "%s: %s", c.line, said)
		fmt.Fprintf(&all, "$ kubectl firmware %s\n", c.line)
		if said != "" {
			fmt.Fprintf(&all, "(error stream) %s", said)
		}
		all.WriteString(out + "\n")
	}
	golden.Equal(t, "testdata/"+file+".golden", aTime.ReplaceAllString(all.String(), "2026-11-26T09:30:00Z someone"))
}

// words of a line; what is between apostrophes is one.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

const quarantined = "3b3b3b3b3b3b3b3b.15b3.101d"

// TestVerbsOnAFleet: what a person types who may do everything, in the middle of a rollout. A node is held because of an image that is
// quarantined, one is updated, and one waits.
func TestVerbsOnAFleet(t *testing.T) {
	env := apitest.New(t)
	fleet(t, env.Client)
	access := viewer(t, env, "node-firmware-admin")
	node := func(name string) v1alpha1.NodeRequests {
		return read(t, env, name, &v1alpha1.NodeFirmware{}).Spec.Requests
	}
	policy := func() v1alpha1.RolloutPolicySpec { return read(t, env, "gpu", &v1alpha1.RolloutPolicy{}).Spec }
	state := func() v1alpha1.QuarantineState {
		return read(t, env, quarantined, &v1alpha1.FirmwareQuarantine{}).Spec.State
	}

	transcript(t, access, "stop", []typed{
		{1, "stop"},
		{0, "stop --dry-run=server"},
		{0, "stop --yes -m 'links flap after the update'"},
		{1, "pause gpu --yes"},
		{0, "stop --yes"},
		{1, "stop gpu"},
		{0, "resume --yes"},
		{0, "resume --yes"},
		{0, "pause gpu --yes -m 'waits for the vendor'"},
		{1, "pause gpu --yes"},
		{0, "resume --yes"},
		{0, "resume gpu --yes"},
		{1, "resume gpu --yes"},
		{0, "pause template/gpu --yes"},
		{1, "pause template/gpu --yes"},
		{0, "resume template/gpu --yes"},
		{1, "resume template/gpu --yes"},
		{0, "pause settings/tuning --yes"},
		{1, "pause fct/tuning --yes"},
		{0, "resume settings/tuning --yes"},
		{1, "resume settings/tuning --yes"},
		{1, "pause gpu-2"},
		{1, "pause job/gpu-2-1a2b3c4d"},
		{1, "pause"},
		{0, "pause --all --yes -o name"},
		{0, "resume policy/gpu --yes"},
	})
	assert.Equal(t, v1alpha1.RolloutActive, policy().State)
	assert.Nil(t, policy().Requests)

	transcript(t, access, "held", []typed{
		{1, "retry gpu-2 --yes"},
		{0, "retry --all-held --yes"},
		{1, "release gpu-2"},
		{0, "quarantine list"},
		{0, "quarantine confirm " + quarantined + " --yes"},
		{1, "quarantine confirm " + quarantined + " --yes"},
		{1, "quarantine lift 3b3b3b3b3b3b3b3b.15b3.101e"},
		{0, "quarantine lift " + quarantined + " --yes -m 'the cable was at fault'"},
	})
	assert.Equal(t, v1alpha1.QuarantineLifted, state())
	assert.Equal(t, v1alpha1.NodeRequests{}, node("gpu-2"))
	answer := func(change func(*v1alpha1.FirmwareQuarantine)) { // as the operator does
		q := read(t, env, quarantined, &v1alpha1.FirmwareQuarantine{})
		q.Status.ObservedGeneration = q.Generation
		change(q)
		require.NoError(t, env.Client.Status().Update(t.Context(), q))
	}
	answer(func(q *v1alpha1.FirmwareQuarantine) {
		q.Status.Scope, q.Status.Reports[0].State = v1alpha1.QuarantineNone, v1alpha1.ReportLifted
	})

	transcript(t, access, "retry", []typed{
		{1, "quarantine lift " + quarantined + " --yes"},
		{0, "quarantine"},
		{0, "retry gpu-2 --dry-run=server"},
		{0, "retry gpu-2-1a2b3c4d --yes -m 'cable replaced'"},
		{1, "retry gpu-2 --yes"},
		{0, "retry --all-held --yes"},
		{1, "retry gpu-1 --yes"},
		{1, "retry gpu-3 --yes"},
		{1, "retry gpu-3-1a2b3c4d --yes"},
		{1, "retry policy/gpu --yes"},
		{1, "retry gpuu-2"},
		{1, "retry"},
		{0, "release gpu-2 --yes -m 'the port is not used'"},
		{1, "release gpu-2 --yes"},
		{1, "release gpu-1 --yes"},
		{1, "release gpu-3 --yes"},
		{1, "release gpu-2 --dry-run=client"},
		{0, "scan gpu-1 --yes -o jsonpath={.metadata.name}"},
		{1, "scan gpu-1 --yes"},
		{1, "cancel gpu-2-1a2b3c4d --yes"},
		{0, "cancel gpu-3-1a2b3c4d --yes --grace-period 10m"},
		{1, "cancel gpu-3-1a2b3c4d --yes"},
		{0, "cancel gpu-3-1a2b3c4d --yes --force"},
		{0, "cancel gpu-4-1a2b3c4d --yes -m 'not this node'"},
	})
	const by = "someone-node-firmware-admin"
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ `+by+`: cable replaced$`, node("gpu-2").Retry)
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ `+by+`: the port is not used$`, node("gpu-2").Release)
	assert.Regexp(t, `Z `+by+`$`, node("gpu-1").Scan)
	cancel := read(t, env, "gpu-3-1a2b3c4d", &v1alpha1.FirmwareJob{}).Spec.Cancel
	assert.Equal(t, &v1alpha1.JobCancel{Mode: v1alpha1.CancelForce, GracePeriod: "10m0s"}, cancel)
	cancel = read(t, env, "gpu-4-1a2b3c4d", &v1alpha1.FirmwareJob{}).Spec.Cancel
	assert.Equal(t, &v1alpha1.JobCancel{Mode: v1alpha1.CancelGraceful, GracePeriod: "0s"}, cancel)

	assert.Equal(t, []string{
		"Normal Release Released: By " + by + ": the port is not used. Node gpu-2 returns to service as it is, and nobody has judged its firmware: Job gpu-2-1a2b3c4d " +
			"failed at step gate (Unhealthy) and the node stays out of service: link of port 1 is down. What failed stays recorded until a retry.",
		"Normal Retry Pending: By " + by + ": cable replaced. What failed on node gpu-2 is tried again: gpu-2-nic. A new job takes the node over from job " +
			"gpu-2-1a2b3c4d, and returns it to service if it succeeds.",
	}, eventsOn(t, env, "NodeFirmware", "gpu-2"))
	assert.Len(t, eventsOn(t, env, "FirmwareQuarantine", quarantined), 2)
	assert.Len(t, eventsOn(t, env, "FirmwareTemplate", "gpu"), 2)
	assert.Len(t, eventsOn(t, env, "RolloutPolicy", "gpu"), 6)
	assert.Len(t, eventsOn(t, env, "FirmwareJob", "gpu-3-1a2b3c4d"), 2)

	t.Run("a report after a lift is lifted by another change of the state", func(t *testing.T) {
		answer(func(q *v1alpha1.FirmwareQuarantine) {
			q.Status.Scope, q.Status.Reports[0].State = v1alpha1.QuarantinePolicies, v1alpha1.ReportCounted
		})
		before := read(t, env, quarantined, &v1alpha1.FirmwareQuarantine{}).Generation
		_, said, code := shell(t, access, "quarantine", "lift", quarantined, "--yes")
		assert.Zero(t, code, said)
		assert.Equal(t, v1alpha1.QuarantineLifted, state())
		assert.Equal(t, before+2, read(t, env, quarantined, &v1alpha1.FirmwareQuarantine{}).Generation)
	})
	t.Run("a halted update goes on with the text of a person", func(t *testing.T) {
		p := read(t, env, "gpu", &v1alpha1.RolloutPolicy{})
		p.Status.Rollouts = []v1alpha1.RolloutStatus{{Model: "15b3:101d", Version: "22.41.1000", Digest: digest, Wave: "rest", HaltedTime: &at}}
		require.NoError(t, env.Client.Status().Update(t.Context(), p))
		out, said, code := shell(t, access, "resume", "gpu", "--yes", "-m", "the cable was at fault")
		assert.Zero(t, code, said)
		assert.Equal(t, "policy/gpu: resumed\n", out)
		assert.Regexp(t, `Z `+by+`: the cable was at fault$`, policy().Requests.Resume)
		_, said, code = shell(t, access, "resume", "gpu", "--yes")
		assert.Equal(t, 1, code)
		assert.Contains(t, said, "policy/gpu is to be resumed already (")
	})
}

// TestAStopIsUndone: it cancels the job that has written nothing, and the one that has if that is asked for. A resume activates what the stop
// paused, and has tried again what it cancelled; what a person did is left alone.
func TestAStopIsUndone(t *testing.T) {
	env := apitest.New(t)
	fleet(t, env.Client)
	access := viewer(t, env, "node-firmware-admin")
	for _, name := range []string{"default", "storage"} {
		require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.RolloutPolicySpec{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}}}}))
	}
	state := func(name string) v1alpha1.RolloutState {
		return read(t, env, name, &v1alpha1.RolloutPolicy{}).Spec.State
	}
	cancelled := func(node string) *v1alpha1.JobCancel {
		return read(t, env, node+"-1a2b3c4d", &v1alpha1.FirmwareJob{}).Spec.Cancel
	}
	early := read(t, env, "gpu-4-1a2b3c4d", &v1alpha1.FirmwareJob{}) // is admitted, and archives
	early.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionAdmitted, v1alpha1.ReasonAdmitted, "")}
	early.Status.Steps = []v1alpha1.JobStep{{Name: "archive", State: v1alpha1.StepRunning, Device: "gpu-4-nic", Attempt: 1}, {Name: "flash", State: v1alpha1.StepPending, Device: "gpu-4-nic"}}
	require.NoError(t, env.Client.Status().Update(t.Context(), early))
	_, said, code := shell(t, access, "pause", "storage", "--yes")
	require.Zero(t, code, said)

	out, said, code := shell(t, access, "stop", "--yes", "-m", "links flap")
	require.Zero(t, code, said)
	assert.Equal(t, "policy/default: stopped\npolicy/gpu: stopped\njob/gpu-4-1a2b3c4d: cancelled\n", out)
	assert.Contains(t, said, "Job gpu-3-1a2b3c4d on gpu-3 goes on: it has written firmware. Step flash of gpu-3-nic runs.")
	assert.Contains(t, said, "Job gpu-4-1a2b3c4d ends and returns node gpu-4 to service: it has written nothing.")
	assert.Nil(t, cancelled("gpu-3"))
	assert.NotNil(t, cancelled("gpu-4"))
	out, said, code = shell(t, access, "stop", "--yes", "--running")
	require.Zero(t, code, said)
	assert.Equal(t, "job/gpu-3-1a2b3c4d: cancelled\n", out)
	assert.NotNil(t, cancelled("gpu-3"))

	ended := read(t, env, "gpu-4-1a2b3c4d", &v1alpha1.FirmwareJob{})
	ended.Status.Conditions = append(ended.Status.Conditions, condition(v1alpha1.ConditionFailed, v1alpha1.ReasonCancelled, "A person cancelled it."))
	ended.Status.Request = new("")
	require.NoError(t, env.Client.Status().Update(t.Context(), ended))
	require.NoError(t, env.Client.Patch(t.Context(), read(t, env, quarantined, &v1alpha1.FirmwareQuarantine{}), patch(`{"spec":{"state":"Confirmed"}}`)))
	out, said, code = shell(t, access, "resume", "--yes", "-m", "it was a switch")
	require.Zero(t, code, said)
	assert.Equal(t, "policy/default: resumed\npolicy/gpu: resumed\n", out)
	assert.Contains(t, said, "Job gpu-3-1a2b3c4d on gpu-3, which the stop cancelled, has not ended yet.")
	assert.Contains(t, said, "Not tried again: a retry does nothing on node/gpu-4 while its image is quarantined")
	assert.Contains(t, said, "left so: policy/storage (Paused).")
	assert.Equal(t, v1alpha1.RolloutActive, state("gpu"))
	assert.Equal(t, v1alpha1.RolloutActive, state("default"))
	assert.Equal(t, v1alpha1.RolloutPaused, state("storage"))
	require.NoError(t, env.Client.Delete(t.Context(), read(t, env, quarantined, &v1alpha1.FirmwareQuarantine{})))
	for _, want := range []string{"node/gpu-4: retry requested\n", ""} {
		out, said, code = shell(t, access, "resume", "--yes", "-m", "it was a switch")
		assert.Zero(t, code, said)
		assert.Equal(t, want, out)
	}
	assert.Contains(t, read(t, env, "gpu-4", &v1alpha1.NodeFirmware{}).Spec.Requests.Retry, ": it was a switch")
}

// TestWhoMayNotWriteIsToldWhichRoleMay: of a verb of each kind that is written, and of the event.
func TestWhoMayNotWriteIsToldWhichRoleMay(t *testing.T) {
	env := apitest.New(t)
	fleet(t, env.Client)
	access := viewer(t, env, "node-firmware-viewer")
	for line, role := range map[string]string{
		"scan gpu-1": "node-firmware-pin-editor", "cancel gpu-3-1a2b3c4d": "node-firmware-job-editor", "pause gpu": "node-firmware-policy-editor",
		"pause template/gpu": "node-firmware-template-editor", "quarantine confirm " + quarantined: "node-firmware-quarantine-editor", "release gpu-2": "node-firmware-pin-editor",
	} {
		out, said, code := shell(t, access, append(words(line), "--yes")...)
		assert.Equal(t, 1, code, line)
		assert.Empty(t, out, line)
		assert.Regexp(t, `\nError: user someone-node-firmware-viewer may not patch \w+\. The ClusterRole `+role+` has that right\. `, said, line)
	}
	editor := viewer(t, env, "node-firmware-policy-editor")
	out, said, code := shell(t, editor, "stop", "--running", "--yes") // what it may do is done
	assert.Equal(t, 1, code)
	assert.Equal(t, "policy/gpu: stopped\n", out)
	assert.Regexp(t, `\nNot written: user someone-node-firmware-policy-editor may not patch firmwarejobs\. The ClusterRole node-firmware-job-editor has that right.*\n`+
		`Error: 1 of 2 were not written\n$`, said)
	require.NoError(t, env.Client.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "patches-nodes"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"nodefirmwares"}, Verbs: []string{"patch"}}}}))
	require.NoError(t, env.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "patches-nodes"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "patches-nodes"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "someone-node-firmware-viewer"}},
	}))
	require.EventuallyWithT(t, func(ct *assert.CollectT) { // roles take a moment to be in force
		out, said, code := shell(t, access, "scan", "gpu-1", "--yes")
		assert.Zero(ct, code)
		assert.Equal(ct, "node/gpu-1: scan requested\n", out)
		assert.Regexp(ct, `\nNo event says who did it: user someone-node-firmware-viewer may not create events\. The ClusterRole node-firmware-template-editor has that right`, said)
	}, 5*time.Minute, 100*time.Millisecond)
}

func patch(merge string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(merge)) }

// withHardware is a fleet whose adapters say what they are, and the sources of two versions for them.
func withHardware(t *testing.T, env *apitest.Env) {
	t.Helper()
	fleet(t, env.Client)
	require.NoError(t, env.Client.Delete(t.Context(), read(t, env, quarantined, &v1alpha1.FirmwareQuarantine{})))
	for i, name := range []string{"gpu-1-nic", "gpu-2-nic", "gpu-3-nic", "gpu-4-nic", "gpu-1-disk"} {
		d := read(t, env, name, &v1alpha1.NodeDevice{})
		d.Status.SerialNumber, d.Status.PCIAddress = fmt.Sprintf("MT213%d", i), "0000:3b:00.0"
		d.Status.Firmware = &v1alpha1.ObservedFirmware{Running: d.Status.Running(), Driver: "mstflint", Access: v1alpha1.AccessReadWrite, VersionFormat: v1alpha1.VersionFormatDotted,
			Activation: v1alpha1.ActivationReboot, Rollback: v1alpha1.RollbackReadBack}
		if d.Status.Class == v1alpha1.ClassDisk {
			d.Status.Firmware.Rollback, d.Status.Firmware.Access = v1alpha1.RollbackSlot, v1alpha1.AccessReadOnly
		}
		require.NoError(t, env.Client.Status().Update(t.Context(), d))
	}
	holds := func(source, version string, image v1alpha1.Digest) {
		s := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: source}, Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
			URL: "https://firmware.example.com/a.bin", Digest: image, Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Version: version}}}}}}
		require.NoError(t, client.IgnoreAlreadyExists(env.Client.Create(t.Context(), s)))
		s = read(t, env, source, &v1alpha1.FirmwareSource{})
		s.Status.ObservedGeneration = s.Generation
		s.Status.Images = []v1alpha1.StoredImage{{Class: v1alpha1.ClassNIC, Version: version, Digest: image, Models: []string{"101d"}}}
		require.NoError(t, env.Client.Status().Update(t.Context(), s))
	}
	holds("cx6dx-2241", "22.41.1000", digest)
	holds("cx6dx-2239", "22.39.2048", v1alpha1.Digest("sha256:"+strings.Repeat("39", 32)))
}

func TestPins(t *testing.T) {
	env := apitest.New(t)
	withHardware(t, env)
	access := viewer(t, env, "node-firmware-pin-editor")
	pins := func(node string) []v1alpha1.FirmwareRule {
		return read(t, env, node, &v1alpha1.NodeFirmware{}).Spec.Pins
	}
	transcript(t, access, "pin", []typed{
		{1, "pin gpu-1-nic --version 22.99.1000 --yes"},
		{1, "pin gpu-1-nic --version 22.39.2048 --yes"},
		{1, "pin gpu-1-nic --version 22.39.2048 --source cx6dx-2238 --yes"},
		{1, "pin gpu-1-nic --version 22.39.2048 --source cx6dx-2241 --yes"},
		{1, "pin gpu-1-disk --version GDC5702Q --yes"},
		{1, "pin gpu-1-nic"},
		{1, "pin gpu-1-nik --version 22.39.2048"},
		{0, "pin gpu-4-nic --version 22.41.1000 --yes"},
		{0, "pin gpu-1-nic --version 22.39.2048 --allow-downgrade --yes -m 'links flap since 22.41'"},
	})
	pin := v1alpha1.FirmwareRule{
		Name: "nic", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, SerialNumbers: []string{"MT2130"}}, Version: "22.39.2048",
		SourceRef: v1alpha1.SourceReference{Name: "cx6dx-2239"}, Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeAllow,
	}
	assert.Equal(t, []v1alpha1.FirmwareRule{pin}, pins("gpu-1"))
	assert.Equal(t, []string{"Normal Pin Pending: By someone-node-firmware-pin-editor: links flap since 22.41. Device gpu-1-nic is to run 22.39.2048 from source cx6dx-2239, " +
		"whatever templates say; it runs 22.41.1000. The update waits for no wave, only for budget and windows."}, eventsOn(t, env, "NodeFirmware", "gpu-1"))

	byHand := read(t, env, "gpu-4", &v1alpha1.NodeFirmware{})
	byHand.Spec.Pins = []v1alpha1.FirmwareRule{{Name: "slot", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, PCIAddresses: []string{"0000:3b:00.0"}}, Version: "22.41.1000",
		SourceRef: v1alpha1.SourceReference{Name: "cx6dx-2241"}}, {Name: "all", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, Version: "22.41.1000",
		SourceRef: v1alpha1.SourceReference{Name: "cx6dx-2241"}}}
	require.NoError(t, env.Client.Update(t.Context(), byHand))
	transcript(t, access, "unpin", []typed{
		{0, "pin gpu-1-nic --version 22.41.1000 --yes"}, // in the place of the other
		{0, "unpin gpu-1-nic --yes"},
		{1, "unpin gpu-1-nic --yes"},
		{1, "pin gpu-4-nic --version 22.41.1000 --yes"}, // would be a conflict
		{0, "unpin gpu-4-nic --yes"},
	})
	assert.Empty(t, pins("gpu-1"))
	require.Len(t, pins("gpu-4"), 1)
	assert.Equal(t, "all", pins("gpu-4")[0].Name, "it did not count")
}

func TestJobsOfAPerson(t *testing.T) {
	env := apitest.New(t)
	withHardware(t, env)
	access := viewer(t, env, "node-firmware-job-editor")
	jobs := func(kind v1alpha1.JobType) (out []v1alpha1.FirmwareJobSpec) {
		var list v1alpha1.FirmwareJobList
		require.NoError(t, env.Client.List(t.Context(), &list, client.MatchingFields{"spec.task.type": string(kind)}))
		for _, j := range list.Items {
			assert.Regexp(t, `^gpu-\d-(restore|backup)-[a-z0-9]{5}$`, j.Name)
			assert.Len(t, eventsOn(t, env, "FirmwareJob", j.Name), 1)
			out = append(out, j.Spec)
		}
		return out
	}
	id := read(t, env, "gpu-2-nic", &v1alpha1.NodeDevice{}).Status.UniqueID
	transcript(t, access, "jobs", []typed{
		{1, "restore gpu-1-disk --yes"},
		{1, "restore gpu-1 --yes"},
		{1, "rollback gpu-1 --yes"},
		{1, "rollback gpu-2-nic"},
		{1, "backup gpu-1-disk --yes"},
		{1, "backup gpu-1-nic gpu-2-nic --yes"},
	})
	for _, line := range []string{"rollback gpu-2 --yes -m 'links flap'", "restore gpu-1-nic --version 22.39.2048 --yes", "backup gpu-1 --yes", "backup gpu-4-nic --yes"} {
		out, said, code := shell(t, access, words(line)...)
		assert.Zero(t, code, said)
		assert.Regexp(t, `^job/gpu-\d-(restore|backup)-[a-z0-9]{5}: created\n$`, out)
	}
	spec := func(node string, task v1alpha1.JobTask) v1alpha1.FirmwareJobSpec {
		task.HealthyFor = "60s"
		return v1alpha1.FirmwareJobSpec{NodeName: node, Task: task}
	}
	assert.ElementsMatch(t, []v1alpha1.FirmwareJobSpec{
		spec("gpu-2", v1alpha1.JobTask{Type: v1alpha1.JobTypeRestore, Devices: []v1alpha1.TaskDevice{{Name: "gpu-2-nic", UniqueID: id}}}),
		spec("gpu-1", v1alpha1.JobTask{Type: v1alpha1.JobTypeRestore, Devices: []v1alpha1.TaskDevice{{Name: "gpu-1-nic", UniqueID: id, Version: "22.39.2048"}}}),
	}, jobs(v1alpha1.JobTypeRestore))
	assert.ElementsMatch(t, []v1alpha1.FirmwareJobSpec{
		spec("gpu-1", v1alpha1.JobTask{Type: v1alpha1.JobTypeBackup}),
		spec("gpu-4", v1alpha1.JobTask{Type: v1alpha1.JobTypeBackup, Devices: []v1alpha1.TaskDevice{{Name: "gpu-4-nic", UniqueID: id}}}),
	}, jobs(v1alpha1.JobTypeBackup))
	_, said, code := shell(t, access, "rollback", "gpu-2", "--yes")
	assert.Equal(t, 1, code)
	assert.Regexp(t, `^Error: job/gpu-2-restore-\w{5} does that already\.`, said)

	held := read(t, env, "gpu-2-1a2b3c4d", &v1alpha1.FirmwareJob{})
	held.Status.Steps = []v1alpha1.JobStep{{Name: "flash", State: v1alpha1.StepSucceeded, Device: "gpu-2-nic", Attempt: 1}, {Name: "flash", State: v1alpha1.StepFailed, Device: "gpu-2-other", Attempt: 1}}
	require.NoError(t, env.Client.Status().Update(t.Context(), held))
	other := device("gpu-2", "other", v1alpha1.ClassNIC, "22.39.2048")
	put(t, env.Client, other)
	_, said, code = shell(t, access, "rollback", "gpu-2-nic", "--yes")
	assert.Equal(t, 1, code)
	assert.Contains(t, said, "left device gpu-2-other unhealthy or unfinished too, and a restore without it would be refused. To restore all of them: kubectl firmware rollback gpu-2")
}

func TestHistoryAndDifference(t *testing.T) {
	env := apitest.New(t)
	fleet(t, env.Client)
	past := read(t, env, "gpu-2-1a2b3c4d", &v1alpha1.FirmwareJob{})
	past.Status.StartTime, past.Status.CompletionTime = &at, new(metav1.NewTime(at.Add(4*time.Minute+12*time.Second)))
	require.NoError(t, env.Client.Status().Update(t.Context(), past))
	asked := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "gpu-2-backup"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: "gpu-2",
		Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeBackup, Devices: []v1alpha1.TaskDevice{{Name: "gpu-2-other"}}}}}
	asked.Status.Conditions = []metav1.Condition{condition(v1alpha1.ConditionComplete, v1alpha1.ReasonSucceeded, ""),
		condition(v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, "The firmware of 1 of 1 devices was backed up.")}
	put(t, env.Client, asked)
	transcript(t, viewer(t, env, "node-firmware-viewer"), "history", []typed{
		{0, "history gpu-2"},
		{0, "history gpu-2-nic -o wide"},
		{0, "history gpu-1"},
		{0, "history gpu-2-nic -o jsonpath={.kind}:{.of}:{.jobs[0].reason}"},
		{1, "history policy/gpu"},
		{2, "diff gpu-1 gpu-3"},
		{0, "diff gpu-3 gpu-4"},
		{2, "diff gpu-3 gpu-1 -o jsonpath={.kind}:{.rows[*].what}"},
		{1, "diff gpu-3"},
		{1, "diff gpu-3 gpu-33"},
	})
}
