package kubectl

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

// heldNode is a node that a failed update of its adapter holds.
func heldNode() *nodeFacts {
	digest := v1alpha1.Digest("sha256:" + strings.Repeat("3b", 32))
	yes := func(kind, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
	}
	return &nodeFacts{
		node: &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1alpha1.NodeFirmwareStatus{HeldBy: "j"}},
		devices: []*v1alpha1.NodeDevice{{
			ObjectMeta: metav1.ObjectMeta{Name: "n-nic"},
			Spec:       v1alpha1.NodeDeviceSpec{NodeName: "n", Firmware: &v1alpha1.DesiredFirmware{Version: "2", Digest: digest, Policy: v1alpha1.PolicyApply}},
			Status: v1alpha1.NodeDeviceStatus{UniqueID: "u", PCIID: "15b3:101d", Firmware: &v1alpha1.ObservedFirmware{Running: "1", Access: v1alpha1.AccessReadWrite},
				Failure: &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonWriteFailed, Digest: digest, Job: "j"}},
		}},
		jobs: []v1alpha1.FirmwareJob{{
			ObjectMeta: metav1.ObjectMeta{Name: "j"},
			Spec: v1alpha1.FirmwareJobSpec{NodeName: "n", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Request: new(""), Devices: []v1alpha1.TaskDevice{
				{Name: "n-nic", UniqueID: "u", Model: "15b3:101d", Version: "2", Digest: digest}}}},
			Status: v1alpha1.FirmwareJobStatus{Conditions: []metav1.Condition{yes(v1alpha1.ConditionFailed, v1alpha1.ReasonWriteFailed), yes(v1alpha1.ConditionHeld, v1alpha1.ReasonWriteFailed)},
				Steps: []v1alpha1.JobStep{{Name: "flash", Device: "n-nic", State: v1alpha1.StepFailed, Attempt: 1}}},
		}},
		policy: &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutActive}},
	}
}

func (f *nodeFacts) retries(text string) {
	f.node.Spec.Requests.Retry = text
}

func TestARetryIsDecidedAsTheOperatorPlansOne(t *testing.T) {
	by := person{name: "anna", now: time.Date(2026, 11, 26, 9, 30, 0, 0, time.UTC)}
	const again, nothing, desiredNoMore = "is to be tried again already", "nothing failed on node/n", "is not desired any more, and no update is due"
	for name, c := range map[string]struct {
		change  func(f *nodeFacts)
		refusal string
		will    string
	}{
		"what failed":                   {func(*nodeFacts) {}, "", "What failed on node n is tried again: n-nic. A new job takes the node over from job j"},
		"one that is asked for already": {func(f *nodeFacts) { f.retries("r") }, again, ""},
		"one whose job failed too": {func(f *nodeFacts) {
			f.retries("r")
			f.jobs[0].Spec.Task.Request, f.devices[0].Status.Failure.Request = new("r"), "r"
		}, "", "tried again: n-nic"},
		"a hold whose job was deleted": {func(f *nodeFacts) { f.jobs, f.devices[0].Status.Failure = nil, nil }, "", "A new job takes the node over from job j"},
		"the same, asked for":          {func(f *nodeFacts) { f.jobs, f.devices[0].Status.Failure = nil, nil; f.retries("r") }, again, ""},
		"another image is desired, and runs": {func(f *nodeFacts) {
			f.devices[0].Spec.Firmware.Digest = "sha256:other"
			f.devices[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		}, desiredNoMore, ""},
		"another image is desired, and due": {func(f *nodeFacts) { f.devices[0].Spec.Firmware.Digest = "sha256:other" }, "", "takes the node over"},
		"a failure that left no mark on the device": {func(f *nodeFacts) {
			f.devices[0].Status.Failure, f.node.Status.HeldBy, f.jobs[0].Status.Conditions = nil, "", f.jobs[0].Status.Conditions[:1]
		}, "", "tried again: n-nic."},
		"what was restored": {func(f *nodeFacts) {
			f.node.Status.HeldBy, f.jobs, f.devices[0].Status.Failure.Reason = "", nil, v1alpha1.ReasonRestored
		}, "", "Other firmware was restored on n-nic: what is desired there is flashed over it."},
		"nothing": {func(f *nodeFacts) { f.node.Status.HeldBy, f.jobs, f.devices[0].Status.Failure = "", nil, nil }, nothing, ""},
		"a paused policy": {func(f *nodeFacts) { f.policy.Spec.State = v1alpha1.RolloutPaused }, "",
			"It waits while policy gpu is Paused; to go on there: kubectl firmware resume policy/gpu."},
		"a silent daemon": {func(f *nodeFacts) {
			f.node.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDaemonReady, Status: metav1.ConditionFalse}}
		}, "", "Its daemon does not report, so nothing happens before it does."},
		"a failed image that is quarantined": {func(f *nodeFacts) {
			f.node.Status.HeldBy, f.jobs = "", nil
			d := f.devices[0].Spec.Firmware.Digest
			f.bad = quarantine.Compute(quarantine.Facts{Quarantines: []v1alpha1.FirmwareQuarantine{{ObjectMeta: metav1.ObjectMeta{Name: "q"},
				Spec: v1alpha1.FirmwareQuarantineSpec{Digest: d, Model: "15b3:101d", State: v1alpha1.QuarantineConfirmed}}}})
		}, "a retry does nothing on node/n while its image is quarantined", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := heldNode()
			c.change(f)
			before := f.node.DeepCopy()
			one, err := f.retry(by)
			assert.Equal(t, before, f.node, "only the copy is changed")
			if c.refusal != "" {
				require.ErrorContains(t, err, c.refusal)
				return
			}
			require.NoError(t, err)
			assert.Contains(t, one.will, c.will)
			assert.Equal(t, "2026-11-26T09:30:00Z anna", one.changed.(*v1alpha1.NodeFirmware).Spec.Requests.Retry)
		})
	}
}

