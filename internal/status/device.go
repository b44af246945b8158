package status

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// DeviceConditions are the condition types of a NodeDevice that the daemon writes. Conflict and Blocked are the
// operator's.
var DeviceConditions = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionInspected, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
}

// DeviceFacts is what the daemon knows about one device when it writes its status.
type DeviceFacts struct {
	// Node is the name of the Node and of its NodeFirmware.
	Node string
	// Desired is the version that should run; empty when none is assigned.
	Desired inventory.Version
	// Observed is what the last scan and the journal say, and Verdict what the device needs in view of that.
	Observed plan.Facts
	Verdict  plan.Decision
	// Failure describes the last failed update for people; empty when none failed.
	Failure string
	// Unhealthy describes for people how a job left the device unhealthy; empty when no job did, or when a person has
	// cleared that since.
	Unhealthy string
	// Updating names the job and the step that work on the device now; empty when none does.
	Updating string
	// Settings is what is known of the settings of the device; nil where none are desired.
	Settings *SettingsFacts
	// Drifted are the settings that an update of the firmware changed and nobody declares.
	Drifted []Drifted
}

// Device maps facts to the conditions of a NodeDevice, keeping in old what others wrote. The operator's Conflict and
// Blocked in old are taken into account.
func Device(f DeviceFacts, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	ready := deviceReady(f, old)
	if len(f.Drifted) > 0 && ready[0].Status == metav1.ConditionTrue {
		ready[0].Message += " " + drifted(f.Drifted)
	}
	want := append(ready, inspected(f.Observed))
	return Merge(old, generation, now, DeviceConditions, want...)
}

func inspected(o plan.Facts) Condition {
	c := Condition{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionFalse}
	switch {
	case o.Unreadable != "":
		c.Reason = v1alpha1.ReasonReadFailed
		c.Message = "The last scan could not read the device, so the status shows older data: " + o.Unreadable
	case o.Driver == "":
		c.Reason = v1alpha1.ReasonNotUpdatable
		c.Message = "No driver knows the device; it is listed from sysfs alone."
	default:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonSucceeded
		c.Message = fmt.Sprintf("The %s driver read the device.", o.Driver)
	}
	return c
}

