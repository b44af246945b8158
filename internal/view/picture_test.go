package view_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/view"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

var at = time.Date(2026, 11, 26, 9, 30, 0, 0, time.UTC)

func is(kind, reason, message string) metav1.Condition {
	return condition(at, kind, metav1.ConditionTrue, reason, message)
}

func isNot(kind, reason, message string) metav1.Condition {
	return condition(at, kind, metav1.ConditionFalse, reason, message)
}

func TestTheStateOfANodeIsWhatItAndItsJobSay(t *testing.T) {
	done := is(v1alpha1.ConditionReady, v1alpha1.ReasonUpToDate, "All 8 run it.")
	pending := isNot(v1alpha1.ConditionReady, v1alpha1.ReasonPending, "1 of 8 is not done yet.")
	stalled := is(v1alpha1.ConditionStalled, v1alpha1.ReasonConflict, "1 needs attention. To change it: kubectl edit fwt gpu")
	admitted := is(v1alpha1.ConditionAdmitted, v1alpha1.ReasonAdmitted, "")
	waits := isNot(v1alpha1.ConditionAdmitted, v1alpha1.ReasonOutsideWindow, "No window is open.")
	works := isNot(v1alpha1.ConditionReady, v1alpha1.ReasonProgressing, "Step 2 of 8: flash.")
	for name, c := range map[string]struct {
		node         []metav1.Condition
		heldBy       string
		job          []metav1.Condition
		state        view.State
		reason, says string
	}{
		"nothing reported":                  {state: view.Unknown, reason: v1alpha1.ReasonPending, says: "Nothing has looked at it yet. Is the operator running?"},
		"done":                              {node: []metav1.Condition{done}, state: view.Done, reason: v1alpha1.ReasonUpToDate},
		"to do":                             {node: []metav1.Condition{pending}, state: view.Pending, reason: v1alpha1.ReasonPending, says: "1 of 8 is not done yet."},
		"waits":                             {node: []metav1.Condition{pending}, job: []metav1.Condition{waits}, state: view.Waiting, reason: v1alpha1.ReasonOutsideWindow, says: "No window is open."},
		"at work":                           {node: []metav1.Condition{pending}, job: []metav1.Condition{admitted, works}, state: view.Updating, reason: v1alpha1.ReasonProgressing, says: "Step 2 of 8: flash."},
		"at work though a device conflicts": {node: []metav1.Condition{stalled, pending}, job: []metav1.Condition{admitted, works}, state: view.Updating, reason: v1alpha1.ReasonProgressing, says: "Step 2 of 8: flash."},
		"needs a person, whatever waits":    {node: []metav1.Condition{stalled, pending}, job: []metav1.Condition{waits}, state: view.Stuck, reason: v1alpha1.ReasonConflict, says: "1 needs attention."},
		"held": {node: []metav1.Condition{is(v1alpha1.ConditionHeld, v1alpha1.ReasonUnhealthy, "A job failed. To try again: "+wayout.Retry("n")), pending}, heldBy: "j",
			state: view.Held, reason: v1alpha1.ReasonUnhealthy, says: "A job failed."},
		"silent, whatever its job says": {node: []metav1.Condition{done, isNot(v1alpha1.ConditionDaemonReady, v1alpha1.ReasonNotReporting, "It is silent.")}, job: []metav1.Condition{admitted, works},
			state: view.Silent, reason: v1alpha1.ReasonNotReporting, says: "It is silent."},
	} {
		t.Run(name, func(t *testing.T) {
			n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1alpha1.NodeFirmwareStatus{Conditions: c.node, HeldBy: c.heldBy}}
			o := &view.Objects{Firmware: []*v1alpha1.NodeFirmware{n}}
			if c.job != nil {
				o.Jobs = []*v1alpha1.FirmwareJob{{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: "n"}, Status: v1alpha1.FirmwareJobStatus{Conditions: c.job}}}
			}
			row := view.Draw(o, at).Rows["n"]
			assert.Equal(t, c.state, row.State)
			assert.Equal(t, c.reason, row.Reason)
			assert.Equal(t, c.says, row.Says)
		})
	}
}

