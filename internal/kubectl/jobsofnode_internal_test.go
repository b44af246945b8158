package kubectl

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// anna writes.
var anna = person{name: "anna", now: time.Date(2026, 11, 26, 9, 30, 0, 0, time.UTC)}

func yes(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind}
}

// jobNamed is a job of the node n, made that many minutes after others, with those conditions.
func jobNamed(name string, minutes int, conditions ...metav1.Condition) v1alpha1.FirmwareJob {
	return v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(anna.now.Add(time.Duration(minutes) * time.Minute))},
		Spec:       v1alpha1.FirmwareJobSpec{NodeName: "n", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate}},
		Status:     v1alpha1.FirmwareJobStatus{Conditions: conditions},
	}
}

func begun(j v1alpha1.FirmwareJob) v1alpha1.FirmwareJob {
	j.Status.StartTime = &metav1.Time{Time: anna.now}
	return j
}

// takenOver makes the job that holds the node say that the other one took it over, as its daemon does.
func (f *nodeFacts) takenOver(by string) {
	f.jobs[0].Status.Conditions = status.Job(status.JobFacts{Outcome: step.Failed, Failure: &step.Failure{Reason: step.WriteFailed}, SupersededBy: by}, nil, 1, anna.now)
	f.node.Status.HeldBy = ""
}

// A node has one job at a time. What waits beside it is older or newer, and is not what happens.
func TestTheJobOfANodeIsTheOneThatIsAdmitted(t *testing.T) {
	busy := metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNodeBusy}
	ended, admitted := jobNamed("ended", 0, yes(v1alpha1.ConditionComplete)), jobNamed("admitted", 2, yes(v1alpha1.ConditionAdmitted))
	first, second, urgent, cancelled := jobNamed("first", 1), jobNamed("second", 3), jobNamed("urgent", 4), jobNamed("cancelled", 0)
	urgent.Spec.Priority, cancelled.Spec.Cancel = new(int32(5)), &v1alpha1.JobCancel{}
	backup := jobNamed("backup", 0)
	backup.Spec.Task.Type = v1alpha1.JobTypeBackup
	for want, jobs := range map[string][]v1alpha1.FirmwareJob{
		"":         {ended},
		"admitted": {ended, first, admitted, second, urgent, backup},
		"begun":    {admitted, begun(jobNamed("begun", 9, yes(v1alpha1.ConditionAdmitted)))},
		"backup":   {first, backup, urgent},
		"urgent":   {first, second, urgent},
		"first":    {second, first, cancelled},
		"second":   {jobNamed("behind", 0, busy), second, cancelled},
	} {
		f := &nodeFacts{jobs: jobs}
		got := ""
		if j := f.next(); j != nil {
			got = j.Name
		}
		assert.Equal(t, want, got)
	}
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	first.Status.Conditions, admitted.Status.Steps = []metav1.Condition{busy}, []v1alpha1.JobStep{{Name: "flash", State: v1alpha1.StepRunning}}
	assert.Equal(t, "Step flash runs.", progressOfNode(n, []*v1alpha1.FirmwareJob{&second, &first, &admitted}).says)

	f := heldNode()
	f.node.Status.HeldBy, f.jobs = "", []v1alpha1.FirmwareJob{first, admitted, second}
	_, err := f.release(anna)
	require.ErrorContains(t, err, "job admitted runs, and returns it by itself")
	f.jobs = []v1alpha1.FirmwareJob{backup}
	_, err = f.release(anna)
	require.ErrorContains(t, err, "no failed job keeps it out of service", "a backup returns nothing")
}

