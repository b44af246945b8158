package template

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
)

const (
	board   = "MT_0000000359"
	v1, v2  = "22.41.1000", "22.42.1000"
	running = "22.39.2048"
)

// R001-11, R001-12, R000-17, R000-18, R000-34: a match writes the firmware once, and the status of the template is true.
func TestMatchAssignsOnceAndTheTemplateTellsTheTruth(t *testing.T) {
	f := newFleet(t)
	f.node("a", map[string]string{"pool": "gpu"})
	f.node("b", map[string]string{"pool": "cpu"})
	from := f.source("s", imageFor(board, v1, 1))
	a, b := f.discover("a", board, running), f.discover("b", board, running)
	tpl := f.template("t", "gpu", v1, "s")
	f.startOperator()

	d := f.awaitVersion(a, v1, "t")
	assert.Equal(t, &v1alpha1.DesiredFirmware{
		Version: v1, Digest: digest(1), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
	}, d.Spec.Firmware)
	assert.Equal(t, []v1alpha1.Origin{
		{Kind: v1alpha1.OriginTemplate, Name: "t", UID: string(tpl.UID), Generation: tpl.Generation, Rule: "cx6dx", Hash: v1alpha1.ContentHash(v1, "s")},
		{Kind: v1alpha1.OriginSource, Name: "s", UID: string(from.UID), Generation: from.Generation, Hash: v1alpha1.ImageHash(digest(1))},
	}, d.Spec.Origin)
	assert.Equal(t, "a", d.Spec.NodeName)
	got := f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus)
	assert.Equal(t, []string{a}, got.Status.AssignedDevices)
	assert.Equal(t, int32(1), got.Status.Nodes.Selected)
	assert.Equal(t, int32(1), got.Status.Devices.OutOfDate)

	// What changes no fact costs nothing: the port comes up, and then the update arrives.
	f.discover("a", board, running, func(s *v1alpha1.NodeDeviceStatus) {
		s.Ports = []v1alpha1.DevicePort{{NetDevice: "ens1f0"}}
	})
	f.discover("a", board, v1)
	got = f.awaitReady("t", v1alpha1.ReasonSucceeded, status.CurrentStatus)
	assert.Equal(t, int32(1), got.Status.Nodes.UpToDate)
	assert.Equal(t, int32(0), got.Status.Nodes.OutOfDate)
	assert.Nil(t, f.device(b).Spec.Firmware)
	f.awaitWrites(1, &f.writes.firmware, "one write for the one device")
	f.awaitWrites(0, &f.writes.conditions, "no condition to report")
}

// R000-25: what the controller does is to write what is assigned into devices, and what became of it into statuses.
func TestWritesObjectsAndNothingElse(t *testing.T) {
	f := newFleet(t)
	var mu sync.Mutex
	writes := map[string]bool{}
	f.sees = func(q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if q.Method != http.MethodGet {
			path := strings.Split(strings.TrimPrefix(q.URL.Path, "/apis/"), "/")
			kind, part := path[2], ""
			if len(path) > 4 {
				part = "/" + path[4]
			}
			writes[q.Method+" "+kind+part] = true
		}
	}
	f.node("a", map[string]string{"pool": "gpu"})
	f.node("b", nil)
	f.source("s", imageFor(board, v1, 1), imageFor(board, v2, 2))
	a := f.discover("a", board, running)
	f.discover("b", board, running)
	f.template("t", "gpu", v1, "s")
	f.template("u", "gpu", v2, "s")
	pins := pinFor("b", "101e")
	f.create(pins)
	pins.Status.LastScanTime = &metav1.Time{Time: time.Now()}
	require.NoError(t, f.Client.Status().Update(t.Context(), pins))
	f.startOperator()
	f.awaitReady("t", v1alpha1.ReasonConflict, status.FailedStatus)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var n v1alpha1.NodeFirmware
		require.NoError(c, f.Client.Get(t.Context(), client.ObjectKey{Name: "b"}, &n))
		assert.True(c, meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionPinsUnmatched))
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, f.Client.Delete(t.Context(), &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "u"}}))
	f.awaitVersion(a, v1, "t")
	f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus)
	f.stopOperator()
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"PATCH nodedevices", "PATCH nodedevices/status", "PATCH nodefirmwares/status", "PATCH firmwaretemplates/status"} {
		assert.Contains(t, writes, want)
		delete(writes, want)
	}
	delete(writes, "POST namespaces/events") // and says so
	delete(writes, "PATCH namespaces/events")
	assert.Empty(t, writes)
}

