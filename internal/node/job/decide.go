package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/cleaning"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

type verdict int

const (
	// leave it alone, and report nothing.
	leave verdict = iota
	// queue: report what it waits for.
	queue
	// refuse it: it ends before it has begun.
	refuse
	// submit it to the engine.
	submit
	// cancelUnstarted ends it before it has begun.
	cancelUnstarted
	// cancel it while it runs.
	cancel
	// release the node it holds.
	release
	// conclude it: publish its results and then report its end.
	conclude
	// follow: report how far it is.
	follow
)

func decide(f state) verdict {
	switch {
	case f.holds != nil && f.busy == "" && f.release.Clears(f.holds.Release):
		return release
	case f.known != nil && f.known.Record.Outcome != "" && !f.known.Reported:
		return conclude
	case f.object == nil:
		return leave
	case f.known != nil && f.known.Record.Outcome == "" && asksMore(f.object, *f.known):
		return cancel
	case f.known != nil:
		return follow
	case f.object.Ended() && !f.object.Held():
		return leave
	case f.startedBefore() && !f.mine: // a report that it waits would hide that it was started
		return leave
	case f.startedBefore():
		return refuse
	case f.object.DeletionTimestamp != nil && f.object.Spec.Cancel == nil && !f.object.Admitted():
		return leave // the operator lets it go: often it was replaced, and a record of that would keep its updates from being planned
	case isToStop(f.object):
		return cancelUnstarted
	case f.mayBegin() && refusal(f) != nil:
		return refuse
	case f.mayBegin():
		return submit
	}
	return queue
}

// mayBegin reports whether this process may begin the job now.
func (f state) mayBegin() bool { return f.object.MayBegin() && f.busy == "" && f.mine }

// isToStop reports whether a person cancelled the job, or deleted it, which asks for the same. A job whose object is simply not
// there goes on: nobody asked to stop it, and an API server that was restored from a backup may have lost it.
func isToStop(j *v1alpha1.FirmwareJob) bool {
	return j.Spec.Cancel != nil || j.DeletionTimestamp != nil
}

// asksMore reports whether a person asks for a cancellation, or for one by force, that the journal does not know yet.
func asksMore(j *v1alpha1.FirmwareJob, known journal.Job) bool {
	return isToStop(j) && (known.Cancel == nil || isForced(j) && !known.CancelForce)
}

func isForced(j *v1alpha1.FirmwareJob) bool {
	return j.Spec.Cancel != nil && j.Spec.Cancel.Mode == v1alpha1.CancelForce
}