// A job that has its node from a failed one holds it again, whether it has written or not, and nothing that it was made for is judged.
func TestAJobThatTookANodeOverLeavesItHeld(t *testing.T) {
	f := heldNode()
	next := begun(jobNamed("k", 1, yes(v1alpha1.ConditionAdmitted)))
	next.Spec.Task.Devices = f.jobs[0].Spec.Task.Devices
	f.jobs = append(f.jobs, next)
	f.takenOver("k")
	k := &f.jobs[1]
	require.True(t, f.tookOver(k))
	one, err := f.cancel(k, v1alpha1.JobCancel{})
	require.NoError(t, err)
	assert.Contains(t, one.will, "Job k ends and holds node n, out of service: it has taken the node over from a failed job")
	_, err = f.release(anna)
	require.ErrorContains(t, err, "job k has taken it over, returns it by itself if it succeeds, and holds it again if it fails or is cancelled")

	t.Run("what it took over is its own to restore", func(t *testing.T) {
		f.devices = append(f.devices, &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n-x"}})
		f.devices[0].Status.Failure = nil
		k.Spec.Task.Devices = append(k.Spec.Task.Devices, v1alpha1.TaskDevice{Name: "n-x"})
		k.Status.Conditions = []metav1.Condition{yes(v1alpha1.ConditionAdmitted), yes(v1alpha1.ConditionFailed), yes(v1alpha1.ConditionHeld)}
		f.node.Status.HeldBy = "k"
		require.ErrorContains(t, f.leavesBehind([]string{"n-nic"}), "left device n-x unhealthy or unfinished too")
		require.NoError(t, f.leavesBehind([]string{"n-nic", "n-x"}))
		devices, err := f.lastWritten()
		require.NoError(t, err)
		assert.Equal(t, []string{"n-nic", "n-x"}, namesOfDevices(devices))
		k.Status.Steps = []v1alpha1.JobStep{{Name: "verify", Device: "n-x", State: v1alpha1.StepSucceeded}}
		require.NoError(t, f.leavesBehind([]string{"n-nic"}), "it was read back")
	})
}

// What the planner made for a hold takes it over when it begins, unless the node was released before.
func TestWhetherAJobTookItsNodeOver(t *testing.T) {
	follower := jobNamed("k", 1, yes(v1alpha1.ConditionAdmitted))
	follower.Spec.Task.Follows = "j"
	released := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReleased}
	for name, c := range map[string]struct {
		change func(f *nodeFacts, k *v1alpha1.FirmwareJob)
		want   bool
		will   string
	}{
		"not begun": {func(*nodeFacts, *v1alpha1.FirmwareJob) {}, false, "Job k ends, and node n stays out of service, held by job j: it has written nothing."},
		"begun, and not told yet": {func(_ *nodeFacts, k *v1alpha1.FirmwareJob) { *k = begun(*k) }, true,
			"Job k ends and holds node n, out of service"},
		"the held one is gone": {func(f *nodeFacts, k *v1alpha1.FirmwareJob) {
			*k = begun(*k)
			f.jobs[0].Name, f.node.Status.HeldBy = "other", ""
		}, true, "Job k ends and holds node n, out of service"},
		"released before": {func(f *nodeFacts, k *v1alpha1.FirmwareJob) {
			*k = begun(*k)
			f.node.Status.HeldBy = ""
			meta.RemoveStatusCondition(&f.jobs[0].Status.Conditions, v1alpha1.ConditionHeld)
			meta.SetStatusCondition(&f.jobs[0].Status.Conditions, released)
		}, false, "returns node n to service: it has written nothing"},
		"of a person, taken over": {func(f *nodeFacts, k *v1alpha1.FirmwareJob) {
			k.Spec.Task.Follows = ""
			f.takenOver("k")
		}, true, "Job k ends and holds node n, out of service"},
		"taken over by another": {func(f *nodeFacts, k *v1alpha1.FirmwareJob) {
			k.Spec.Task.Follows = ""
			f.takenOver("i")
		}, false, "returns node n to service: it has written nothing"},
		"steps beside a hold": {func(_ *nodeFacts, k *v1alpha1.FirmwareJob) {
			*k = begun(*k)
			k.Spec.Task.Type, k.Spec.Task.Follows = v1alpha1.JobTypeSteps, ""
			k.Status.Steps = []v1alpha1.JobStep{{Name: "reset-bios-settings", State: v1alpha1.StepRunning, Attempt: 1}}
		}, false, "Job k ends after its step, and node n stays out of service, held by job j: it has written"},
		"a backup beside a hold": {func(_ *nodeFacts, k *v1alpha1.FirmwareJob) {
			k.Spec.Task.Type, k.Spec.Task.Follows = v1alpha1.JobTypeBackup, ""
		}, false, "Job k ends, and node n stays out of service, held by job j. It reads only."},
	} {
		t.Run(name, func(t *testing.T) {
			f := heldNode()
			f.jobs = append(f.jobs, *follower.DeepCopy())
			k := &f.jobs[1]
			c.change(f, k)
			assert.Equal(t, c.want, f.tookOver(k))
			one, err := f.cancel(k, v1alpha1.JobCancel{})
			require.NoError(t, err)
			assert.Contains(t, one.will, c.will)
		})
	}
}