// R000-31: a node that joins late, and a label that changes, are seen.
func TestLateJoinerAndLabelChange(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1))
	f.template("t", "gpu", v1, "s")
	f.startOperator()
	f.awaitReady("t", v1alpha1.ReasonNoMatch, status.InProgressStatus)

	f.node("a", map[string]string{"pool": "gpu"})
	a := f.discover("a", board, running)
	f.awaitVersion(a, v1, "t")

	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	f.edit(n, func() { n.Labels = map[string]string{"pool": "cpu"} })
	f.awaitUnassigned(a)
	assert.Equal(t, "a", f.device(a).Spec.NodeName)
	f.edit(n, func() { n.Labels = map[string]string{"pool": "gpu"} })
	f.awaitVersion(a, v1, "t")
	f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus)
}

// R000-16: another machine model with a matching label is untouched.
func TestModelRestrictsTemplate(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1))
	var devices []string
	for node, model := range map[string]string{"a": "7X21", "b": "7X22"} {
		f.node(node, map[string]string{"pool": "gpu"})
		n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}
		f.create(n)
		n.Status.Machine = &v1alpha1.Machine{Vendor: "Lenovo", Model: model}
		require.NoError(t, f.Client.Status().Update(t.Context(), n))
		devices = append(devices, f.discover(node, board, running))
	}
	f.template("t", "gpu", v1, "s", func(o *v1alpha1.FirmwareTemplate) {
		o.Spec.Machine = &v1alpha1.MachineSelector{Vendor: "lenovo", Model: "7x21"}
	})
	f.startOperator()
	got := f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus)
	assert.Equal(t, []string{"a-nic-mt0000000359"}, got.Status.AssignedDevices)
	assert.Equal(t, int32(1), got.Status.Nodes.Selected)
	f.awaitVersion("a-nic-mt0000000359", v1, "t")
	assert.Nil(t, f.device("b-nic-mt0000000359").Spec.Firmware)
	assert.Len(t, devices, 2)
}

// R001-11: what does not match any more loses exactly what the operator wrote.
func TestDeletionRemovesAssignment(t *testing.T) {
	f := newFleet(t)
	f.node("a", map[string]string{"pool": "gpu"})
	f.source("s", imageFor(board, v1, 1))
	a := f.discover("a", board, running)
	tpl := f.template("t", "gpu", v1, "s")
	f.startOperator()
	f.awaitVersion(a, v1, "t")

	require.NoError(t, f.Client.Delete(t.Context(), tpl))
	f.awaitUnassigned(a)
	d := f.device(a)
	assert.Equal(t, "a", d.Spec.NodeName)
	assert.Equal(t, running, d.Status.Firmware.Running)
}