// deviceReady is Ready and, where it is not True, Reconciling or Stalled.
func deviceReady(f DeviceFacts, old []metav1.Condition) []Condition {
	if f.Updating != "" {
		return reconciling(v1alpha1.ReasonProgressing, f.Updating)
	}
	if c := active(old, v1alpha1.ConditionConflict); c != nil {
		return stalled(c.Reason, c.Message)
	}
	if f.Unhealthy != "" { // whatever is desired: a device that runs what it should and does not work is not Ready
		return stalled(v1alpha1.ReasonDeviceUnhealthy, unhealthy(f))
	}
	if c := active(old, v1alpha1.ConditionBlocked); c != nil && c.Reason == v1alpha1.ReasonHardwareChanged {
		return stalled(c.Reason, c.Message)
	}
	d := f.Verdict
	switch d.Outcome {
	case plan.NothingDesired:
		if f.Observed.Unreadable != "" {
			return reconciling(v1alpha1.ReasonReadFailed, unreadable(f))
		}
		if f.Settings != nil {
			return settingsReady(f, active(old, v1alpha1.ConditionBlocked))
		}
		return ready(v1alpha1.ReasonNotAssigned, "No template or pin assigns firmware to the device.")
	case plan.UpToDate:
		if f.Settings != nil {
			blocked := active(old, v1alpha1.ConditionBlocked)
			if blocked != nil && blocked.Reason != v1alpha1.ReasonQuarantined { // of an image, which runs
				blocked = nil
			}
			return settingsReady(f, blocked)
		}
		return ready(v1alpha1.ReasonUpToDate, upToDate(f))
	case plan.Differs:
		return stalled(v1alpha1.ReasonOutOfDate, fmt.Sprintf(
			"Runs %s instead of %s. The policy is Validate, so nothing is flashed; set policy to Apply to flash it.",
			orUnknown(f.Observed.Running), f.Desired))
	}
	if c := active(old, v1alpha1.ConditionBlocked); c != nil {
		if c.Reason == v1alpha1.ReasonSourceNotReady {
			return reconciling(c.Reason, c.Message)
		}
		return stalled(c.Reason, c.Message)
	}
	switch {
	case d.Outcome == plan.DueActivation:
		return reconciling(v1alpha1.ReasonPending, fmt.Sprintf(
			"Runs %s; %s is stored and waits for its activation (%s) by a job.",
			orUnknown(f.Observed.Running), onTheWay(f), d.Activation))
	case d.Outcome == plan.DueFlash:
		return reconciling(v1alpha1.ReasonPending, fmt.Sprintf(
			"Runs %s; the update to %s waits for a job.", orUnknown(f.Observed.Running), onTheWay(f)))
	case d.Reason == plan.ReasonReadFailed:
		return reconciling(v1alpha1.ReasonReadFailed, unreadable(f))
	case d.Reason == plan.ReasonUpdateFailed:
		return stalled(v1alpha1.ReasonUpdateFailed, updateFailed(f))
	case d.Reason == plan.ReasonRestored:
		return stalled(v1alpha1.ReasonRestored, fmt.Sprintf("Runs %s, which a person restored, and %s is not flashed over it until a template or pin desires "+
			"another one%s. To flash it: %s", orUnknown(f.Observed.Running), onTheWay(f), detail(f.Failure), wayout.Retry(f.Node)))
	case d.Reason == plan.ReasonPathBlocked:
		return stalled(string(d.Reason), sentence(d.Message)+" Paths are declared in upgradePaths of the source.")
	default:
		return stalled(string(d.Reason), sentence(d.Message))
	}
}

func unhealthy(f DeviceFacts) string {
	return fmt.Sprintf("Runs %s. A job left the device unhealthy%s, and nothing is flashed to it until a person has looked at it. Repair it, then: %s",
		orUnknown(f.Observed.Running), detail(f.Unhealthy), wayout.Retry(f.Node))
}

// onTheWay names the version that is flashed next, and the desired one where that is only a hop.
func onTheWay(f DeviceFacts) string {
	if f.Verdict.Version == f.Desired {
		return string(f.Desired)
	}
	return fmt.Sprintf("%s on the way to %s", f.Verdict.Version, f.Desired)
}

func unreadable(f DeviceFacts) string {
	return fmt.Sprintf("The device cannot be read: %s. Every scan tries again; to scan now: %s",
		f.Observed.Unreadable, wayout.Request("nfw", f.Node, "scan"))
}

func upToDate(f DeviceFacts) string {
	if s := f.Observed.Stored; s != "" && s != f.Observed.Running {
		return fmt.Sprintf("Runs %s as desired, but %s is stored and will run after the next activation; this product did not stage it.",
			f.Observed.Running, s)
	}
	return fmt.Sprintf("Runs %s as desired.", f.Observed.Running)
}

func updateFailed(f DeviceFacts) string {
	return fmt.Sprintf("The update to %s failed and is not retried automatically%s. To try again: %s",
		cmp.Or(f.Verdict.Version, f.Desired), detail(f.Failure), wayout.Retry(f.Node))
}

func ready(reason, message string) []Condition {
	return []Condition{{v1alpha1.ConditionReady, metav1.ConditionTrue, reason, message}}
}

func reconciling(reason, message string) []Condition {
	return []Condition{
		{v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message},
		{v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message},
	}
}

func stalled(reason, message string) []Condition {
	return []Condition{
		{v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message},
		{v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message},
	}
}

// active is the condition of that type when it is True.
func active(conditions []metav1.Condition, kind string) *metav1.Condition {
	if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}

func detail(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}
