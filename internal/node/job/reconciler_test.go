package job_test

import (
	"context"
	"errors"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/internal/node/job"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const nodeName = "n1"

// daemon is a reconciler on a machine, with the engine run by hand.
type daemon struct {
	*enginetest.Machine
	env       *apitest.Env
	journal   *journal.Journal
	r         *job.Reconciler
	events    *events.FakeRecorder
	refreshes int
	looked    int
	refresh   error
}

func newDaemon(t *testing.T) *daemon {
	d := &daemon{Machine: enginetest.New(t), env: apitest.New(t), events: events.NewFakeRecorder(100)}
	d.restart(d.Dir)
	return d
}

// restart begins with the journal in that directory.
func (d *daemon) restart(dir string) {
	var err error
	d.journal, err = journal.Open(dir)
	require.NoError(d.T, err)
	d.T.Cleanup(func() { _ = d.journal.Close() })
	d.Engine = d.NewEngine(d.journal)
	d.r = &job.Reconciler{
		Client: d.env.Client, Reader: d.env.Client, NodeName: nodeName, Journal: d.journal, Engine: d.Engine, Maintenance: d.Window, Results: d,
		Looked:   &maintenance.Looked{Changed: func() { d.looked++ }},
		Recorder: d.events, Archive: d.Machine.Archive, Host: d.Machine,
	}
}

func (d *daemon) Refresh(context.Context) error { d.refreshes++; return d.refresh }

// create makes a FirmwareJob for the devices and gives it an admission.
func (d *daemon) create(name string, ids ...inventory.Identity) *v1alpha1.FirmwareJob {
	d.T.Helper()
	return d.createWith(name, "", ids...)
}

// createWith makes a job that gives its devices firmware and settings.
func (d *daemon) createWith(name string, settings v1alpha1.Digest, ids ...inventory.Identity) *v1alpha1.FirmwareJob {
	d.T.Helper()
	o := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: nodeName, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, HealthyFor: "0s"},
	}}
	for _, u := range d.Job(name, ids...).Updates {
		o.Spec.Task.Devices = append(o.Spec.Task.Devices, v1alpha1.TaskDevice{
			Name: u.Device, UniqueID: u.UniqueID, FromVersion: u.FromVersion, Version: u.Version, Digest: v1alpha1.Digest(u.Digest), Configuration: settings,
		})
		d.device(u)
	}
	require.NoError(d.T, d.env.Client.Create(d.T.Context(), o))
	return o
}

func (d *daemon) device(u journal.Update) {
	o := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: u.Device}, Spec: v1alpha1.NodeDeviceSpec{NodeName: nodeName}}
	if client.IgnoreAlreadyExists(d.env.Client.Create(d.T.Context(), o)) != nil {
		d.T.Fatal("create device")
	}
	require.NoError(d.T, d.env.Client.Get(d.T.Context(), client.ObjectKeyFromObject(o), o))
	o.Spec.Firmware = &v1alpha1.DesiredFirmware{
		Version: u.Version, Digest: v1alpha1.Digest(u.Digest), Downgrade: v1alpha1.DowngradeForbid, Policy: v1alpha1.PolicyApply,
	}
	settings := v1alpha1.ConfiguredBy(o.Spec.Origin)
	o.Spec.Origin = []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: o.Name, UID: "x", Rule: "r"}}
	if settings != nil {
		o.Spec.Origin = append(o.Spec.Origin, *settings)
	}
	require.NoError(d.T, d.env.Client.Update(d.T.Context(), o))
	apitest.Want(d.T, d.env.Client, o.Name, v1alpha1.DeviceClass(u.Class), *o.Spec.Firmware)
	o.Status.Class, o.Status.UniqueID = v1alpha1.DeviceClass(u.Class), u.UniqueID
	o.Status.Firmware = &v1alpha1.ObservedFirmware{Running: u.FromVersion, Driver: "sim", VersionFormat: v1alpha1.VersionFormatDotted}
	require.NoError(d.T, d.env.Client.Status().Update(d.T.Context(), o))
}