// refusal says why a job must not be carried out although it was admitted; nil when it may. A FirmwareJob is believed only
// as far as it agrees with the rest: an update with what the operator assigned to its device and with what a person wants for it, one that
// cleans the node with the policy that it names, and any job with the journal.
func refusal(f state) *step.Failure {
	if f.startedBefore() {
		return lost(f)
	}
	if what := unknown(f.object.Spec.Task); what != "" {
		return &step.Failure{Reason: step.JobRejected, Step: plan.Preflight, Message: fmt.Sprintf("this daemon does not know %s, and nothing was done: the operator is "+
			"newer. Replace the daemon of this node, whose pod is to be deleted for that; then request a retry", what)}
	}
	switch f.object.Spec.Task.Type {
	case v1alpha1.JobTypeBackup:
		_, failure := backups(f)
		return failure
	case v1alpha1.JobTypeRestore:
		_, failure := restores(f)
		return failure
	case v1alpha1.JobTypeSteps:
		if len(f.erased) > 0 {
			return &step.Failure{Reason: step.JobRejected, Step: plan.Preflight, Message: fmt.Sprintf("nothing was erased: an earlier job %s was to erase %s, and "+
				"one whose manifest is applied again does not erase again. To erase it once more, create a job with another name; where a CleaningPolicy erases, request a retry", f.object.Name, strings.Join(f.erased, ", "))}
		}
		if f.object.Spec.Task.CleaningPolicyRef == nil {
			return nil
		}
		if len(f.unlisted) > 0 {
			return &step.Failure{Reason: step.JobRejected, Step: plan.Preflight, Message: fmt.Sprintf("nothing was erased: this node has drives without a NodeDevice, so "+
				"that it cannot be told whether its policy names the right ones: %s. The daemon makes them at its next scan; then request a retry",
				strings.Join(f.unlisted, ", "))}
		}
		if why := cleaning.Refusal(f.object, f.cleaning.policy, f.cleaning.node, f.cleaning.firmware, slices.Collect(maps.Values(f.devices))); why != "" {
			return &step.Failure{Reason: step.JobRejected, Step: plan.Preflight, Message: why}
		}
		return nil
	}
	for _, u := range f.object.Spec.Task.Devices {
		if d, known := f.devices[u.Name]; known { // the preflight refuses one that is not
			if failure := f.firmwareRefusal(u, d); failure != nil {
				failure.Step, failure.Device = plan.Preflight, u.Name
				failure.Message = fmt.Sprintf("%s: %s; nothing was written. Assign the version by a template or a pin, which plans a new job",
					u.Name, failure.Message)
				return failure
			}
			if why := f.settingsRefusal(u, d); why != "" {
				return &step.Failure{Reason: step.JobRejected, Step: plan.Preflight, Device: u.Name, Message: fmt.Sprintf(
					"%s: %s; nothing was written. Assign the settings by a ConfigurationTemplate, which plans a new job", u.Name, why)}
			}
		}
	}
	return nil
}

// unknown names what a job asks for that this daemon does not know, because a newer operator made the job; empty for nothing.
func unknown(t v1alpha1.JobTask) string {
	switch t.Type {
	case "", v1alpha1.JobTypeUpdate, v1alpha1.JobTypeSteps, v1alpha1.JobTypeBackup, v1alpha1.JobTypeRestore:
	default:
		return fmt.Sprintf("jobs of type %s", t.Type)
	}
	for _, r := range t.Require {
		if !slices.Contains([]v1alpha1.Requirement{v1alpha1.RequireRollback, v1alpha1.RequireWriteProtection, v1alpha1.RequireUnlock}, r) {
			return fmt.Sprintf("the requirement %s", r)
		}
	}
	return ""
}

// firmwareRefusal says why the device must not get the firmware of the job; nil where it may, and where it gets none.
func (f state) firmwareRefusal(u v1alpha1.TaskDevice, d v1alpha1.NodeDevice) *step.Failure {
	if u.SettingsOnly() {
		return nil
	}
	if failure := disagreement(u, d); failure != nil || runsAlready(u, d) {
		return failure
	}
	if why := f.wishes.unwanted(d); why != "" {
		return &step.Failure{Reason: step.JobRejected, Message: "the job is no longer wanted: " + why}
	}
	return nil
}

// settingsRefusal says why the device must not get the settings of the job; empty where it may, and where it gets none.
func (f state) settingsRefusal(u v1alpha1.TaskDevice, d v1alpha1.NodeDevice) string {
	c := d.Spec.Configuration
	switch {
	case u.Configuration == "":
		return ""
	case c == nil:
		return "the job gives it settings, and none are assigned to it"
	case c.Policy == v1alpha1.PolicyValidate:
		return "the job gives it settings, and their policy is Validate"
	case u.UniqueID != d.Status.UniqueID:
		return fmt.Sprintf("the job is for the device with the id %s, but this one has %s", u.UniqueID, d.Status.UniqueID)
	case c.Digest() != u.Configuration:
		return fmt.Sprintf("the job gives it the settings %s, but now it is to have %s", u.Configuration, c.Digest())
	}
	if why := f.wishes.unconfigured(d); why != "" {
		return "its settings are no longer wanted: " + why
	}
	return ""
}

// runsAlready reports whether the device runs the version of the job and has no other one stored: such a job flashes nothing, and judges.
func runsAlready(u v1alpha1.TaskDevice, d v1alpha1.NodeDevice) bool {
	fw := d.Status.Firmware
	return fw != nil && (fw.Stored == "" || fw.Stored == fw.Running) && inventory.NormalizeVersion(fw.Running) == inventory.NormalizeVersion(u.Version)
}

