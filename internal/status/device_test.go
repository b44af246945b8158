package status_test

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	nfstatus "github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

var (
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	wanted = inventory.Digest{1}
)

func observed(change ...func(*plan.Facts)) plan.Facts {
	f := plan.Facts{Driver: "mstflint", Running: "22.39.1002", Stored: "22.39.1002", Activation: inventory.ActivateReboot, Format: inventory.FormatDotted}
	for _, c := range change {
		c(&f)
	}
	return f
}

// unhealthy is what is known of a device that a job left so.
func unhealthy() plan.Facts { return observed(func(f *plan.Facts) { f.Unhealthy = true }) }

func want(version inventory.Version, change ...func(*plan.Desired)) plan.Desired {
	d := plan.Desired{Version: version, Digest: wanted}
	for _, c := range change {
		c(&d)
	}
	return d
}

// given is what the daemon knows before it is judged.
type given struct {
	Node, Failure, Unhealthy, Updating string
	Observed                           plan.Facts
	Desired                            plan.Desired
}

func (g given) judged() nfstatus.DeviceFacts {
	return nfstatus.DeviceFacts{
		Node: g.Node, Desired: g.Desired.Version, Observed: g.Observed, Verdict: plan.Decide(g.Desired, g.Observed),
		Failure: g.Failure, Unhealthy: g.Unhealthy, Updating: g.Updating,
	}
}

