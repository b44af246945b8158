package v1alpha1_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// TestStepsJobValidation: a job runs updates or steps, never both, and is never edited to run others.
func TestStepsJobValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareJob]
	const (
		immutable       = "task is immutable; create a new job"
		stepsMessage    = "a job of type Steps lists its steps; any other type has none"
		expectedMessage = "expect is required for the step verify-inventory and not allowed for any other"
	)
	step := func(change func(*v1alpha1.RequestedStep)) func(*v1alpha1.FirmwareJob) {
		return func(o *v1alpha1.FirmwareJob) { change(&o.Spec.Task.Steps[0]) }
	}
	expected := func(change func(*v1alpha1.ExpectedDevices)) func(*v1alpha1.FirmwareJob) {
		return step(func(s *v1alpha1.RequestedStep) { change(&s.Expect[0]) })
	}
	driverStep := func(change func(*v1alpha1.RequestedStep)) func(*v1alpha1.FirmwareJob) {
		return step(func(s *v1alpha1.RequestedStep) {
			*s = v1alpha1.RequestedStep{Name: "scrub"}
			change(s)
		})
	}
	eraseStep := func(change func(*v1alpha1.RequestedStep)) func(*v1alpha1.FirmwareJob) {
		return step(func(s *v1alpha1.RequestedStep) {
			*s = v1alpha1.RequestedStep{Name: "erase", Device: "n1-disk", Arguments: []v1alpha1.StepArgument{{Name: "serialNumber", Value: "S1"}}}
			change(s)
		})
	}
	argument := func(name, value string) []v1alpha1.StepArgument {
		return []v1alpha1.StepArgument{{Name: name, Value: value}}
	}
	repeat := func(n int) func(*v1alpha1.FirmwareJob) {
		return func(o *v1alpha1.FirmwareJob) {
			for len(o.Spec.Task.Steps) < n {
				o.Spec.Task.Steps = append(o.Spec.Task.Steps, o.Spec.Task.Steps[1])
			}
		}
	}
	t.Run("create", func(t *testing.T) {
		checkCreate(t, validStepsJob, []change{
			{name: "two steps", change: func(*v1alpha1.FirmwareJob) {}},
			{name: "those of a cleaning policy", change: func(o *v1alpha1.FirmwareJob) {
				o.Spec.Task.CleaningPolicyRef = &v1alpha1.CleaningPolicyReference{Name: "storage"}
			}},
			{name: "no steps", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Steps = nil }, field: "spec.task.steps", message: stepsMessage},
			{name: "steps and updates", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Devices = validJob().Spec.Task.Devices },
				field: "spec.task.devices", message: "a job of type Update or Restore lists its devices, one of type Backup may, and one of type Steps has none"},
			{name: "128 steps", change: repeat(128)},
			{name: "129 steps", change: repeat(129), field: "spec.task.steps", message: "at most 128 items"},
			{name: "a step without a name", change: step(func(s *v1alpha1.RequestedStep) { s.Name = "" }),
				field: "spec.task.steps[0].name", message: "Required"},
			{name: "a step's name that is no label", change: step(func(s *v1alpha1.RequestedStep) { s.Name = "Verify" }),
				field: "spec.task.steps[0].name", message: "should match"},
			{name: "an inventory compared with nothing", change: step(func(s *v1alpha1.RequestedStep) { s.Expect = nil }),
				field: "spec.task.steps[0].expect", message: expectedMessage},
			{name: "another step with an inventory", change: step(func(s *v1alpha1.RequestedStep) { s.Name = "verify-firmware" }),
				field: "spec.task.steps[0].expect", message: expectedMessage},
			{name: "expected devices of no class", change: expected(func(d *v1alpha1.ExpectedDevices) { d.Selector.Class = "" }),
				field: "spec.task.steps[0].expect[0].selector.class", message: "Required"},
			{name: "no number of devices", change: expected(func(d *v1alpha1.ExpectedDevices) { d.Count = nil }),
				field: "spec.task.steps[0].expect[0].count", message: "Required"},
			{name: "no device of a kind", change: expected(func(d *v1alpha1.ExpectedDevices) { d.Count = new(int32(0)) })},
			{name: "arguments of a step that takes none", change: step(func(s *v1alpha1.RequestedStep) { s.Arguments = argument("serialNumber", "X") }),
				field: "spec.task.steps[0].arguments", message: "this step takes no arguments"},
			{name: "arguments of a step of a driver", change: driverStep(func(s *v1alpha1.RequestedStep) { s.Arguments = argument("level-2", "full") })},
			{name: "an argument's name that is none", change: driverStep(func(s *v1alpha1.RequestedStep) { s.Arguments = argument("Level", "full") }),
				field: "spec.task.steps[0].arguments[0].name", message: "should match"},
			{name: "an argument without a value", change: driverStep(func(s *v1alpha1.RequestedStep) { s.Arguments = argument("level", "") }),
				field: "spec.task.steps[0].arguments[0].value", message: "Required"},
			{name: "an argument twice", change: driverStep(func(s *v1alpha1.RequestedStep) {
				s.Arguments = append(argument("level", "full"), argument("level", "none")...)
			}), field: "spec.task.steps[0].arguments[1]", message: "Duplicate"},
			{name: "an erase of a named drive", change: eraseStep(func(*v1alpha1.RequestedStep) {})},
			{name: "an erase by a method", change: eraseStep(func(s *v1alpha1.RequestedStep) { s.Arguments = append(s.Arguments, argument("method", "Block")...) })},
			{name: "an erase of any drive", change: eraseStep(func(s *v1alpha1.RequestedStep) { s.Device = "" }),
				field: "spec.task.steps[0].device", message: "erase is only for a device that the step names"},
			{name: "an erase without a serial number", change: eraseStep(func(s *v1alpha1.RequestedStep) { s.Arguments = argument("method", "Block") }),
				field: "spec.task.steps[0].arguments", message: "erase needs the argument serialNumber"},
			{name: "an erase without arguments", change: eraseStep(func(s *v1alpha1.RequestedStep) { s.Arguments = nil }),
				field: "spec.task.steps[0].arguments", message: "erase needs the argument serialNumber"},
			{name: "an erase by another method", change: eraseStep(func(s *v1alpha1.RequestedStep) { s.Arguments = append(s.Arguments, argument("method", "Format")...) }),
				field: "spec.task.steps[0].arguments", message: "Crypto, Block or Overwrite"},
			{name: "an erase with another argument", change: eraseStep(func(s *v1alpha1.RequestedStep) { s.Arguments = append(s.Arguments, argument("force", "true")...) }),
				field: "spec.task.steps[0].arguments", message: "erase needs the argument serialNumber, and takes method, which is Crypto, Block or Overwrite"},
			{name: "a deadline", change: step(func(s *v1alpha1.RequestedStep) { s.Deadline = "12h" })},
			{name: "a deadline that is no duration", change: step(func(s *v1alpha1.RequestedStep) { s.Deadline = "soon" }),
				field: "spec.task.steps[0].deadline", message: "such as 12h"},
			{name: "a deadline of more than a week", change: step(func(s *v1alpha1.RequestedStep) { s.Deadline = "169h" }),
				field: "spec.task.steps[0].deadline", message: "such as 12h"},
			{name: "too many devices", change: expected(func(d *v1alpha1.ExpectedDevices) { d.Count = new(int32(257)) }),
				field: "spec.task.steps[0].expect[0].count", message: "less than or equal to 256"},
		})
	})
	t.Run("update", func(t *testing.T) {
		checkUpdate(t, validStepsJob(), []change{
			{name: "one step less", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Steps = o.Spec.Task.Steps[:1] },
				field: "spec.task", message: immutable},
			{name: "no steps any more", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Steps = nil },
				field: "spec.task", message: immutable},
			{name: "a cancellation", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Cancel = &v1alpha1.JobCancel{} }},
		})
	})
}