// R000-8, R000-10, R000-32, R000-33: a pin beats the template on its node alone, later changes of the template still
// reach the unpinned, and without the pin the template is back.
func TestPinBeatsTemplate(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1), imageFor(board, v2, 2), imageFor(board, running, 3))
	for _, n := range []string{"a", "b"} {
		f.node(n, map[string]string{"pool": "gpu"})
	}
	a, b := f.discover("a", board, running), f.discover("b", board, running)
	tpl := f.template("t", "gpu", v1, "s")
	pins := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	f.create(pins)
	f.startOperator()
	f.awaitVersion(a, v1, "t")
	f.awaitVersion(b, v1, "t")

	f.edit(pins, func() {
		pins.Spec.Pins = []v1alpha1.FirmwareRule{{
			Name: "keep", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, Version: running, SourceRef: v1alpha1.SourceReference{Name: "s"},
		}}
	})
	d := f.awaitVersion(a, running, "a")
	assert.Equal(t, v1alpha1.OriginPin, d.Spec.Origin[0].Kind)
	assert.Equal(t, "keep", d.Spec.Origin[0].Rule)
	assert.Equal(t, digest(3), d.Spec.Firmware.Digest)

	f.edit(tpl, func() { tpl.Spec.Rules[0].Version = v2 })
	f.awaitVersion(b, v2, "t")
	assert.Equal(t, running, f.device(a).Spec.Firmware.Version)
	got := f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus)
	assert.Equal(t, int32(2), got.Status.Devices.Matched)
	assert.Equal(t, int32(0), got.Status.Devices.Conflicting, "a pin is no conflict")

	f.edit(pins, func() { pins.Spec.Pins = nil })
	f.awaitVersion(a, v2, "t")
}

// R001-9, R001-10, R000-19: two templates on one device change nothing, say so on both sides with one event each, and
// are resolved by removing the cause.
func TestConflictKeepsTheLastAssignmentAndSaysSo(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1), imageFor(board, v2, 2))
	f.node("a", map[string]string{"pool": "gpu"})
	a := f.discover("a", board, running)
	f.template("first", "gpu", v1, "s")
	f.startOperator()
	before := f.awaitVersion(a, v1, "first")

	second := f.template("second", "gpu", v2, "s")
	d := f.awaitCondition(a, v1alpha1.ConditionConflict, v1alpha1.ReasonConflict)
	assert.Equal(t, before.Spec, d.Spec)
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionConflict)
	assert.Contains(t, c.Message, `rule "cx6dx" of FirmwareTemplate "first"`)
	assert.Contains(t, c.Message, `rule "cx6dx" of FirmwareTemplate "second"`)
	for _, name := range []string{"first", "second"} {
		f.awaitTemplate(name, func(c *assert.CollectT, o *v1alpha1.FirmwareTemplate) {
			got := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionConflict)
			require.NotNil(c, got)
			assert.Contains(c, got.Message, `"first"`)
			assert.Contains(c, got.Message, `"second"`)
			assert.Equal(c, int32(1), o.Status.Devices.Conflicting)
		})
		f.awaitReady(name, v1alpha1.ReasonConflict, status.FailedStatus)
		f.awaitWarning("FirmwareTemplate", name, v1alpha1.ReasonConflict)
	}
	f.awaitWarning("NodeDevice", a, v1alpha1.ReasonConflict)

	// The daemon goes on writing; nothing is announced twice.
	f.discover("a", board, "22.40.1000")
	f.edit(second, func() { second.Spec.Rules[0].Version = v1 })
	f.awaitReady("second", v1alpha1.ReasonConflict, status.FailedStatus)
	assert.Equal(t, before.Spec, f.device(a).Spec, "the same firmware claimed twice is a conflict too")

	require.NoError(t, f.Client.Delete(t.Context(), second))
	f.awaitCondition(a, v1alpha1.ConditionConflict, "")
	assert.Equal(t, before.Spec, f.device(a).Spec)
	got := f.awaitReady("first", v1alpha1.ReasonProgressing, status.InProgressStatus)
	assert.Nil(t, meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionConflict))
	assert.Equal(t, 1, f.warnings("NodeDevice", a, v1alpha1.ReasonConflict))
	assert.Equal(t, 1, f.warnings("FirmwareTemplate", "first", v1alpha1.ReasonConflict))
	f.awaitWrites(1, &f.writes.firmware, "one write for the one device")
	f.awaitWrites(2, &f.writes.conditions, "set once, removed once")
}