func TestDeviceConditions(t *testing.T) {
	blocked := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: reason, Message: "Source cx6 is missing; create it."}}
	}
	conflict := []metav1.Condition{{Type: v1alpha1.ConditionConflict, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConflict, Message: "Templates a and b match."}}
	for name, tc := range map[string]struct {
		given     given
		old       []metav1.Condition
		reason    string
		inspected string
		kstatus   status.Status
		says      string
	}{
		"nothing assigned": {
			given:  given{Observed: observed()},
			reason: v1alpha1.ReasonNotAssigned, kstatus: status.CurrentStatus, says: "No template"},
		"listed without a driver": {
			given:  given{Observed: plan.Facts{}},
			reason: v1alpha1.ReasonNotAssigned, inspected: v1alpha1.ReasonNotUpdatable, kstatus: status.CurrentStatus},
		"assigned without a driver": {
			given:  given{Observed: plan.Facts{}, Desired: want("2")},
			reason: v1alpha1.ReasonNotUpdatable, inspected: v1alpha1.ReasonNotUpdatable, kstatus: status.FailedStatus, says: "No driver knows the device"},
		"up to date": {
			given:  given{Observed: observed(), Desired: want("22.39.1002")},
			reason: v1alpha1.ReasonUpToDate, kstatus: status.CurrentStatus, says: "Runs 22.39.1002 as desired."},
		"up to date but something else is staged": {
			given:  given{Observed: observed(func(f *plan.Facts) { f.Stored = "22.1.1" }), Desired: want("22.39.1002")},
			reason: v1alpha1.ReasonUpToDate, kstatus: status.CurrentStatus, says: "22.1.1 is stored and will run"},
		"up to date though the source is gone": {
			given: given{Observed: observed(), Desired: want("22.39.1002")}, old: blocked(v1alpha1.ReasonSourceNotFound),
			reason: v1alpha1.ReasonUpToDate, kstatus: status.CurrentStatus},
		"update due": {
			given:  given{Observed: observed(), Desired: want("22.41.1000")},
			reason: v1alpha1.ReasonPending, kstatus: status.InProgressStatus, says: "Runs 22.39.1002; the update to 22.41.1000 waits"},
		"stored but not running": {
			given:  given{Observed: observed(func(f *plan.Facts) { f.Stored = "22.41.1000" }), Desired: want("22.41.1000")},
			reason: v1alpha1.ReasonPending, kstatus: status.InProgressStatus, says: "(Reboot)"},
		"being updated": {
			given:  given{Observed: observed(func(f *plan.Facts) { f.Unreadable = "resetting" }), Desired: want("22.41.1000"), Updating: "Job j is at step flash."},
			reason: v1alpha1.ReasonProgressing, inspected: v1alpha1.ReasonReadFailed, kstatus: status.InProgressStatus, says: "step flash"},
		"policy Validate": {
			given:  given{Observed: observed(), Desired: want("22.41.1000", func(d *plan.Desired) { d.ReportOnly = true })},
			reason: v1alpha1.ReasonOutOfDate, kstatus: status.FailedStatus, says: "set policy to Apply"},
		"downgrade": {
			given:  given{Observed: observed(), Desired: want("22.31.1")},
			reason: v1alpha1.ReasonDowngradeForbidden, kstatus: status.FailedStatus, says: "set downgrade to Allow"},
		"failed before": {
			given: given{Node: "n1", Failure: "the tool said no", Desired: want("22.41.1000"),
				Observed: observed(func(f *plan.Facts) { f.FailedDigest = wanted })},
			reason: v1alpha1.ReasonUpdateFailed, kstatus: status.FailedStatus, says: "kubectl patch nfw n1 --type merge"},
		"failed before and cleared": {
			given: given{Desired: want("22.41.1000", func(d *plan.Desired) { d.Retry = "after repair" }),
				Observed: observed(func(f *plan.Facts) { f.FailedDigest = wanted })},
			reason: v1alpha1.ReasonPending, kstatus: status.InProgressStatus},
		"unreadable and unassigned": {
			given:  given{Node: "n1", Observed: observed(func(f *plan.Facts) { f.Unreadable = "input/output error" })},
			reason: v1alpha1.ReasonReadFailed, inspected: v1alpha1.ReasonReadFailed, kstatus: status.InProgressStatus, says: `\"scan\"`},
		"unreadable and assigned": {
			given:  given{Observed: observed(func(f *plan.Facts) { f.Unreadable = "input/output error" }), Desired: want("2")},
			reason: v1alpha1.ReasonReadFailed, inspected: v1alpha1.ReasonReadFailed, kstatus: status.InProgressStatus, says: "input/output error"},
		"matched twice": {
			given: given{Observed: observed(), Desired: want("22.39.1002")}, old: conflict,
			reason: v1alpha1.ReasonConflict, kstatus: status.FailedStatus, says: "Templates a and b match."},
		"source missing": {
			given: given{Observed: observed(), Desired: plan.Desired{Version: "2"}}, old: blocked(v1alpha1.ReasonSourceNotFound),
			reason: v1alpha1.ReasonSourceNotFound, kstatus: status.FailedStatus, says: "create it"},
		"source not ready yet": {
			given: given{Observed: observed(), Desired: plan.Desired{Version: "2"}}, old: blocked(v1alpha1.ReasonSourceNotReady),
			reason: v1alpha1.ReasonSourceNotReady, kstatus: status.InProgressStatus},
		"power-cycle": {
			given:  given{Observed: observed(func(f *plan.Facts) { f.Activation = inventory.ActivatePowerCycle }), Desired: want("22.41.1000")},
			reason: v1alpha1.ReasonPowerCycleRequired, kstatus: status.FailedStatus},
		"blocked edge": {
			given:  given{Observed: observed(), Desired: want("22.41.1000", func(d *plan.Desired) { d.Path = plan.Path{{To: d.Version, From: []inventory.Version{"22.39.1002"}}} })},
			reason: v1alpha1.ReasonPathBlocked, kstatus: status.FailedStatus, says: "declare a version in between, or select another version. Paths are declared"},
		"below the minimum": {
			given:  given{Observed: observed(), Desired: want("22.41.1000", func(d *plan.Desired) { d.Path = plan.Path{{To: d.Version, Below: "22.40.0"}} })},
			reason: v1alpha1.ReasonPathBlocked, kstatus: status.FailedStatus, says: "22.39.1002 runs; declare a version in between. Paths are declared"},
		"a hop is due": {
			given: given{Observed: observed(), Desired: want("22.41.1000", func(d *plan.Desired) {
				d.Path = plan.Path{{To: d.Version, From: []inventory.Version{"22.39.1002"}, Via: "22.40.0", Digest: inventory.Digest{2}}}
			})},
			reason: v1alpha1.ReasonPending, kstatus: status.InProgressStatus, says: "the update to 22.40.0 on the way to 22.41.1000 waits"},
		"a hop is stored": {
			given: given{Observed: observed(func(f *plan.Facts) { f.Stored = "22.40.0" }), Desired: want("22.41.1000", func(d *plan.Desired) {
				d.Path = plan.Path{{To: d.Version, From: []inventory.Version{"22.39.1002"}, Via: "22.40.0", Digest: inventory.Digest{2}}}
			})},
			reason: v1alpha1.ReasonPending, kstatus: status.InProgressStatus, says: "22.40.0 on the way to 22.41.1000 is stored"},
		"a hop failed before": {
			given: given{Node: "n1", Failure: "no",
				Observed: observed(func(f *plan.Facts) { f.FailedDigest = inventory.Digest{2} }),
				Desired: want("22.41.1000", func(d *plan.Desired) {
					d.Path = plan.Path{{To: d.Version, From: []inventory.Version{"22.39.1002"}, Via: "22.40.0", Digest: inventory.Digest{2}}}
				})},
			reason: v1alpha1.ReasonUpdateFailed, kstatus: status.FailedStatus, says: "The update to 22.40.0 failed"},
		"unhealthy": {
			given:  given{Node: "n1", Unhealthy: "job j: a link is down", Observed: unhealthy(), Desired: want("22.41.1000")},
			reason: v1alpha1.ReasonDeviceUnhealthy, kstatus: status.FailedStatus, says: "left the device unhealthy (job j: a link is down)"},
		"unhealthy though it runs what it should": {
			given:  given{Node: "n1", Unhealthy: "job j", Observed: unhealthy(), Desired: want("22.39.1002")},
			reason: v1alpha1.ReasonDeviceUnhealthy, kstatus: status.FailedStatus, says: "Repair it, then: kubectl patch nfw n1"},
		"unhealthy with nothing assigned": {
			given:  given{Node: "n1", Unhealthy: "job j", Observed: unhealthy()},
			reason: v1alpha1.ReasonDeviceUnhealthy, kstatus: status.FailedStatus},
		"unhealthy, and the operator reports it too": {
			given: given{Node: "n1", Unhealthy: "job j", Observed: unhealthy(), Desired: want("22.41.1000")}, old: blocked(v1alpha1.ReasonDeviceUnhealthy),
			reason: v1alpha1.ReasonDeviceUnhealthy, kstatus: status.FailedStatus, says: `\"retry\"`},
		"unhealthy and being worked on": {
			given:  given{Node: "n1", Unhealthy: "job j", Observed: unhealthy(), Desired: want("22.41.1000"), Updating: "Job j is at step restore."},
			reason: v1alpha1.ReasonProgressing, kstatus: status.InProgressStatus},
		"unhealthy and cleared": {
			given:  given{Observed: unhealthy(), Desired: want("22.41.1000", func(d *plan.Desired) { d.Retry = "after repair" })},
			reason: v1alpha1.ReasonPending, kstatus: status.InProgressStatus},
	} {
		t.Run(name, func(t *testing.T) {
			facts := tc.given.judged()
			got := nfstatus.Device(facts, tc.old, 3, noon)
			ready := meta.FindStatusCondition(got, v1alpha1.ConditionReady)
			require.NotNil(t, ready)
			assert.Equal(t, tc.reason, ready.Reason)
			assert.Contains(t, ready.Message, tc.says)
			if tc.inspected == "" {
				tc.inspected = v1alpha1.ReasonSucceeded
			}
			assert.Equal(t, tc.inspected, meta.FindStatusCondition(got, v1alpha1.ConditionInspected).Reason)
			for _, c := range tc.old {
				assert.NotNil(t, meta.FindStatusCondition(got, c.Type), "the operator's conditions stay")
			}
			assert.Equal(t, tc.kstatus, kstatusOf(t, &v1alpha1.NodeDevice{
				TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeDevice"},
				ObjectMeta: metav1.ObjectMeta{Name: "d", Generation: 3},
				Status:     v1alpha1.NodeDeviceStatus{ObservedGeneration: 3, Conditions: got},
			}))
			assert.Equal(t, got, nfstatus.Device(facts, got, 3, noon.Add(time.Hour)), "the same facts change nothing later")
		})
	}
}

func kstatusOf(t *testing.T, obj runtime.Object) status.Status {
	t.Helper()
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	require.NoError(t, err)
	res, err := status.Compute(&unstructured.Unstructured{Object: u})
	require.NoError(t, err)
	return res.Status
}