// What the daemon would refuse on a held node is refused before.
func TestARestoreEndsAHoldOnlyWithAllThatItIsAbout(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(f *nodeFacts)
		refusal string
	}{
		"what failed":                {func(*nodeFacts) {}, ""},
		"nobody knows what was done": {func(f *nodeFacts) { f.jobs[0].Status.Conditions[0].Reason = v1alpha1.ReasonJobRejected }, "nobody knows what job j has done"},
		"steps of the host": {func(f *nodeFacts) {
			f.jobs[0].Spec.Task.Type, f.jobs[0].Status.Steps = v1alpha1.JobTypeSteps, []v1alpha1.JobStep{{Name: "reset-bios-settings", State: v1alpha1.StepFailed}}
		}, "for something other than these devices"},
		"another device, written": {func(f *nodeFacts) {
			f.devices = append(f.devices, &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n-x"}})
			f.jobs[0].Status.Steps = append(f.jobs[0].Status.Steps, v1alpha1.JobStep{Name: "flash", Device: "n-x", State: v1alpha1.StepSucceeded, Attempt: 1})
		}, "left device n-x unhealthy or unfinished too"},
		"another device, written and read back": {func(f *nodeFacts) {
			f.devices = append(f.devices, &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n-x"}})
			f.jobs[0].Status.Steps = append(f.jobs[0].Status.Steps, v1alpha1.JobStep{Name: "flash", Device: "n-x", State: v1alpha1.StepSucceeded, Attempt: 1},
				v1alpha1.JobStep{Name: "verify", Device: "n-x", State: v1alpha1.StepSucceeded, Attempt: 1})
		}, ""},
		"another device, left unhealthy": {func(f *nodeFacts) {
			f.devices = append(f.devices, &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n-x"},
				Status: v1alpha1.NodeDeviceStatus{Failure: &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonUnhealthy}}})
		}, "left device n-x unhealthy or unfinished too"},
	} {
		t.Run(name, func(t *testing.T) {
			f := heldNode()
			c.change(f)
			one, err := f.restore(f.devices[:1], v1alpha1.TaskDevice{})
			if c.refusal != "" {
				require.ErrorContains(t, err, c.refusal)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []v1alpha1.TaskDevice{{Name: "n-nic", UniqueID: "u"}}, one.changed.(*v1alpha1.FirmwareJob).Spec.Task.Devices)
		})
	}
}