// TestRetryValidation: the request under which a job was planned is any text, an empty one too, and never changes.
func TestRetryValidation(t *testing.T) {
	retry := func(text string) func(*v1alpha1.FirmwareJob) {
		return func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Request = &text }
	}
	t.Run("planned", func(t *testing.T) {
		checkCreate(t, validJob, []validation[*v1alpha1.FirmwareJob]{
			{name: "none in force", change: retry("")},
			{name: "128 bytes", change: retry(strings.Repeat("x", 128))},
			{name: "129 bytes", change: retry(strings.Repeat("x", 129)), field: "spec.task.request", message: "128 bytes"},
		})
	})
	t.Run("changed", func(t *testing.T) {
		job := validJob()
		retry("first")(job)
		checkUpdate(t, job, []validation[*v1alpha1.FirmwareJob]{
			{name: "another", change: retry("second"), field: "spec.task", message: "task is immutable"},
			{name: "none any more", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Request = nil }, field: "spec.task", message: "task is immutable"},
		})
	})
	t.Run("requested", func(t *testing.T) {
		checkCreate(t, func() *v1alpha1.NodeFirmware {
			return &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}}
		},
			[]validation[*v1alpha1.NodeFirmware]{
				{name: "requests in words", change: func(o *v1alpha1.NodeFirmware) {
					o.Spec.Requests.Retry, o.Spec.Requests.Release = "after reseating", "as it is"
				}},
				{name: "a long retry", change: func(o *v1alpha1.NodeFirmware) { o.Spec.Requests.Retry = strings.Repeat("x", 129) }, field: "spec.requests.retry", message: "128 bytes"},
				{name: "a long release", change: func(o *v1alpha1.NodeFirmware) { o.Spec.Requests.Release = strings.Repeat("x", 129) }, field: "spec.requests.release", message: "128 bytes"},
			})
	})
}