// Two cards of one model, board and firmware in one machine: a person pins one of them.
func TestPinsOneOfTwoEqualCards(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1), imageFor(board, v2, 2))
	f.node("a", map[string]string{"pool": "gpu"})
	identical := func(name, serial, address string) *v1alpha1.NodeDevice {
		o := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "a"}}
		f.create(o)
		o.Status = v1alpha1.NodeDeviceStatus{
			ObservedGeneration: 1, Class: v1alpha1.ClassNIC, UniqueID: name, PCIID: "15b3:101d", BoardID: board,
			SerialNumber: serial, PCIAddress: address,
			Firmware: &v1alpha1.ObservedFirmware{Running: running, Stored: running, Driver: "mstflint", Activation: v1alpha1.ActivationReboot},
		}
		require.NoError(t, f.Client.Status().Update(t.Context(), o))
		return o
	}
	identical("a-nic-1", "MT1", "0000:3b:00.0")
	identical("a-nic-2", "MT2", "0000:af:00.0")
	f.template("t", "gpu", v1, "s")
	pins := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.NodeFirmwareSpec{Pins: []v1alpha1.FirmwareRule{{
		Name: "second", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, SerialNumbers: []string{"MT2"}}, Version: v2, SourceRef: v1alpha1.SourceReference{Name: "s"},
	}}}}
	f.create(pins)
	f.startOperator()
	f.awaitVersion("a-nic-1", v1, "t")
	f.awaitVersion("a-nic-2", v2, "a")
	f.edit(pins, func() {
		pins.Spec.Pins[0].Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, PCIAddresses: []string{"0000:3b:00.0"}}
	})
	f.awaitVersion("a-nic-1", v2, "a")
	f.awaitVersion("a-nic-2", v1, "t")
}

func TestConflictingPinsAreToldOnTheNodeFirmware(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1), imageFor(board, v2, 2))
	f.node("a", nil)
	a := f.discover("a", board, running)
	pin := func(name, version string) v1alpha1.FirmwareRule {
		return v1alpha1.FirmwareRule{Name: name, Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, Version: version, SourceRef: v1alpha1.SourceReference{Name: "s"}}
	}
	f.create(&v1alpha1.NodeFirmware{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       v1alpha1.NodeFirmwareSpec{Pins: []v1alpha1.FirmwareRule{pin("x", v1), pin("y", v2)}},
	})
	f.startOperator()
	d := f.awaitCondition(a, v1alpha1.ConditionConflict, v1alpha1.ReasonConflict)
	assert.Nil(t, d.Spec.Firmware)
	f.awaitWarning("NodeFirmware", "a", v1alpha1.ReasonConflict)
}

// R001-17: the update is held, with a reason, until the source is ready; a source for other boards never serves.
func TestBlockedUntilSourceHasImage(t *testing.T) {
	f := newFleet(t)
	f.node("a", map[string]string{"pool": "gpu"})
	a := f.discover("a", board, running)
	f.template("t", "gpu", v1, "s")
	f.startOperator()

	d := f.awaitCondition(a, v1alpha1.ConditionBlocked, v1alpha1.ReasonSourceNotFound)
	assert.Contains(t, meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked).Message, `FirmwareSource "s" does not exist`)
	f.awaitReady("t", v1alpha1.ReasonSourceNotFound, status.FailedStatus)
	f.awaitVersion(a, v1, "t")

	s := f.source("s")
	f.awaitCondition(a, v1alpha1.ConditionBlocked, v1alpha1.ReasonSourceNotReady)
	f.awaitReady("t", v1alpha1.ReasonSourceNotReady, status.InProgressStatus)

	f.ready(s, imageFor("MT_0000000540", v1, 9))
	d = f.awaitCondition(a, v1alpha1.ConditionBlocked, v1alpha1.ReasonImageNotFound)
	assert.Contains(t, meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked).Message, board)
	assert.Empty(t, d.Spec.Firmware.Digest)

	f.ready(s, imageFor("MT_0000000540", v1, 9), imageFor(board, v1, 1), imageFor(board, v1, 2))
	f.awaitCondition(a, v1alpha1.ConditionBlocked, v1alpha1.ReasonImageAmbiguous)

	f.ready(s, imageFor("MT_0000000540", v1, 9), imageFor(board, v1, 1))
	d = f.awaitCondition(a, v1alpha1.ConditionBlocked, "")
	assert.Equal(t, digest(1), d.Spec.Firmware.Digest)
	f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus)
}