func TestAFleetInTheMiddleOfARollout(t *testing.T) {
	p := view.Draw(held(fleet(at, 96)), at)
	require.Len(t, p.Rows, 96)
	assert.Equal(t, 768, p.Devices)
	assert.Equal(t, rack, p.Rack, "the label of a budget is that of the racks")
	assert.Equal(t, []string{rack, "pool", corev1.LabelTopologyZone}, p.Labels, "what is another value on each node divides nothing")
	assert.Equal(t, "gpu", p.Rows["gpu-001"].Pool)
	assert.Equal(t, v1alpha1.DefaultRolloutPolicy, p.Rows["edge-096"].Pool, "no policy selects it")
	assert.Equal(t, "Dell Inc. PowerEdge XE9680", p.Rows["gpu-001"].Model)
	assert.Equal(t, 9, p.Rows["gpu-032"].Steps)

	var nic view.Model
	for _, m := range p.Versions {
		if m.Model == "ConnectX-7" {
			nic = m
		}
	}
	require.Len(t, nic.Running, 2)
	assert.Equal(t, []string{"28.43.1014"}, nic.Newest)
	devices := 0
	for _, r := range nic.Running {
		devices += r.Devices
		if r.Version == "28.39.2048" {
			assert.Equal(t, v1alpha1.PositionBehind, r.Position)
			assert.Equal(t, []string{"CVE-2026-31245"}, r.Issues)
			assert.Equal(t, "28.43.1014", r.FixedIn)
		}
	}
	assert.Equal(t, 48, devices)

	var gpu view.Pool
	for _, pool := range p.Pools {
		if pool.Name == "gpu" {
			gpu = pool
		}
	}
	assert.Len(t, gpu.Waves, 2)
	assert.Equal(t, "ten-percent", gpu.Rollouts[0].Wave)
	assert.Equal(t, 48, sum(gpu.Counts))
	require.NotEmpty(t, gpu.Open)
	assert.Equal(t, at.Add(9*time.Hour+30*time.Minute), gpu.Open[0].From.Time, "20:00 in Berlin")
	for i, s := range gpu.Open {
		assert.True(t, s.To.After(s.From.Time))
		assert.True(t, i == 0 || s.From.After(gpu.Open[i-1].To.Time), "what follows at once is one")
	}
	assert.Equal(t, "storage", p.Pools[1].Name)
	assert.Nil(t, p.Pools[1].Open, "without windows a pool is open for ever")
}

func sum(counts map[view.State]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func TestWhatIsStuckHasItsNextCommand(t *testing.T) {
	needs := map[string]view.Need{}
	for _, n := range view.Draw(held(fleet(at, 96)), at).Needs {
		needs[n.Kind+"/"+n.Name] = n
	}
	assert.Equal(t, view.Need{
		Kind: "node", Name: "gpu-008", Reason: v1alpha1.ReasonUnhealthy, Since: metav1.NewTime(at.Add(-42 * time.Minute)),
		Says: "Job gpu-008-1a2b3c4d failed at step health of gpu-008-nic0 (Unhealthy) and the node stays in maintenance, powered on: link of port 1 is down and was up before.",
		Next: []view.Command{{"To try again", "kubectl firmware retry gpu-008"}, {"To return the node to service as it is", "kubectl firmware release gpu-008"},
			{"To see what led there", "kubectl firmware why node/gpu-008"}},
	}, needs["node/gpu-008"])
	assert.Equal(t, "kubectl firmware resume storage", needs["policy/storage"].Next[0].Typed)
	assert.Equal(t, "kubectl firmware why settings/tuning", needs["settings/tuning"].Next[1].Typed)
	conflict := needs["device/storage-052-nic0"]
	assert.Equal(t, "kubectl edit fwt lab", conflict.Next[0].Typed)
	assert.Equal(t, []string{"storage-076-nic0"}, conflict.Same, "of devices of which the same is said, one is shown")
	for of := range needs {
		assert.NotContains(t, of, "job/", "a job that waits for its wave needs nobody")
	}
}

func TestAJobThatWaitsForAPersonIsStuck(t *testing.T) {
	o := &view.Objects{}
	for i := range 3 {
		o.Jobs = append(o.Jobs, &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("j%d", i)}, Spec: v1alpha1.FirmwareJobSpec{NodeName: fmt.Sprintf("n%d", i)},
			Status: v1alpha1.FirmwareJobStatus{Conditions: []metav1.Condition{isNot(v1alpha1.ConditionAdmitted, v1alpha1.ReasonRolloutHalted, "The update is halted. To go on: kubectl firmware resume gpu")}}})
	}
	needs := view.Draw(o, at).Needs
	require.Len(t, needs, 1)
	assert.Equal(t, "j0", needs[0].Name)
	assert.Equal(t, []string{"j1", "j2"}, needs[0].Same)
}