func (d *daemon) admit(name string) {
	d.T.Helper()
	o := d.get(name)
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted})
	require.NoError(d.T, d.env.Client.Status().Update(d.T.Context(), o, client.FieldOwner(v1alpha1.FieldOwnerOperator)))
}

func (d *daemon) get(name string) *v1alpha1.FirmwareJob {
	d.T.Helper()
	o := &v1alpha1.FirmwareJob{}
	require.NoError(d.T, d.env.Client.Get(d.T.Context(), client.ObjectKey{Name: name}, o))
	o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("FirmwareJob"))
	return o
}

func (d *daemon) reconcile(name string) error {
	_, err := d.r.Reconcile(d.T.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	return err
}

// work runs what the journal holds, through reboots, to its end.
func (d *daemon) work() {
	for range 5 {
		view, err := d.journal.View()
		require.NoError(d.T, err)
		active := view.Active()
		if active == nil || active.Record.Outcome != "" {
			return
		}
		ctx, cancel := context.WithCancel(d.T.Context())
		d.Stop = cancel
		_, _ = d.Engine.Execute(ctx, *active)
		cancel()
		if d.RebootWanted {
			d.RebootWanted = false
			d.Boot++
			d.Sim.Reboot()
		}
	}
}

func condition(o *v1alpha1.FirmwareJob, kind string) *metav1.Condition {
	return meta.FindStatusCondition(o.Status.Conditions, kind)
}

func TestJobRunsOnlyWhenAdmittedAndIsReportedToTheEnd(t *testing.T) {
	d := newDaemon(t)
	o := d.create("j", d.Add(inventory.NIC, "nic0", inventory.ActivateDeviceReset), d.Add(inventory.BIOS, "bios", inventory.ActivateReboot))
	require.NoError(t, d.reconcile("j"))
	d.work()
	assert.Empty(t, d.Sim.Operations(), "not admitted")
	assert.Equal(t, v1alpha1.ReasonPending, condition(d.get("j"), v1alpha1.ConditionReady).Reason)
	apitest.RequireStatus(t, d.get("j"), kstatus.InProgressStatus)

	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	got := d.get("j")
	assert.Len(t, got.Status.Steps, 13, "all steps are listed before the first one runs")
	assert.NotNil(t, condition(got, v1alpha1.ConditionAdmitted), "the operator's condition stays")
	apitest.RequireStatus(t, got, kstatus.InProgressStatus)

	d.work()
	require.NoError(t, d.reconcile("j"))
	got = d.get("j")
	assert.NotNil(t, got.Status.CompletionTime)
	assert.EqualValues(t, 1, got.Status.Reboots)
	assert.Equal(t, v1alpha1.ReasonReleased, condition(got, v1alpha1.ConditionMaintenanceReady).Reason)
	assert.Nil(t, condition(got, v1alpha1.ConditionReconciling))
	assert.True(t, meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionComplete))
	assert.Positive(t, d.refreshes, "R000-12: results are published first")
	apitest.RequireStatus(t, got, kstatus.CurrentStatus)

	before := got.ResourceVersion
	require.NoError(t, d.reconcile("j"))
	assert.Equal(t, before, d.get("j").ResourceVersion, "nothing more to say, nothing written")
	view, err := d.journal.View()
	require.NoError(t, err)
	assert.True(t, view.Job(string(o.UID)).Reported)
	assert.Contains(t, <-d.events.Events, v1alpha1.ReasonSucceeded)
}