func TestDowngradeAndReadOnlyDevicesAreBlocked(t *testing.T) {
	f := newFleet(t)
	f.node("a", map[string]string{"pool": "gpu"})
	f.source("s", imageFor(board, v1, 1), imageFor("MT_0000000540", v1, 2))
	newer := f.discover("a", board, v2)
	locked := f.discover("a", "MT_0000000540", running, func(s *v1alpha1.NodeDeviceStatus) {
		s.Firmware.Access, s.Firmware.Notes = v1alpha1.AccessReadOnly, []string{"secure boot refuses it"}
	})
	tpl := f.template("t", "gpu", v1, "s")
	f.startOperator()
	f.awaitCondition(newer, v1alpha1.ConditionBlocked, v1alpha1.ReasonDowngradeForbidden)
	f.awaitCondition(locked, v1alpha1.ConditionBlocked, v1alpha1.ReasonNotUpdatable)
	got := f.awaitReady("t", v1alpha1.ReasonDowngradeForbidden, status.FailedStatus)
	assert.Equal(t, int32(2), got.Status.Devices.Blocked)

	f.edit(tpl, func() { tpl.Spec.Rules[0].Downgrade = v1alpha1.DowngradeAllow })
	f.awaitCondition(newer, v1alpha1.ConditionBlocked, "")
	f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus)
}

// R004-26 needs it: a template that was deleted and made anew is another origin, and the firmware is the same.
func TestRecreatedTemplateIsOrigin(t *testing.T) {
	f := newFleet(t)
	f.node("a", map[string]string{"pool": "gpu"})
	f.source("s", imageFor(board, v1, 1))
	a := f.discover("a", board, v1)
	old := f.template("t", "gpu", v1, "s")
	f.startOperator()
	f.awaitReady("t", v1alpha1.ReasonSucceeded, status.CurrentStatus)
	f.awaitVersion(a, v1, "t")
	f.stopOperator()

	require.NoError(t, f.Client.Delete(t.Context(), old))
	anew := f.template("t", "gpu", v1, "s")
	f.startOperator()
	d := f.awaitDevice(a, func(c *assert.CollectT, d *v1alpha1.NodeDevice) {
		require.NotNil(c, d.Spec.Firmware)
		assert.Equal(c, string(anew.UID), d.Spec.Origin[0].UID)
	})
	assert.Equal(t, digest(1), d.Spec.Firmware.Digest)
	f.awaitReady("t", v1alpha1.ReasonSucceeded, status.CurrentStatus)
}