// What counts as a write is what the daemon counts: a step that changes something, and was begun.
func TestAWriteIsAStepThatChangesSomethingAndWasBegun(t *testing.T) {
	for _, c := range []struct {
		name    string
		state   v1alpha1.StepState
		attempt int32
		want    bool
	}{
		{"flash", v1alpha1.StepRunning, 1, true},
		{"flash", v1alpha1.StepFailed, 1, true},
		{"flash", v1alpha1.StepFailed, 0, false}, // its maintenance was lost before
		{"flash", v1alpha1.StepPending, 0, false},
		{"flash", v1alpha1.StepSkipped, 0, false},
		{"restore", v1alpha1.StepSucceeded, 1, true},
		{"configure", v1alpha1.StepSucceeded, 1, true},
		{"activate", v1alpha1.StepSucceeded, 1, true},
		{"reboot", v1alpha1.StepRunning, 1, true},
		{"reset-bios-settings", v1alpha1.StepRunning, 1, true},
		{"of-a-driver", v1alpha1.StepRunning, 1, true},
		{"preflight", v1alpha1.StepSucceeded, 1, false},
		{"archive", v1alpha1.StepRunning, 1, false},
		{"maintenance", v1alpha1.StepSucceeded, 1, false},
		{"verify", v1alpha1.StepRunning, 1, false},
		{"health", v1alpha1.StepRunning, 1, false},
		{"release", v1alpha1.StepRunning, 1, false},
		{"verify-inventory", v1alpha1.StepRunning, 1, false},
		{"verify-firmware", v1alpha1.StepRunning, 1, false},
	} {
		assert.Equal(t, c.want, hasBegunToWrite(v1alpha1.JobStep{Name: c.name, State: c.state, Attempt: c.attempt}), "%s %s %d", c.name, c.state, c.attempt)
	}
}

