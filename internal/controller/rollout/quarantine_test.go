package rollout_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/cacheview"
)

const (
	connectX6 = "15b3:101d"
	connectX7 = "15b3:1021"
)

func digest(n int) v1alpha1.Digest { return v1alpha1.Digest(fmt.Sprintf("sha256:%016x%048x", n, 0)) }

// machine creates a node with a network adapter of the model.
func (w *world) machine(node, model string) {
	w.Helper()
	w.nodes(node)
	w.adapter(node, model)
}

func (w *world) adapter(node, model string) {
	w.Helper()
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-nic"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: node}}
	require.NoError(w, w.Create(w.Context(), d))
	d.Status.Class, d.Status.PCIID = v1alpha1.ClassNIC, model
	require.NoError(w, w.Status().Update(w.Context(), d))
}

// flash queues a job that flashes image n to the node's network adapter.
func (w *world) flash(name, node string, n int) {
	w.Helper()
	var nic v1alpha1.NodeDevice
	require.NoError(w, client.IgnoreNotFound(w.Get(w.Context(), client.ObjectKey{Name: node + "-nic"}, &nic)))
	w.create(&v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
			Name: node + "-nic", UniqueID: "nic", Model: nic.Status.PCIID, Version: fmt.Sprint(n), Digest: digest(n),
		}}},
	}})
}

func (w *world) steps(name, node string) {
	w.Helper()
	w.create(&v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}},
	}})
}

// rolledBack ends a job that blames its image and brought the old one back: its node is well and gives its place back.
func (w *world) rolledBack(job string) {
	w.Helper()
	u := w.job(job).Spec.Task.Devices[0]
	w.report(job, map[string]bool{v1alpha1.ConditionReady: false, v1alpha1.ConditionFailed: true, v1alpha1.ConditionRolledBack: true},
		v1alpha1.BlamedDevice{Device: u.Name, Message: "no link"})
}

func (w *world) rollingBack(job string) {
	w.Helper()
	u := w.job(job).Spec.Task.Devices[0]
	w.report(job, map[string]bool{v1alpha1.ConditionReady: false, v1alpha1.ConditionRolledBack: false},
		v1alpha1.BlamedDevice{Device: u.Name})
}

// holding creates a source that holds the images of these numbers.
func (w *world) holding(name string, images ...int) {
	w.Helper()
	src := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
		URL: "https://example.com/fw.bin", Digest: digest(1),
		Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Version: "1"}},
	}}}}
	require.NoError(w, w.Create(w.Context(), src))
	for _, n := range images {
		src.Status.Images = append(src.Status.Images, v1alpha1.StoredImage{Version: fmt.Sprint(n), Class: v1alpha1.ClassNIC, Digest: digest(n)})
	}
	require.NoError(w, w.Status().Update(w.Context(), src))
}

// lift has a person lift every quarantine.
func (w *world) lift() {
	w.Helper()
	for _, q := range w.quarantines() {
		for _, state := range []v1alpha1.QuarantineState{v1alpha1.QuarantineActive, v1alpha1.QuarantineLifted} {
			before := q.DeepCopy()
			q.Spec.State = state
			require.NoError(w, w.Patch(w.Context(), &q, client.MergeFrom(before)))
		}
	}
}

func (w *world) quarantines() []v1alpha1.FirmwareQuarantine {
	w.Helper()
	var list v1alpha1.FirmwareQuarantineList
	require.NoError(w, w.List(w.Context(), &list))
	return list.Items
}

// remember writes the quarantines, as their own reconciler does some time later.
func (w *world) remember() {
	w.Helper()
	for range 2 { // the creation starts another pass
		r := quarantine.New(cacheview.Client{Client: blaming{w.Client}}, events.NewFakeRecorder(100), func() time.Time { return w.clock })
		_, err := r.Reconcile(w.Context(), ctrl.Request{})
		require.NoError(w, err)
	}
}

// blaming lists the jobs that blame devices. The API server cannot select them, as the operator's cache does.
type blaming struct{ client.Client }

func (c blaming) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	jobs, is := list.(*v1alpha1.FirmwareJobList)
	if !is {
		return c.Client.List(ctx, list, opts...)
	}
	err := c.Client.List(ctx, jobs)
	jobs.Items = slices.DeleteFunc(jobs.Items, func(j v1alpha1.FirmwareJob) bool { return len(index.ByBlamed(&j)) == 0 })
	return err
}