func TestPausedTemplateAssignsNothingNewAndWithdrawsNothing(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1), imageFor(board, v2, 2))
	f.node("a", map[string]string{"pool": "gpu"})
	a := f.discover("a", board, running)
	tpl := f.template("t", "gpu", v1, "s")
	f.startOperator()
	f.awaitVersion(a, v1, "t")

	f.edit(tpl, func() { tpl.Spec.State, tpl.Spec.Rules[0].Version = v1alpha1.TemplatePaused, v2 })
	f.awaitReady("t", v1alpha1.ReasonProgressing, status.InProgressStatus) // under the edit
	f.node("b", map[string]string{"pool": "gpu"})
	b := f.discover("b", board, running)
	f.discover("a", board, v1)
	got := f.awaitTemplate("t", func(c *assert.CollectT, o *v1alpha1.FirmwareTemplate) {
		assert.Equal(c, int32(2), o.Status.Devices.Matched)
		assert.Equal(c, int32(1), o.Status.Nodes.UpToDate)
	})
	assert.Equal(t, int32(0), got.Status.Nodes.OutOfDate)
	assert.Equal(t, []string{a}, got.Status.AssignedDevices)
	f.awaitReady("t", v1alpha1.ReasonPaused, status.CurrentStatus)
	f.edit(tpl, func() { tpl.Spec.NodeSelector.MatchLabels["pool"] = "none" })
	f.awaitReady("t", v1alpha1.ReasonPaused, status.CurrentStatus)
	assert.Equal(t, v1, f.device(a).Spec.Firmware.Version)
	assert.Nil(t, f.device(b).Spec.Firmware)

	f.edit(tpl, func() { tpl.Spec.State, tpl.Spec.NodeSelector.MatchLabels["pool"] = v1alpha1.TemplateActive, "gpu" })
	f.awaitVersion(a, v2, "t")
	f.awaitVersion(b, v2, "t")
}

// R000-18, R001-12: servers are counted beside devices, and devices that only match beside those the template assigns firmware to.
func TestCountsServersAndDevices(t *testing.T) {
	const other = "MT_0000000360"
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1), imageFor(other, v1, 2))
	var assigned []string
	for _, node := range []string{"a", "b", "c", "d"} {
		f.node(node, map[string]string{"pool": "gpu"})
		version := v1
		if node == "d" {
			version = running
		}
		assigned = append(assigned, f.discover(node, board, v1), f.discover(node, other, version))
	}
	f.node("empty", map[string]string{"pool": "gpu"})
	f.node("pinned", map[string]string{"pool": "gpu"})
	f.discover("pinned", board, running)
	f.create(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "pinned"}, Spec: v1alpha1.NodeFirmwareSpec{Pins: []v1alpha1.FirmwareRule{{
		Name: "keep", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, Version: running, SourceRef: v1alpha1.SourceReference{Name: "s"},
	}}}})
	f.template("t", "gpu", v1, "s", func(o *v1alpha1.FirmwareTemplate) {
		o.Spec.Rules[0].Selector.BoardIDs = []string{board, other}
	})
	f.startOperator()
	got := f.awaitTemplate("t", func(c *assert.CollectT, o *v1alpha1.FirmwareTemplate) {
		assert.Equal(c, int32(7), o.Status.Devices.UpToDate)
		assert.Equal(c, int32(6), o.Status.Nodes.Selected)
		assert.Equal(c, int32(9), o.Status.Devices.Matched)
	})
	assert.Equal(t, int32(3), got.Status.Nodes.UpToDate)
	assert.Equal(t, int32(1), got.Status.Nodes.OutOfDate, "one of its two cards is enough")
	assert.Equal(t, int32(2), got.Status.Nodes.Selected-got.Status.Nodes.UpToDate-got.Status.Nodes.OutOfDate)
	assert.Equal(t, int32(1), got.Status.Devices.OutOfDate)
	assert.ElementsMatch(t, assigned, got.Status.AssignedDevices)

	f.discover("d", other, v1)
	got = f.awaitReady("t", v1alpha1.ReasonSucceeded, status.CurrentStatus)
	assert.Equal(t, int32(4), got.Status.Nodes.UpToDate)
	assert.Zero(t, got.Status.Nodes.OutOfDate)
}