// What another object says, or another command, is no more of the same; and no name is left out.
func TestOnlyOfWhatSaysTheSameIsOneShown(t *testing.T) {
	o := &view.Objects{}
	add := func(name, message string) {
		o.Devices = append(o.Devices, &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n"},
			Status: v1alpha1.NodeDeviceStatus{Conditions: []metav1.Condition{is(v1alpha1.ConditionConflict, v1alpha1.ReasonConflict, message)}}})
	}
	for _, name := range []string{"a", "b"} {
		add("nic-"+name, "The rules of fleet and lab want nic-"+name+". To change one: kubectl edit fwt lab")
		add("disk-"+name, "The rules of fleet and lab want disk-"+name+". To change one: kubectl edit fwt disks")
	}
	short := map[string][]string{}
	for _, n := range view.Draw(o, at).Needs {
		short[n.Name+": "+n.Next[0].Typed] = n.Same
		assert.Empty(t, n.Others)
	}
	assert.Equal(t, map[string][]string{"nic-a: kubectl edit fwt lab": {"nic-b"}, "disk-a: kubectl edit fwt disks": {"disk-b"}}, short)

	o = &view.Objects{}
	for i := range 53 {
		add(fmt.Sprintf("d%02d", i), fmt.Sprintf("Reason %d.", min(i, 51)))
	}
	all := view.Draw(o, at).Needs
	require.Len(t, all, 50)
	assert.Equal(t, []string{"d50", "d51", "d52"}, all[0].Others)
	assert.Empty(t, all[0].Same)
}

func TestAPoolThatAPersonStoppedIsStuckWhileNodesWait(t *testing.T) {
	pool := func(name, reason string, state v1alpha1.RolloutState, message string) *v1alpha1.RolloutPolicy {
		return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RolloutPolicySpec{State: state, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}}},
			Status: v1alpha1.RolloutPolicyStatus{Conditions: []metav1.Condition{isNot(v1alpha1.ConditionReady, reason, message+" "+wayout.State("rp", name, v1alpha1.RolloutActive))}}}
	}
	o := &view.Objects{Policies: []*v1alpha1.RolloutPolicy{
		pool("aborted", v1alpha1.ReasonAborted, v1alpha1.RolloutAborted, "Aborted: nothing is queued for the pool. To start again:"),
		pool("active", v1alpha1.ReasonPaused, v1alpha1.RolloutActive, "Paused: 1 job waits. To continue:"), // resumed, and the operator is yet to say so
		pool("idle", v1alpha1.ReasonPaused, v1alpha1.RolloutPaused, "Paused; no node waits. To continue:"),
		pool("paused", v1alpha1.ReasonPaused, v1alpha1.RolloutPaused, "Paused: 1 job waits. To continue:"),
	}}
	for _, name := range []string{"aborted", "active", "idle", "paused"} {
		o.Nodes = append(o.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}}})
		ready := isNot(v1alpha1.ConditionReady, v1alpha1.ReasonPending, "1 device is to be flashed.")
		if name == "idle" {
			ready = is(v1alpha1.ConditionReady, v1alpha1.ReasonUpToDate, "All run it.")
		}
		o.Firmware = append(o.Firmware, &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeFirmwareStatus{Conditions: []metav1.Condition{ready}}})
	}
	o.Jobs = append(o.Jobs, &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: "paused"},
		Status: v1alpha1.FirmwareJobStatus{Conditions: []metav1.Condition{isNot(v1alpha1.ConditionAdmitted, v1alpha1.ReasonPaused, "Rollout policy paused is paused.")}}})
	said := map[string]string{}
	for _, n := range view.Draw(o, at).Needs {
		said[n.Kind+"/"+n.Name] = n.Says + " " + n.Next[0].Typed
	}
	assert.Equal(t, map[string]string{
		"policy/aborted": "Aborted: nothing is queued for the pool. kubectl firmware resume aborted",
		"policy/paused":  "Paused: 1 job waits. kubectl firmware resume paused",
	}, said)
}