// I5: the place that a failed job gives back goes to no other node with that image, though nobody has written the
// quarantine down yet.
func TestAPlaceThatABadImageFreesGoesToNoOtherNodeWithIt(t *testing.T) {
	w := newWorld(t)
	w.holding("cx6", 2)
	for _, n := range []string{"n1", "n2", "n3"} {
		w.machine(n, connectX6)
		w.flash("job-"+n, n, 2)
	}
	o := w.operator()
	o.pass()
	require.Equal(t, []string{"job-n1"}, w.ledger("default"))
	w.rollingBack("job-n1")
	o.pass()
	assert.Equal(t, v1alpha1.ReasonQuarantined, w.reason("job-n2"), "it says so while the rollback still runs")
	w.clock = w.clock.Add(time.Minute)
	w.rolledBack("job-n1")
	o.pass()
	w.operator().pass()
	assert.Empty(t, w.ledger("default"), "the place is free and stays so")
	for _, j := range []string{"job-n2", "job-n3"} {
		assert.Equal(t, v1alpha1.ReasonQuarantined, w.reason(j))
	}
	assert.Equal(t, []string{"job-n1"}, w.admitted())
	message := meta.FindStatusCondition(w.job("job-n2").Status.Conditions, v1alpha1.ConditionAdmitted).Message
	for _, want := range []string{"job-n1", "n1", connectX6, "n2-nic", "kubectl patch fwq 0000000000000002.15b3.101d"} {
		assert.Contains(t, message, want)
	}

	w.machine("n4", connectX7)
	w.flash("job-n4", "n4", 2)
	o.pass()
	assert.Equal(t, []string{"job-n4"}, w.ledger("default"), "another model is not concerned")
	w.complete("job-n4")
	w.remember()
	require.NoError(t, w.Delete(t.Context(), w.job("job-n1")))
	o.pass()
	assert.Empty(t, w.ledger("default"), "the quarantine stays when the job is gone")
	w.nodes("n5")
	w.flash("job-n5", "n5", 2)
	o.pass()
	assert.Equal(t, v1alpha1.ReasonQuarantined, w.reason("job-n5"), "an unknown device may be of that model")

	w.clock = w.clock.Add(time.Minute)
	w.lift()
	o.pass()
	assert.Equal(t, []string{"job-n2"}, w.ledger("default"), "a lift lets them go on, within the budget")
	assert.Equal(t, v1alpha1.ReasonBudgetExhausted, w.reason("job-n3"))
	w.requireStatus(o, "default", status.InProgressStatus)
}

// A ledger was written and the process died before it wrote the condition of the job; meanwhile the image turned out bad elsewhere.
func TestAJobWithAPlaceIsNotAdmittedWhenItsImageTurnsOutBad(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(2), nil))
	w.machine("n1", connectX6)
	w.flash("job-n1", "n1", 2)
	o := w.operator()
	o.pass()
	w.machine("n2", connectX6)
	w.flash("job-n2", "n2", 2)
	dying := w.operator()
	dying.view.dies = true
	_, err := dying.Reconcile(t.Context(), ctrl.Request{})
	require.ErrorIs(t, err, errCrash)
	require.Equal(t, []string{"job-n1", "job-n2"}, w.ledger("default"))
	w.rolledBack("job-n1")
	o.pass()
	assert.Equal(t, []string{"job-n1"}, w.admitted())
	assert.Equal(t, v1alpha1.ReasonQuarantined, w.reason("job-n2"))
	w.delete("job-n2") // as the planner does
	o.pass()
	assert.Empty(t, w.ledger("default"))
	w.requireStatus(o, "default", status.CurrentStatus)
}

// The failed job is deleted at once, and with force, and no quarantine lists it yet.
func TestADeletedJobsReportIsKept(t *testing.T) {
	w := newWorld(t)
	w.holding("cx6", 2)
	w.machine("n1", connectX6)
	w.machine("n2", connectX6)
	w.flash("job-n1", "n1", 2)
	w.flash("job-n2", "n2", 2)
	o := w.operator()
	o.pass()
	w.rolledBack("job-n1")
	o.pass()
	w.delete("job-n1")
	require.Equal(t, []string{"job-n1"}, w.admitted(), "it stays until a quarantine lists it")
	w.takeFinalizer("job-n1")
	o.pass()
	assert.Equal(t, v1alpha1.ReasonQuarantined, w.reason("job-n2"))
	assert.Empty(t, w.admitted())
}