// A script that waits for Ready must not go on because of a typing error in a selector.
func TestATemplateThatMatchesNothingIsNotReady(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1))
	f.node("a", map[string]string{"pool": "gpu"})
	tpl := f.template("t", "gpu", v1, "s", func(o *v1alpha1.FirmwareTemplate) { o.Spec.Rules[0].Selector.BoardIDs = []string{board} })
	f.startOperator()
	f.awaitReady("t", v1alpha1.ReasonNoMatch, status.InProgressStatus)

	a := f.discover("a", "MT_0000000395", running)
	got := f.awaitTemplate("t", func(c *assert.CollectT, o *v1alpha1.FirmwareTemplate) {
		ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
		if assert.NotNil(c, ready) {
			assert.Contains(c, ready.Message, a)
			assert.Contains(c, ready.Message, "boardIDs (the device reports MT_0000000395)")
		}
	})
	assert.True(t, meta.IsStatusConditionFalse(got.Status.Conditions, v1alpha1.ConditionReady))
	f.edit(tpl, func() { tpl.Spec.Rules[0].Selector.BoardIDs = []string{"MT_0000000395"} })
	f.awaitReady("t", v1alpha1.ReasonImageNotFound, status.FailedStatus)
}

func TestInvalidSelectorIsStalledAndKeepsWhatIsAssigned(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1))
	f.node("a", map[string]string{"pool": "gpu"})
	a := f.discover("a", board, running)
	tpl := f.template("t", "gpu", v1, "s")
	f.startOperator()
	f.awaitVersion(a, v1, "t")

	f.edit(tpl, func() {
		tpl.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "not a label"}}
	})
	got := f.awaitReady("t", v1alpha1.ReasonInvalidSpec, status.FailedStatus)
	assert.Contains(t, meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionStalled).Message, "spec.nodeSelector")
	assert.Equal(t, v1, f.device(a).Spec.Firmware.Version)
	f.awaitWarning("FirmwareTemplate", "t", v1alpha1.ReasonInvalidSpec)
}

func TestLeavesVanishedNodesDevice(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1))
	f.node("a", map[string]string{"pool": "gpu"})
	a := f.discover("a", board, running)
	f.template("t", "gpu", v1, "s")
	f.startOperator()
	f.awaitVersion(a, v1, "t")
	require.NoError(t, f.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}))
	f.awaitReady("t", v1alpha1.ReasonNoMatch, status.InProgressStatus)
	assert.Equal(t, v1, f.device(a).Spec.Firmware.Version)
	require.NoError(t, f.Client.Delete(t.Context(), f.device(a)))
	f.awaitReady("t", v1alpha1.ReasonNoMatch, status.InProgressStatus)
}

// A daemon's device that was deleted, or another one of its name, gets nothing of what was decided for the old one.
func TestNeverResurrectsADevice(t *testing.T) {
	f := newFleet(t)
	f.node("a", nil)
	old := f.device(f.discover("a", board, running))
	w := &Applier{Client: f.Client}
	firmware := &match.Assigned{
		DesiredFirmware: v1alpha1.DesiredFirmware{Version: v1, Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid},
		Origin:          []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}},
	}
	conditions := []metav1.Condition{{Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: "X", LastTransitionTime: metav1.Now()}}
	refused := func(when string) {
		for _, f := range []*match.Assigned{firmware, nil} {
			_, err := w.ApplyDesired(t.Context(), old, match.Decision{Firmware: f})
			assert.True(t, apierrors.IsConflict(err) || apierrors.IsNotFound(err), "%s: %v", when, err)
		}
		_, err := w.ApplyConditions(t.Context(), old, old.ResourceVersion, conditions)
		assert.True(t, apierrors.IsConflict(err) || apierrors.IsNotFound(err), "%s: %v", when, err)
	}
	require.NoError(t, f.Client.Delete(t.Context(), old))
	refused("the device is gone")
	assert.True(t, apierrors.IsNotFound(f.Client.Get(t.Context(), client.ObjectKeyFromObject(old), &v1alpha1.NodeDevice{})))

	anew := f.device(f.discover("a", board, running))
	require.NotEqual(t, old.UID, anew.UID)
	refused("the device is another one")
	assert.Equal(t, anew.ResourceVersion, f.device(anew.Name).ResourceVersion)
	assert.NotEqual(t, types.UID(""), anew.UID)
}