// What a job is and how far it is can be asked after a restart of the daemon: of the API server, which says the same as before, and of
// the journal. A job that had begun goes on from there.
func TestRestartRemembersJobs(t *testing.T) { // R000-61
	d := newDaemon(t)
	d.create("done", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	d.admit("done")
	require.NoError(t, d.reconcile("done"))
	d.work()
	require.NoError(t, d.reconcile("done"))
	begun := d.create("begun", d.Add(inventory.Disk, "disk1", inventory.ActivateNone))
	d.admit("begun")
	require.NoError(t, d.reconcile("begun"))
	d.create("waits", d.Add(inventory.Disk, "disk2", inventory.ActivateNone))
	require.NoError(t, d.reconcile("waits"))
	before := map[string]*v1alpha1.FirmwareJob{}
	for _, name := range []string{"done", "begun", "waits"} {
		before[name] = d.get(name)
	}
	apitest.RequireStatus(t, before["done"], kstatus.CurrentStatus)
	require.NotEmpty(t, before["begun"].Status.Steps)

	require.NoError(t, d.journal.Close())
	d.restart(d.Dir)
	for name, was := range before {
		require.NoError(t, d.reconcile(name))
		assert.Equal(t, was.Spec, d.get(name).Spec, name)
		assert.Equal(t, was.Status, d.get(name).Status, name)
	}
	view, err := d.journal.View()
	require.NoError(t, err)
	assert.Equal(t, step.Complete, view.Job(string(before["done"].UID)).Record.Outcome)
	assert.Equal(t, string(begun.UID), view.Active().UID)
	assert.Equal(t, "disk1", view.Active().Updates[0].UniqueID)

	d.work()
	require.NoError(t, d.reconcile("begun"))
	apitest.RequireStatus(t, d.get("begun"), kstatus.CurrentStatus)
	assert.Equal(t, 1, d.Sim.Count(drivertest.OpWrite, "disk0"), "what was done is not repeated")
}

func TestResultsComeBeforeTheEnd(t *testing.T) {
	d := newDaemon(t)
	d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.work()
	d.refresh = errors.New("API server away")
	require.Error(t, d.reconcile("j"))
	assert.Nil(t, condition(d.get("j"), v1alpha1.ConditionComplete))
	d.refresh = nil
	require.NoError(t, d.reconcile("j"))
	apitest.RequireStatus(t, d.get("j"), kstatus.CurrentStatus)
}

// TestFailedJobHoldsUntilRelease proves R003-25, R003-27.
func TestFailedJobHoldsUntilRelease(t *testing.T) {
	d := newDaemon(t)
	id := d.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	d.Sim.Inject("disk0", drivertest.FailWrite)
	d.create("j", id)
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	got := d.get("j")
	assert.Equal(t, v1alpha1.ReasonWriteFailed, condition(got, v1alpha1.ConditionHeld).Reason)
	assert.NotEmpty(t, d.Window.Failed, "RequestorFailed")
	apitest.RequireStatus(t, got, kstatus.FailedStatus)

	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	node.Spec.Requests.Retry = "release nothing"
	require.NoError(t, d.env.Client.Create(t.Context(), node))
	require.NoError(t, d.reconcile("j"))
	d.work()
	assert.Equal(t, step.MaintenanceReady, d.Window.Phase)

	node.Spec.Requests.Release = "as it is"
	require.NoError(t, d.env.Client.Update(t.Context(), node))
	require.NoError(t, d.env.Client.Delete(t.Context(), got), "the node can be released when the object is gone")
	require.NoError(t, d.reconcile("j"))
	d.work()
	assert.Equal(t, step.MaintenanceNone, d.Window.Phase)
}

// Deleting a job asks to stop it, as spec.cancel does. Its end is reported before it goes.
func TestDeletedJobIsCancelled(t *testing.T) {
	d := newDaemon(t)
	o := d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	o.Finalizers = []string{v1alpha1.JobFinalizer}
	require.NoError(t, d.env.Client.Update(t.Context(), o))
	d.admit("j")
	require.NoError(t, d.env.Client.Delete(t.Context(), o))
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	assert.Empty(t, d.Sim.Operations())
	got := d.get("j")
	failed := condition(got, v1alpha1.ConditionFailed)
	require.NotNil(t, failed)
	assert.Equal(t, v1alpha1.ReasonCancelled, failed.Reason)
	assert.Contains(t, failed.Message, "the FirmwareJob was deleted")
	assert.False(t, got.Held())
	apitest.RequireStatus(t, got, kstatus.TerminatingStatus)
}

// The operator deletes a queued job that is no longer what is due. That must not keep the devices of the job from being updated
// by the next one, as the cancellation by a person does.
func TestADeletedJobThatWasNeverAdmittedLeavesNoTrace(t *testing.T) {
	d := newDaemon(t)
	o := d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	o.Finalizers = []string{v1alpha1.JobFinalizer}
	require.NoError(t, d.env.Client.Update(t.Context(), o))
	require.NoError(t, d.env.Client.Delete(t.Context(), o))
	require.NoError(t, d.reconcile("j"))
	require.NoError(t, d.reconcile("j"))
	assert.Nil(t, condition(d.get("j"), v1alpha1.ConditionFailed))
	view, err := d.journal.View()
	require.NoError(t, err)
	assert.Nil(t, view.Job(string(o.UID)))
	assert.Empty(t, view.Devices)
}

// A job whose object is gone goes on, and does not hide that it failed (I7, I10).
func TestJobThatWasDeletedWhileItRanStillTellsThatItHoldsTheNode(t *testing.T) {
	d := newDaemon(t)
	id := d.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	d.Sim.Inject("disk0", drivertest.FailWrite)
	o := d.create("j", id)
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	require.NoError(t, d.env.Client.Delete(t.Context(), o))
	d.work()
	refreshes := d.refreshes
	require.NoError(t, d.reconcile("j"))
	assert.Contains(t, d.Window.Failed, "refused the image", "the maintenance says that its requestor failed")
	assert.Greater(t, d.refreshes, refreshes)
	refreshes = d.refreshes
	require.NoError(t, d.reconcile("j"))
	assert.Equal(t, refreshes, d.refreshes, "once")
}

func TestReleasedJobSaysSo(t *testing.T) {
	d := newDaemon(t)
	id := d.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	d.Sim.Inject("disk0", drivertest.FailWrite)
	d.create("j", id)
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	node.Spec.Requests.Release = "as it is"
	require.NoError(t, d.env.Client.Create(t.Context(), node))
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	got := d.get("j")
	assert.Nil(t, condition(got, v1alpha1.ConditionHeld))
	assert.Equal(t, v1alpha1.ReasonReleased, condition(got, v1alpha1.ConditionStalled).Reason)
	assert.True(t, meta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.ConditionFailed))
	apitest.RequireStatus(t, got, kstatus.FailedStatus)
}