// lost is the failure of a job that was begun and that the journal does not have. Where the node is out of service and no other job
// accounts for that, it holds the node: only a person knows what to do with it. Whom the job blamed stays blamed.
func lost(f state) *step.Failure {
	out := &step.Failure{Step: plan.Preflight, Reason: step.JobRejected, Held: f.outOfService,
		Message: "it was started before and its progress is unknown: the node's state directory was lost (the node was installed anew, or the " +
			"directory is in memory), or the API server was restored from a backup. Nothing was done this time. "}
	failed := meta.FindStatusCondition(f.object.Status.Conditions, v1alpha1.ConditionFailed)
	if f.object.Held() && failed.Reason != v1alpha1.ReasonJobRejected {
		out.Message += fmt.Sprintf("Before, it had failed with %s: %s ", failed.Reason, failed.Message)
	}
	if out.Message += "Check the node's devices"; !out.Held {
		out.Message += "; updates still due are planned again, requested steps need a new job"
	}
	for _, b := range f.object.Status.Blamed {
		out.Blames = append(out.Blames, b.Device)
		if b.Evidence != v1alpha1.EvidenceDevice {
			out.Evidence = step.Evidence(b.Evidence)
		}
	}
	return out
}

// startedBefore reports whether the job was begun and the journal does not have it any more.
func (f state) startedBefore() bool {
	return f.known == nil && (f.object.Status.StartTime != nil || f.object.Held() || f.begunBefore)
}

// disagreement says how an update differs from what its device should run now, or from the way there; nil when it does not.
func disagreement(u v1alpha1.TaskDevice, d v1alpha1.NodeDevice) *step.Failure {
	differs := func(format string, args ...any) *step.Failure {
		return &step.Failure{Reason: step.JobRejected, Message: fmt.Sprintf(format, args...)}
	}
	w, observed := d.Spec.Firmware, d.Status.Firmware
	switch {
	case w == nil:
		return differs("the job updates it to %s, and no firmware is assigned to it", u.Version)
	case w.Policy == v1alpha1.PolicyValidate:
		return differs("the job updates it to %s, and its update policy is Validate", u.Version)
	case u.UniqueID != d.Status.UniqueID:
		return differs("the job is for the device with the id %s, but this one has %s", u.UniqueID, d.Status.UniqueID)
	case observed == nil:
		return &step.Failure{Reason: step.ReadFailed, Message: "its running version was never read, so the upgrade path to another version is unknown"}
	}
	version, digest := inventory.NormalizeVersion(u.Version), desired.Digest(u.Digest)
	want := desired.Of(w, "")
	facts := plan.Facts{Driver: observed.Driver, Running: inventory.NormalizeVersion(observed.Running)}
	if observed.VersionFormat == v1alpha1.VersionFormatDotted {
		facts.Format = inventory.FormatDotted
	}
	if version == facts.Running && isOnTheWay(version, digest, want) { // the node is judged again, and nothing is flashed
		return nil
	}
	switch next := plan.Decide(want, facts); {
	case next.Outcome == plan.UpToDate:
		return differs("the job updates it to %s, and it runs the desired %s", u.Version, w.Version)
	case !next.Outcome.Due():
		return differs("the job updates it to %s, which must not be flashed now: %s", u.Version, next.Message)
	case version != next.Version || digest != next.Digest:
		return differs("the job updates it to %s (%s), but now %s (%s) is to be flashed", u.Version, digest, next.Version, next.Digest)
	}
	return nil
}

// isOnTheWay reports whether the image is the desired one or a hop to it.
func isOnTheWay(version inventory.Version, digest inventory.Digest, want plan.Desired) bool {
	return version == want.Version && digest == want.Digest ||
		slices.ContainsFunc(want.Path, func(h plan.Edge) bool { return version == h.Via && digest == h.Digest })
}