func TestACancellationIsOfWhatCanBeCancelled(t *testing.T) {
	step := func(name string, state v1alpha1.StepState, part v1alpha1.StepPart) v1alpha1.JobStep {
		attempt := int32(1)
		if state == v1alpha1.StepPending {
			attempt = 0
		}
		return v1alpha1.JobStep{Name: name, Device: "n-nic", State: state, Part: part, Attempt: attempt}
	}
	archives := []v1alpha1.JobStep{step("archive", v1alpha1.StepRunning, ""), step("flash", v1alpha1.StepPending, "")}
	verifies := []v1alpha1.JobStep{step("flash", v1alpha1.StepSucceeded, ""), step("verify", v1alpha1.StepRunning, "")}
	for name, c := range map[string]struct {
		steps           []v1alpha1.JobStep
		admitted        bool
		will, refusal   string
		stops, stopsAll bool
	}{
		"waits":               {nil, false, "nothing was begun", "", false, false},
		"backs up":            {archives[:1], false, "Job j ends, and node n stays in service. It reads only.", "", false, false},
		"has written nothing": {archives, true, "returns node n to service: it has written nothing", "", true, true},
		"has written":         {verifies, true, "holds node n, out of service", "", false, true},
		"rolls back": {append(verifies[:1:1], step("restore", v1alpha1.StepRunning, v1alpha1.PartRollback)), true, "",
			"job/j cannot be cancelled any more: Step restore of n-nic runs and brings back what ran before.", false, false},
		"has failed already": {[]v1alpha1.JobStep{step("verify", v1alpha1.StepFailed, ""), step("restore", v1alpha1.StepPending, v1alpha1.PartRollback)}, true, "",
			"job/j cannot be cancelled any more: it has failed already, and ends by itself.", false, false},
		"a drive has failed, and others erase themselves": {[]v1alpha1.JobStep{step("erase", v1alpha1.StepFailed, ""), step("erase", v1alpha1.StepRunning, "")}, true,
			"holds node n, out of service", "", false, true},
		"returns its node": {append(verifies[:1:1], step("release", v1alpha1.StepRunning, "")), true, "", "cannot be cancelled any more", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := heldNode().jobs[0].DeepCopy()
			j.Status = v1alpha1.FirmwareJobStatus{Steps: c.steps}
			if name == "backs up" {
				j.Spec.Task = v1alpha1.JobTask{Type: v1alpha1.JobTypeBackup}
			}
			if c.admitted {
				j.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue}}
			}
			assert.Equal(t, c.stops, isToStop(j, false))
			assert.Equal(t, c.stopsAll, isToStop(j, true))
			one, err := (&nodeFacts{node: &v1alpha1.NodeFirmware{}, jobs: []v1alpha1.FirmwareJob{*j}}).cancel(j, v1alpha1.JobCancel{})
			if c.refusal != "" {
				require.ErrorContains(t, err, c.refusal)
				return
			}
			require.NoError(t, err)
			assert.Contains(t, one.will, c.will)
			assert.NotNil(t, one.changed.(*v1alpha1.FirmwareJob).Spec.Cancel)
			assert.Nil(t, j.Spec.Cancel)
		})
	}
}

func TestAPinIsForOneDevice(t *testing.T) {
	card := func(name, serial, address string) *v1alpha1.NodeDevice {
		return &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n"},
			Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, SerialNumber: serial, PCIAddress: address}}
	}
	bios := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n-bios"}, Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassBIOS}}
	first, second, third := card("n-a", "S", "0000:3b:00.0"), card("n-b", "S", "0000:3c:00.0"), card("n-c", "T", "0000:3d:00.0")
	f := &nodeFacts{node: heldNode().node, devices: []*v1alpha1.NodeDevice{bios, first, second, third, card("n-d", "", "")}}
	for d, want := range map[*v1alpha1.NodeDevice]v1alpha1.DeviceSelector{
		third: {Class: v1alpha1.ClassNIC, SerialNumbers: []string{"T"}},
		first: {Class: v1alpha1.ClassNIC, PCIAddresses: []string{"0000:3b:00.0"}}, // another one has its serial number
		bios:  {Class: v1alpha1.ClassBIOS, Vendor: v1alpha1.AnyVendor},
	} {
		got, err := f.only(d)
		require.NoError(t, err, d.Name)
		assert.Equal(t, want, got, d.Name)
	}
	_, err := f.only(f.devices[4])
	require.ErrorContains(t, err, "has neither a serial number nor a PCI address of its own. Write the pin yourself: kubectl edit nfw n")
}