// The picture is that of the objects, and neither of their order nor of who looks.
func TestAPictureIsThatOfTheObjectsAlone(t *testing.T) {
	objects := append(fleet(at, 96), lab()...)
	first := view.Draw(held(objects), at)
	for _, m := range first.Versions {
		if m.Model == "ConnectX-7" {
			assert.Equal(t, []string{"28.43.1014", "28.44.1036"}, m.Newest, "each catalog offers another one")
		}
	}
	other := held(objects)
	for i, j := 0, len(other.Devices)-1; i < j; i, j = i+1, j-1 {
		other.Devices[i], other.Devices[j] = other.Devices[j], other.Devices[i]
	}
	second := view.Draw(other, at)
	assert.Equal(t, first.Rows, second.Rows)
	assert.Equal(t, first.Versions, second.Versions)
	assert.Equal(t, first.Needs, second.Needs)
	assert.Equal(t, first.Pools, second.Pools)
}

// lab is a node of another machine model, whose catalog offers another version for an adapter of the fleet.
func lab() []client.Object {
	machine, _ := v1alpha1.CatalogOf("Lab", "Bench")
	c := &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: machine.CatalogName()}}
	c.Status.Components = []v1alpha1.CatalogComponent{{Class: v1alpha1.ClassNIC, Vendor: "Mellanox", Model: "ConnectX-7", PCIID: "15b3:1021", Versions: []v1alpha1.CatalogVersion{{Version: "28.44.1036"}}}}
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "lab-1"}, Status: v1alpha1.NodeFirmwareStatus{Machine: &v1alpha1.Machine{Vendor: "Lab", Model: "Bench"}}}
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "lab-1-nic0"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "lab-1"},
		Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, Vendor: "Mellanox", Model: "ConnectX-7", PCIID: "15b3:1021", Firmware: &v1alpha1.ObservedFirmware{Running: "28.39.2048"}}}
	return []client.Object{c, n, d}
}

// What the watch keeps of an object is all that a picture is made from.
func TestAPictureIsTheSameOfTrimmedObjects(t *testing.T) {
	want := view.Draw(held(fleet(at, 96)), at)
	var thin []client.Object
	for _, o := range fleet(at, 96) {
		kept, err := view.Thin(o)
		require.NoError(t, err)
		thin = append(thin, kept.(client.Object))
	}
	got := view.Draw(held(thin), at)
	assert.Equal(t, want.Versions, got.Versions)
	assert.Equal(t, want.Needs, got.Needs)
	assert.Equal(t, want.Pools, got.Pools)
	assert.Equal(t, want.Summary, got.Summary)
	for name, row := range want.Rows {
		assert.Equal(t, row.State, got.Rows[name].State, name)
		assert.Equal(t, row.Says, got.Rows[name].Says, name)
		assert.Equal(t, row.Steps, got.Rows[name].Steps, name)
		assert.Equal(t, row.Pool, got.Rows[name].Pool, name)
	}
}