// A person who asked for the node must see what its return waits for, and not be told to ask again.
func TestJobOfReleasingNodeSaysSo(t *testing.T) {
	d := newDaemon(t)
	id := d.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	d.Sim.Inject("disk0", drivertest.FailWrite)
	d.create("j", id)
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	ended := d.get("j").Status.CompletionTime
	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	node.Spec.Requests.Release = "as it is"
	require.NoError(t, d.env.Client.Create(t.Context(), node))
	require.NoError(t, d.reconcile("j"))
	got := d.get("j")
	assert.Contains(t, condition(got, v1alpha1.ConditionReady).Message, "Step release runs.")
	assert.NotContains(t, condition(got, v1alpha1.ConditionHeld).Message, "kubectl")
	assert.True(t, got.Held(), "it counts until the node is back")
	assert.Equal(t, ended, got.Status.CompletionTime)
	apitest.RequireStatus(t, got, kstatus.InProgressStatus)
}

func TestNewerAdmittedJobTakesOver(t *testing.T) {
	d := newDaemon(t)
	id := d.Add(inventory.Disk, "disk0", inventory.ActivateNone)
	d.Sim.Inject("disk0", drivertest.FailWrite)
	d.create("first", id)
	d.admit("first")
	require.NoError(t, d.reconcile("first"))
	d.work()
	require.NoError(t, d.reconcile("first"))
	d.Sim.Clear("disk0")
	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	node.Spec.Requests.Retry = "after reseating"
	require.NoError(t, d.env.Client.Create(t.Context(), node))
	d.create("second", id)
	d.admit("second")
	require.NoError(t, d.reconcile("second"))
	require.NoError(t, d.reconcile("first"))
	assert.Nil(t, condition(d.get("first"), v1alpha1.ConditionHeld))
	d.work()
	require.NoError(t, d.reconcile("second"))
	apitest.RequireStatus(t, d.get("second"), kstatus.CurrentStatus)
	apitest.RequireStatus(t, d.get("first"), kstatus.FailedStatus)
}