// What a restore of a held node must have is what its daemon counts, also where the hold is one of steps that a person requested.
func TestStepsThatAPersonRequestedAreNotRestored(t *testing.T) {
	f := heldNode()
	f.devices[0].Status.Failure = nil
	j := &f.jobs[0]
	j.Spec.Task.Type = v1alpha1.JobTypeSteps
	j.Status.Steps = []v1alpha1.JobStep{{Name: "reset-bios-settings", Device: "n-nic", State: v1alpha1.StepSucceeded, Attempt: 1}}
	require.ErrorContains(t, f.leavesBehind([]string{"n-nic"}), "for something other than these devices")
	j.Status.Steps = append(j.Status.Steps, v1alpha1.JobStep{Name: "of-a-driver", Device: "n-x", State: v1alpha1.StepFailed})
	f.devices = append(f.devices, &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n-x"}})
	require.ErrorContains(t, f.leavesBehind([]string{"n-x"}), "left device n-nic unhealthy or unfinished too", "it was written, and not read back")
	require.NoError(t, f.leavesBehind([]string{"n-nic", "n-x"}))
	j.Spec.Task.Type = v1alpha1.JobTypeUpdate
	require.NoError(t, f.leavesBehind([]string{"n-nic"}), "nothing was begun on the device at which it failed")
}

func TestARollbackIsOfTheLastJobThatUpdated(t *testing.T) {
	f := heldNode()
	f.jobs = nil
	_, err := f.lastWritten()
	require.ErrorContains(t, err, "node/n is held by job j, which is gone, so that it is not known what was written")
	f.node.Status.HeldBy = ""
	_, err = f.lastWritten()
	require.ErrorContains(t, err, "no job that is kept has written to node/n")
	update, steps := jobNamed("update", 1, yes(v1alpha1.ConditionComplete)), jobNamed("steps", 2, yes(v1alpha1.ConditionComplete))
	steps.Spec.Task.Type = v1alpha1.JobTypeSteps
	update.Status.Steps = []v1alpha1.JobStep{{Name: "flash", Device: "n-nic", State: v1alpha1.StepSucceeded, Attempt: 1}}
	steps.Status.Steps = []v1alpha1.JobStep{{Name: "of-a-driver", Device: "n-nic", State: v1alpha1.StepSucceeded, Attempt: 1}}
	f.jobs = []v1alpha1.FirmwareJob{update, steps}
	devices, err := f.lastWritten()
	require.NoError(t, err)
	assert.Equal(t, []string{"n-nic"}, namesOfDevices(devices))
	f.jobs[0].Status.Conditions = []metav1.Condition{yes(v1alpha1.ConditionFailed), yes(v1alpha1.ConditionRolledBack)}
	_, err = f.lastWritten()
	require.ErrorContains(t, err, "job/update has brought back what ran before already")
}

// A job does what is asked for only if it does it to the same devices, and has not been cancelled.
func TestAJobDoesWhatIsAskedForToTheSameDevices(t *testing.T) {
	device := func(name, version string) v1alpha1.TaskDevice {
		return v1alpha1.TaskDevice{Name: name, UniqueID: "u", Version: version}
	}
	task := func(kind v1alpha1.JobType, devices ...v1alpha1.TaskDevice) v1alpha1.JobTask {
		return v1alpha1.JobTask{Type: kind, Devices: devices}
	}
	const restore, backup = v1alpha1.JobTypeRestore, v1alpha1.JobTypeBackup
	for name, c := range map[string]struct {
		is, asked v1alpha1.JobTask
		want      bool
	}{
		"the same":              {task(restore, device("a", "1")), task(restore, device("a", " 1")), true},
		"more":                  {task(restore, device("a", ""), device("b", "")), task(restore, device("b", "")), true},
		"less":                  {task(restore, device("a", "")), task(restore, device("a", ""), device("b", "")), false},
		"another device":        {task(restore, device("a", "")), task(restore, device("b", "")), false},
		"another version":       {task(restore, device("a", "1")), task(restore, device("a", "2")), false},
		"another type":          {task(backup, device("a", "")), task(restore, device("a", "")), false},
		"a backup of all":       {task(backup), task(backup, device("a", "")), true},
		"a backup of some":      {task(backup, device("a", "")), task(backup), false},
		"a backup of all again": {task(backup), task(backup), true},
		"other hardware":        {task(backup, v1alpha1.TaskDevice{Name: "a", UniqueID: "v"}), task(backup, device("a", "")), false},
	} {
		assert.Equal(t, c.want, does(&c.is, &c.asked), name)
	}
	f := heldNode()
	other := jobNamed("other", 1)
	other.Spec.Task = task(restore, device("n-nic", ""))
	f.jobs = append(f.jobs, other)
	_, err := f.restore(f.devices, v1alpha1.TaskDevice{})
	require.ErrorContains(t, err, "job/other does that already")
	one, err := f.restore(f.devices, v1alpha1.TaskDevice{Version: "0"})
	require.NoError(t, err)
	assert.Contains(t, one.will, "It waits for job other.")
	f.jobs[1].Spec.Cancel = &v1alpha1.JobCancel{}
	_, err = f.restore(f.devices, v1alpha1.TaskDevice{})
	require.NoError(t, err, "it is cancelled")
}
