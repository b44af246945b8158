package status_test

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	nfstatus "github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// TestSettingsAreTakenIn: where the firmware of a device is as desired, or none is, the condition Ready is about its settings.
func TestSettingsAreTakenIn(t *testing.T) {
	differ := plan.ConfigurationDecision{Activation: inventory.ActivateReboot, Changes: []plan.Change{
		{Setting: inventory.Setting{Name: "numVFs", Value: "8"}, Had: inventory.Read("4"), Needs: inventory.ActivateReboot},
		{Setting: inventory.Setting{Name: "LABEL", Value: ""}, Needs: inventory.ActivateReboot},
	}}
	stored := plan.ConfigurationDecision{Changes: []plan.Change{{Setting: inventory.Setting{Name: "A", Value: "1"}, Had: inventory.Read("0")}}}
	refused := plan.ConfigurationDecision{Refusal: "the device has no parameter numVF: the nearest are numVFs, A, B"}
	runs, newer := want("22.39.1002"), want("22.41.1000")
	staged := observed(func(f *plan.Facts) { f.Stored = "22.1.1" })
	blocked := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: reason, Message: "It is kept back."}}
	}
	for name, tc := range map[string]struct {
		given    given
		settings nfstatus.SettingsFacts
		old      []metav1.Condition
		reason   string
		kstatus  status.Status
		says     string
	}{
		"in force": {given{Observed: observed(), Desired: runs}, nfstatus.SettingsFacts{Declared: 2}, nil,
			v1alpha1.ReasonUpToDate, status.CurrentStatus, "Runs 22.39.1002 as desired, and its 2 settings are in force."},
		"in force without firmware": {given{Observed: observed()}, nfstatus.SettingsFacts{Declared: 1}, nil,
			v1alpha1.ReasonUpToDate, status.CurrentStatus, "Its 1 setting is in force."},
		"in force without a driver": {given{Observed: plan.Facts{}}, nfstatus.SettingsFacts{}, nil,
			v1alpha1.ReasonUpToDate, status.CurrentStatus, "Its settings are in force."},
		"in force and other firmware is staged": {given{Observed: staged, Desired: runs}, nfstatus.SettingsFacts{Declared: 2}, nil,
			v1alpha1.ReasonUpToDate, status.CurrentStatus, "did not stage it. Its 2 settings are in force."},
		"they differ": {given{Observed: observed(), Desired: runs}, nfstatus.SettingsFacts{Decision: differ}, nil,
			v1alpha1.ReasonPending, status.InProgressStatus, "waits for a job, and needs an activation (Reboot): numVFs is 4 instead of 8, LABEL is unknown instead of empty."},
		"they differ and cost nothing": {given{Observed: observed()}, nfstatus.SettingsFacts{Decision: stored}, nil,
			v1alpha1.ReasonPending, status.InProgressStatus, "needs no activation: A is 0 instead of 1."},
		"they differ and that is reported": {given{Observed: observed()}, nfstatus.SettingsFacts{Decision: differ, ReportOnly: true}, nil,
			v1alpha1.ReasonOutOfDate, status.FailedStatus, "set policy to Apply to change them: numVFs is 4 instead of 8, LABEL"},
		"not taken": {given{Observed: observed(), Desired: runs}, nfstatus.SettingsFacts{Decision: refused, ReportOnly: true}, nil,
			v1alpha1.ReasonParameterInvalid, status.FailedStatus, "correct the ConfigurationTemplate: the device has no parameter numVF: the nearest are numVFs, A, B."},
		"failed before": {given{Node: "n1", Observed: observed(), Desired: runs}, nfstatus.SettingsFacts{Decision: differ, Failure: "WriteFailed: no"}, nil,
			v1alpha1.ReasonUpdateFailed, status.FailedStatus, "(WriteFailed: no). To try again: kubectl patch nfw n1"},
		"failed before and in force": {given{Observed: observed()}, nfstatus.SettingsFacts{Declared: 2, Failure: "WriteFailed: no"}, nil,
			v1alpha1.ReasonUpToDate, status.CurrentStatus, "in force"},
		"unreadable": {given{Node: "n1", Observed: observed(), Desired: runs}, nfstatus.SettingsFacts{Unread: "the tool said no"}, nil,
			v1alpha1.ReasonReadFailed, status.InProgressStatus, "The settings of the device cannot be read: the tool said no. Every scan tries again"},
		"kept back": {given{Observed: observed()}, nfstatus.SettingsFacts{Decision: differ}, blocked(v1alpha1.ReasonQuarantined),
			v1alpha1.ReasonQuarantined, status.FailedStatus, "It is kept back."},
		"the firmware is kept back, and runs": {given{Observed: observed(), Desired: runs}, nfstatus.SettingsFacts{Decision: differ}, blocked(v1alpha1.ReasonSourceNotFound),
			v1alpha1.ReasonPending, status.InProgressStatus, "numVFs"},
		"firmware comes first": {given{Observed: observed(), Desired: newer}, nfstatus.SettingsFacts{Decision: refused}, nil,
			v1alpha1.ReasonPending, status.InProgressStatus, "the update to 22.41.1000 waits"},
		"a device that is unhealthy comes first": {given{Unhealthy: "job j", Observed: unhealthy()}, nfstatus.SettingsFacts{Decision: differ}, nil,
			v1alpha1.ReasonDeviceUnhealthy, status.FailedStatus, "job j"},
		"a device that cannot be read comes first": {given{Observed: observed(func(f *plan.Facts) { f.Unreadable = "gone" })}, nfstatus.SettingsFacts{Unread: "gone"}, nil,
			v1alpha1.ReasonReadFailed, status.InProgressStatus, "The device cannot be read: gone"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := tc.given.judged()
			facts.Settings = &tc.settings
			got := nfstatus.Device(facts, tc.old, 3, noon)
			ready := meta.FindStatusCondition(got, v1alpha1.ConditionReady)
			require.NotNil(t, ready)
			assert.Equal(t, tc.reason, ready.Reason)
			assert.Contains(t, ready.Message, tc.says)
			assert.Equal(t, tc.kstatus, kstatusOf(t, &v1alpha1.NodeDevice{
				TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeDevice"},
				ObjectMeta: metav1.ObjectMeta{Name: "d", Generation: 3},
				Status:     v1alpha1.NodeDeviceStatus{ObservedGeneration: 3, Conditions: got},
			}))
			assert.Equal(t, got, nfstatus.Device(facts, got, 3, noon.Add(time.Hour)), "the same facts change nothing later")
		})
	}
}