func TestCancelledEarlyNeverRuns(t *testing.T) {
	d := newDaemon(t)
	o := d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	o.Spec.Cancel = &v1alpha1.JobCancel{}
	require.NoError(t, d.env.Client.Update(t.Context(), o))
	require.NoError(t, d.reconcile("j"))
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.work()
	got := d.get("j")
	assert.Equal(t, v1alpha1.ReasonCancelled, condition(got, v1alpha1.ConditionFailed).Reason)
	assert.Contains(t, condition(got, v1alpha1.ConditionFailed).Message, "spec.cancel asks for it")
	assert.Empty(t, d.Sim.Operations())
	apitest.RequireStatus(t, got, kstatus.FailedStatus)
}

// TestLeavesOtherNodesJobs proves R001-5.
func TestLeavesOtherNodesJobs(t *testing.T) {
	d := newDaemon(t)
	o := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: "n2", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}}}}
	require.NoError(t, d.env.Client.Create(t.Context(), o))
	require.NoError(t, d.reconcile("other"))
	assert.Empty(t, d.get("other").Status.Conditions)
	assert.Zero(t, d.refreshes)
}

// Finished jobs of a daemon that lost its journal are never run again.
func TestFinishedJobIsNotRunAgainWithoutAJournal(t *testing.T) {
	d := newDaemon(t)
	d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	d.admit("j")
	o := d.get("j")
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNodeGone})
	require.NoError(t, d.env.Client.Status().Update(t.Context(), o))
	require.NoError(t, d.reconcile("j"))
	d.work()
	assert.Empty(t, d.Sim.Operations())
}

func TestFollowsJobsByWatch(t *testing.T) {
	d := newDaemon(t)
	mgr, err := ctrl.NewManager(d.env.Config, ctrl.Options{Scheme: d.env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	require.NoError(t, err)
	d.r.Client = mgr.GetClient()
	live := engine.New(engine.Config{
		Journal: d.journal, Archive: d.Machine.Archive, Host: d.Machine, Drivers: driver.Set{d.Sim}, Images: d.Machine, Maintenance: d.Window, Writes: d.Machine,
		Rebooter: d.Machine, Health: healthy{}, BootID: func() (string, error) { return "boot-1", nil }, Notify: d.r.Notify,
		Poll: 10 * time.Millisecond,
	})
	d.r.Engine = live
	require.NoError(t, d.r.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- mgr.Start(ctx) }()
	go func() { done <- live.Run(ctx) }()
	d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	d.admit("j")
	require.Eventually(t, func() bool {
		return meta.IsStatusConditionTrue(d.get("j").Status.Conditions, v1alpha1.ConditionComplete)
	}, 2*time.Minute, 50*time.Millisecond)
	apitest.RequireStatus(t, d.get("j"), kstatus.CurrentStatus)

	o := d.create("cancelled", d.Add(inventory.Disk, "disk1", inventory.ActivateNone))
	cancelled := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"cancel": {}}}`))
	require.NoError(t, d.env.Client.Patch(t.Context(), o, cancelled))
	require.Eventually(t, func() bool {
		return meta.IsStatusConditionTrue(d.get("cancelled").Status.Conditions, v1alpha1.ConditionFailed)
	}, 2*time.Minute, 50*time.Millisecond, "the end of a job that never began is reported too")
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

// healthy is a host that always is.
type healthy struct{}

func (healthy) Check(context.Context, health.Baseline, []health.Target) ([]health.Complaint, error) {
	return nil, nil
}

func (healthy) Look(context.Context, health.Baseline, []health.Target) ([]health.Complaint, error) {
	return nil, nil
}

func (healthy) LookAlone(context.Context, health.Baseline, []health.Target) ([]health.Complaint, error) {
	return nil, nil
}

func (healthy) Take(context.Context, []inventory.Device) health.Baseline { return health.Baseline{} }

func (healthy) Before(context.Context) ([]health.Complaint, error) { return nil, nil }