func (w *world) retry(node string) {
	w.Helper()
	f := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(f), f); err != nil {
		require.NoError(w, w.Create(w.Context(), f))
	}
	f.Spec.Requests.Retry += "again "
	require.NoError(w, w.Update(w.Context(), f))
}

func (w *world) unhealthy(device, job string) {
	w.Helper()
	d := &v1alpha1.NodeDevice{}
	require.NoError(w, w.Get(w.Context(), types.NamespacedName{Name: device}, d))
	d.Status.Failure = &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonUnhealthy, Time: metav1.NewTime(w.clock), Job: job}
	require.NoError(w, w.Status().Update(w.Context(), d))
}

func TestAJobThatSeveralUnhealthyDevicesKeepWaitingIsWrittenOnce(t *testing.T) {
	w := newWorld(t)
	w.nodes("n")
	w.queue("job", "n")
	o := w.operator()
	o.pass()
	w.hold("job")
	for _, name := range []string{"a", "b", "c"} {
		d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n"}}
		require.NoError(t, w.Create(t.Context(), d))
		d.Status.Failure = &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonUnhealthy, Time: metav1.NewTime(w.clock), Job: "job"}
		require.NoError(t, w.Status().Update(t.Context(), d))
	}
	w.queue("next", "n")
	o.pass()
	assert.Contains(t, w.message("next"), "device a ")
	w.requireStatus(o, "default", status.FailedStatus)
}

// R002-12, R002-53, R003-33: on a node that needs a person an update waits until a person asks to retry, and steps may run.
func TestAnUnhealthyDeviceIsNotUpdatedUntilARetryIsRequested(t *testing.T) {
	w := newWorld(t)
	w.machine("n1", connectX6)
	w.flash("job-1", "n1", 2)
	o := w.operator()
	o.pass()
	w.hold("job-1")
	w.unhealthy("n1-nic", "job-1")
	w.clock = w.clock.Add(time.Second)
	w.flash("job-2", "n1", 3)
	w.queue("job-3", "n1") // of another device: it would return the node to service
	o.pass()
	assert.Equal(t, []string{"job-1"}, w.ledger("default"))
	assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, w.reason("job-2"))
	assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, w.reason("job-3"))
	w.steps("repair", "n1")
	o.pass()
	assert.Equal(t, []string{"repair"}, w.ledger("default"), "steps take the held node over")
	w.complete("repair")
	w.report("job-1", map[string]bool{v1alpha1.ConditionReady: false, v1alpha1.ConditionFailed: true}) // released
	o.pass()
	assert.Equal(t, []string{"job-3"}, w.ledger("default"), "once the node is not held, its other devices go on")
	w.complete("job-3")
	o.pass()
	assert.Equal(t, v1alpha1.ReasonDeviceUnhealthy, w.reason("job-2"))
	w.retry("n1") // in the second of the failure, which is as exact as the API is
	o.pass()
	assert.Equal(t, []string{"job-2"}, w.ledger("default"))
	w.requireStatus(o, "default", status.InProgressStatus)
}

// R003-22, R003-45: steps run on a node that was looked at, one job per node, within the budget.
func TestStepsAreAdmittedLikeUpdatesOnANodeThatWasScanned(t *testing.T) {
	w := newWorld(t)
	w.nodes("n1", "n2")
	w.steps("steps-1", "n1")
	o := w.operator()
	o.pass()
	assert.Equal(t, v1alpha1.ReasonNodeNotReady, w.reason("steps-1"))
	assert.Contains(t, meta.FindStatusCondition(w.job("steps-1").Status.Conditions, v1alpha1.ConditionAdmitted).Message, "scan")
	for _, n := range []string{"n1", "n2"} {
		f := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: n}}
		require.NoError(t, w.Create(t.Context(), f))
		at := metav1.NewTime(w.clock)
		f.Status.LastScanTime = &at
		require.NoError(t, w.Status().Update(t.Context(), f))
	}
	w.steps("steps-2", "n2")
	o.pass()
	assert.Equal(t, []string{"steps-1"}, w.ledger("default"))
	assert.Equal(t, v1alpha1.ReasonBudgetExhausted, w.reason("steps-2"))
	w.queue("job-1", "n1")
	o.pass()
	assert.Equal(t, v1alpha1.ReasonNodeBusy, w.reason("job-1"))
	w.complete("steps-1")
	o.pass()
	assert.Len(t, w.ledger("default"), 1)
	w.requireStatus(o, "default", status.InProgressStatus)
}