// TestRequireValidation: whether a job may begin that cannot be undone, or on a host that does not protect a write, is decided before
// it is made.
func TestRequireValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareJob]
	require := func(r ...v1alpha1.Requirement) func(*v1alpha1.FirmwareJob) {
		return func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Require = r }
	}
	t.Run("create", func(t *testing.T) {
		checkCreate(t, validJob, []change{
			{name: "both", change: require(v1alpha1.RequireRollback, v1alpha1.RequireWriteProtection)},
			{name: "unknown", change: require("Never"), field: "spec.task.require[0]", message: "supported values"},
			{name: "twice", change: require(v1alpha1.RequireRollback, v1alpha1.RequireRollback), field: "spec.task.require[1]", message: "Duplicate"},
			{name: "an image to fall back to", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Devices[0].RollbackDigest = digest }},
			{name: "half a digest", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Devices[0].RollbackDigest = "sha256:3b1f" },
				field: "spec.task.devices[0].rollbackDigest", message: "should match"},
		})
	})
	t.Run("update", func(t *testing.T) {
		checkUpdate(t, validJob(), []change{
			{name: "another requirement", change: require(v1alpha1.RequireRollback), field: "spec.task", message: "task is immutable"},
			{name: "another image to fall back to", change: func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Devices[0].RollbackDigest = digest },
				field: "spec.task", message: "task is immutable"},
		})
	})
}

// TestGateDurationsValidation: how long a node is watched is decided before the job is made.
func TestGateDurationsValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareJob]
	healthy := func(d v1alpha1.Duration) func(*v1alpha1.FirmwareJob) {
		return func(o *v1alpha1.FirmwareJob) { o.Spec.Task.HealthyFor = d }
	}
	const bounds = "healthyFor must be a duration from 0s to 1h, such as 60s"
	t.Run("create", func(t *testing.T) {
		checkCreate(t, validJob, []change{
			{name: "at once", change: healthy("0s")},
			{name: "an hour", change: healthy("1h")},
			{name: "more than an hour", change: healthy("1h1s"), field: "spec.task.healthyFor", message: bounds},
			{name: "less than nothing", change: healthy("-1s"), field: "spec.task.healthyFor", message: bounds},
		})
	})
	t.Run("update", func(t *testing.T) {
		checkUpdate(t, validJob(), []change{
			{name: "another time", change: healthy("2m"), field: "spec.task", message: "task is immutable"},
			{name: "the default spelled out", change: healthy("60s")},
		})
	})
}

// TestJobStatusValidation: what a daemon reports of health and rollback is bounded.
func TestJobStatusValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareJob]
	verdict := func(change func(*v1alpha1.HealthVerdict)) func(*v1alpha1.FirmwareJob) {
		return func(o *v1alpha1.FirmwareJob) { change(o.Status.Verdict) }
	}
	part := func(p v1alpha1.StepPart) func(*v1alpha1.FirmwareJob) {
		return func(o *v1alpha1.FirmwareJob) {
			o.Status.Steps = []v1alpha1.JobStep{{Name: "flash", State: v1alpha1.StepRunning, Part: p}}
		}
	}
	checkStatus(t, validJob(), func(o *v1alpha1.FirmwareJob) {
		o.Status.Verdict = &v1alpha1.HealthVerdict{
			Result: v1alpha1.HealthResultUnhealthy, BootID: "3f6c0d6e", Complaints: []string{"a link is down"},
		}
		o.Status.Blamed = []v1alpha1.BlamedDevice{{Device: "gpu-017-nic-b83fd2a1c4e0"}}
	}, []change{
		{name: "an unhealthy node", change: func(*v1alpha1.FirmwareJob) {}},
		{name: "a verdict without a result", change: verdict(func(v *v1alpha1.HealthVerdict) { v.Result = "" }),
			field: "status.verdict.result", message: "Required"},
		{name: "an unknown result", change: verdict(func(v *v1alpha1.HealthVerdict) { v.Result = "Fine" }),
			field: "status.verdict.result", message: `supported values: "Healthy", "Unhealthy"`},
		{name: "a verdict of no boot", change: verdict(func(v *v1alpha1.HealthVerdict) { v.BootID = "" }),
			field: "status.verdict.bootID", message: "Required"},
		{name: "33 complaints", change: verdict(func(v *v1alpha1.HealthVerdict) { v.Complaints = versions(33) }),
			field: "status.verdict.complaints", message: "at most 32 items"},
		{name: "one device blamed twice", change: func(o *v1alpha1.FirmwareJob) {
			o.Status.Blamed = append(o.Status.Blamed, o.Status.Blamed[0])
		}, field: "status.blamed[1]", message: "Duplicate value"},
		{name: "a step of the rollback", change: part(v1alpha1.PartRollback)},
		{name: "a step of an unknown part", change: part("Later"),
			field: "status.steps[0].part", message: `supported values: "Update", "Rollback"`},
	})
}

func validStepsJob() *v1alpha1.FirmwareJob {
	return &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-017-inventory"},
		Spec: v1alpha1.FirmwareJobSpec{
			NodeName: "gpu-017", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{
				{Name: "verify-inventory", Expect: []v1alpha1.ExpectedDevices{
					{Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3", Models: []string{"101d"}}, Count: new(int32(2))},
				}},
				{Name: "verify-firmware", Device: "gpu-017-nic-b83fd2a1c4e0"},
			}},
		},
	}
}