// I3, I5: budgets and quarantines hold whatever happens, in whatever order.
func TestBudgetAndQuarantineHoldUnderRandomEvents(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { newChaos(t, seed).run(40) })
	}
}

// chaos is a world in which things happen at random.
type chaos struct {
	*world
	random  *rand.Rand
	o       *operator
	budget  int
	created int
	// failed is when an image last failed on a model, lifted when all were lifted, by the clock of the world.
	failed  map[string]time.Time
	lifted  time.Time
	running map[string]bool
}

func newChaos(t *testing.T, seed uint64) *chaos {
	w := newWorld(t)
	c := &chaos{world: w, random: rand.New(rand.NewPCG(seed, 7)), failed: map[string]time.Time{}, running: map[string]bool{}}
	c.budget = 1 + c.random.IntN(2)
	w.create(newPolicy("default", intstr.FromInt32(int32(c.budget)), nil))
	w.holding("all", 1, 2, 3)
	for i := range 6 {
		w.machine(fmt.Sprintf("n%d", i), []string{connectX6, connectX7}[i%2])
	}
	c.o = w.operator()
	return c
}

func (c *chaos) run(events int) {
	for range events {
		c.clock = c.clock.Add(time.Second)
		c.event()
		c.o.pass()
		c.check()
	}
	c.o.pass()
	before := c.versions()
	c.operator().pass()
	require.Equal(c, before, c.versions(), "a pass at rest writes")
}

func (c *chaos) event() {
	switch c.random.IntN(9) {
	case 0, 1, 2:
		n := fmt.Sprintf("n%d", c.random.IntN(6))
		c.created++
		c.flash(fmt.Sprintf("job-%02d", c.created), n, 1+c.random.IntN(3))
	case 3:
		c.end(func(job, _ string) { c.complete(job) })
	case 4, 5:
		c.end(func(job, model string) {
			c.failed[c.image(job)+" "+model] = c.clock
			if c.random.IntN(2) == 0 {
				c.rollingBack(job)
				c.o.pass()
			}
			c.rolledBack(job)
		})
	case 6:
		c.remember()
		var jobs v1alpha1.FirmwareJobList
		require.NoError(c, c.List(c.Context(), &jobs))
		for _, j := range jobs.Items {
			if meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionFailed) {
				require.NoError(c, c.Delete(c.Context(), &j))
			}
		}
	case 7:
		c.o = c.operator() // a new leader
	case 8:
		if c.random.IntN(3) == 0 {
			c.lifted = c.clock
			c.remember()
			c.lift()
		}
	}
}

// end picks a job that runs.
func (c *chaos) end(how func(job, model string)) {
	if jobs := slices.Sorted(maps.Keys(c.running)); len(jobs) > 0 {
		job := jobs[c.random.IntN(len(jobs))]
		how(job, c.model(job))
	}
}

func (c *chaos) image(job string) string { return c.job(job).Spec.Task.Devices[0].Version }

func (c *chaos) model(job string) string {
	return []string{connectX6, connectX7}[int(c.job(job).Spec.NodeName[1]-'0')%2]
}

func (c *chaos) check() {
	running := map[string]bool{}
	for _, name := range c.admitted() {
		if meta.IsStatusConditionTrue(c.job(name).Status.Conditions, v1alpha1.ConditionFailed) {
			continue
		}
		running[name] = true
		if !c.running[name] {
			at, did := c.failed[c.image(name)+" "+c.model(name)]
			require.False(c, did && at.After(c.lifted), "%s is admitted with image %s, which failed on %s", name, c.image(name), c.model(name))
		}
	}
	require.LessOrEqual(c, len(running), c.budget)
	c.running = running
}
