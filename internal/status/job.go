package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// JobConditions are the condition types of a FirmwareJob that the daemon writes. Admitted is the operator's.
var JobConditions = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionMaintenanceReady,
	v1alpha1.ConditionComplete, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld, v1alpha1.ConditionRollbackAvailable,
	v1alpha1.ConditionRolledBack, v1alpha1.ConditionProtected, v1alpha1.ConditionCancelling,
}

// JobFacts is what the daemon knows about one job when it reports.
type JobFacts struct {
	Name string
	// Queued says why the job was not begun; empty once it was.
	Queued string
	// Step names the step that runs, with its device; Waiting says what it waits for.
	Step, Waiting string
	// Maintenance is how the node's maintenance stands; MaintenanceRequested and MaintenanceEnded say whether the job asked
	// for one and gave it back.
	Maintenance                            step.Maintenance
	MaintenanceRequested, MaintenanceEnded bool
	// Outcome is empty until the job has ended; Failure says why it failed.
	Outcome step.Outcome
	Failure *step.Failure
	// Held says that the node is still kept out of service by this job; Node names it.
	Held bool
	Node string
	// MaintenanceSaid is what the maintenance said when it was last found ready, and Look how that of a held node stood at the last look; zero
	// where it was not looked at yet.
	MaintenanceSaid string
	Look            maintenance.State
	// Released says that a person returned the held node to service; SupersededBy names the job that took it over.
	Released     bool
	SupersededBy string
	// Archived says that each archive step has ended; NoWayBack names the devices whose running firmware could not be
	// restored, each with the reason.
	Archived  bool
	NoWayBack []string
	// Guarded says that it is known whether the node has a guard, and Unguarded why it has none; empty while it has.
	Guarded   bool
	Unguarded string
	// ByHand says that the job is a list of steps that a person made, which nothing repeats.
	ByHand bool
	// SettingsOnly says that the job gives its devices settings and no firmware.
	SettingsOnly bool
	// Unwatched is why no gateway of the node is watched while a network adapter of it is updated; empty while one is.
	Unwatched string
	// Unprotected is why the end of the daemon's pod could have ended a write of the job, and Uninhibited why a shutdown of the host was
	// not put off for one; empty where nothing is known to be amiss.
	Unprotected, Uninhibited string
	// Locked is why a person may have to open a disk of the node at the reboot of the job; empty where nothing is known to be amiss.
	Locked string
	// Rollback is the progress of the rollback; nil before it begins.
	Rollback *step.Rollback
	// Overdue says that the running step has made no progress for longer than it should; empty while it has.
	Overdue string
	// Cancelling is what the cancellation of the job waits for, empty where it waits for nothing; CancelForce says that it is
	// one by force, and GraceUntil when its grace period ends.
	Cancelling  step.Delay
	CancelForce bool
	GraceUntil  time.Time
	// Summary of a complete job. Slow says that its node boots slowly since; empty where it does not, and where that is not known.
	Summary, Slow string
}

// Job maps facts to the conditions of a FirmwareJob, keeping in old what others wrote.
func Job(f JobFacts, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	all := slices.Concat(jobReady(f), jobMaintenance(f), jobArchived(f), jobProtected(f), jobRollback(f), jobCancelling(f))
	return Merge(old, generation, now, JobConditions, all...)
}

// jobArchived says whether what ran before can be restored.
func jobArchived(f JobFacts) []Condition {
	switch {
	case len(f.NoWayBack) > 0:
		return []Condition{{v1alpha1.ConditionRollbackAvailable, metav1.ConditionFalse, v1alpha1.ReasonRollbackUnavailable,
			sentence("The running firmware cannot be restored on " + strings.Join(f.NoWayBack, "; "))}}
	case f.Archived:
		return []Condition{{v1alpha1.ConditionRollbackAvailable, metav1.ConditionTrue, v1alpha1.ReasonSucceeded,
			"The previous firmware can be restored on every device of the job."}}
	}
	return nil
}

// jobProtected says what could have ended a write, whether a person may have to open a disk, and whether the node goes on by itself after a reboot. The guard is removed when the
// job ends, so that nothing is promised from then on.
func jobProtected(f JobFacts) []Condition {
	var amiss []string
	if f.Unprotected != "" {
		amiss = append(amiss, "the host's systemd did not take over a write, so do not delete the daemon's pod before the job has ended: "+f.Unprotected)
	}
	if f.Uninhibited != "" {
		amiss = append(amiss, "a shutdown of the host could not be delayed, so do not force a reboot before the job has ended: "+f.Uninhibited)
	}
	reason, locked := v1alpha1.ReasonGuardUnavailable, f.Locked != "" && f.Outcome == ""
	switch {
	case len(amiss) > 0:
		reason = v1alpha1.ReasonWriteUnprotected
	case locked:
		reason = v1alpha1.ReasonUnlockUnavailable
	}
	if locked {
		amiss = append(amiss, "somebody may have to type a passphrase at the reboot, and the rollout policy does not require Unlock: "+f.Locked)
	}
	switch {
	case f.Unguarded != "" && f.Outcome != "":
		amiss = append(amiss, "the node had no guard while the job ran: "+f.Unguarded)
	case f.Unguarded != "":
		amiss = append(amiss, "if the new firmware of its network adapter cuts this node off, nothing restores it after a reboot: "+f.Unguarded)
	}
	if f.Unwatched != "" {
		amiss = append(amiss, "no default gateway of this node is watched, so firmware that keeps its links up and carries nothing is noticed only "+
			"when the API server is missed: "+f.Unwatched)
	}
	switch {
	case len(amiss) > 0:
		return []Condition{{v1alpha1.ConditionProtected, metav1.ConditionFalse, reason, sentence(strings.Join(amiss, "; "))}}
	case f.Guarded && f.Outcome != "":
		return []Condition{{v1alpha1.ConditionProtected, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "The node had a guard while the job ran."}}
	case f.Guarded:
		return []Condition{{v1alpha1.ConditionProtected, metav1.ConditionTrue, v1alpha1.ReasonSucceeded,
			"The node restores the previous firmware by itself if its network adapter cuts it off, even after a reboot."}}
	}
	return nil
}

// jobRollback says how far the rollback is.
func jobRollback(f JobFacts) []Condition {
	c := Condition{Type: v1alpha1.ConditionRolledBack, Status: metav1.ConditionFalse}
	switch r := f.Rollback; {
	case r == nil:
		return nil
	case r.Done:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonRolledBack
		c.Message = fmt.Sprintf("The previous firmware runs again on %s and the node is healthy. To try the update again, once its image is not quarantined: %s",
			strings.Join(r.Devices, ", "), wayout.Retry(f.Node))
		if f.SettingsOnly {
			c.Message = fmt.Sprintf("The previous settings are in force again on %s and the node is healthy. To try the others again, once they are not quarantined: %s",
				strings.Join(r.Devices, ", "), wayout.Retry(f.Node))
		}
	case r.Failure != nil:
		c.Reason, c.Message = v1alpha1.ReasonNeedsIntervention, sentence(r.Failure.Message)
		if f.Failure != nil && blamesNobody(*f.Failure) {
			c.Reason = string(r.Failure.Reason)
		}
	default:
		c.Reason = v1alpha1.ReasonProgressing
		c.Message = fmt.Sprintf("What was there before the job is being restored on %s.", strings.Join(r.Devices, ", "))
	}
	return []Condition{c}
}

func jobReady(f JobFacts) []Condition {
	switch {
	case f.Outcome == step.Complete:
		done := strings.TrimSpace(f.Summary + " " + sentence(f.Slow))
		return append(ready(v1alpha1.ReasonSucceeded, done),
			Condition{v1alpha1.ConditionComplete, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, done})
	case f.Outcome == step.Failed && f.Failure != nil:
		return jobFailed(f)
	case f.Queued != "":
		return reconciling(v1alpha1.ReasonPending, f.Queued)
	}
	who, message := "Step "+f.Step, "Step "+f.Step+" runs."
	if f.Step == "" { // before the first, after the last, and for a moment between two
		who, message = "The job", "The daemon is deciding on the next step."
	}
	if f.Waiting != "" {
		message = fmt.Sprintf("%s waits: %s", who, f.Waiting)
	}
	if f.Failure != nil {
		message += fmt.Sprintf(" The job failed with %s: %s", f.Failure.Reason, f.Failure.Message)
	}
	var out []Condition
	switch {
	case f.Overdue != "":
		message = sentence(message) + " " + sentence(f.Overdue)
		if f.erases() {
			message += " To give it up, which holds the node: " + wayout.Set("fwj", f.Name, `"cancel":{"mode":"Force"}`)
		}
		out = stalled(v1alpha1.ReasonNeedsIntervention, message)
	case f.Failure != nil && f.erases(): // the others may take hours
		out = reconciling(string(f.Failure.Reason), sentence(message)+" The other drives that have begun to erase themselves are followed to their end.")
	case f.Maintenance == step.MaintenanceNotInstalled:
		out = reconciling(v1alpha1.ReasonMaintenanceUnavailable, message)
	default:
		out = reconciling(v1alpha1.ReasonProgressing, message)
	}
	if f.Released && f.Failure != nil { // the job has ended; only its node is not back yet
		out = append(out, failedCondition(*f.Failure), Condition{v1alpha1.ConditionHeld, metav1.ConditionTrue, v1alpha1.ReasonProgressing,
			fmt.Sprintf("Node %s is being returned to service as requested.", f.Node)})
	}
	return out
}

func failedCondition(f step.Failure) Condition {
	at := string(f.Step)
	if f.Device != "" {
		at += " of " + f.Device
	}
	return Condition{v1alpha1.ConditionFailed, metav1.ConditionTrue, string(f.Reason), sentence(fmt.Sprintf("Step %s failed: %s", at, f.Message))}
}

func jobFailed(f JobFacts) []Condition {
	failed := failedCondition(*f.Failure)
	reason, message := failed.Reason, failed.Message
	retry, release := wayout.Retry(f.Node), wayout.Request("nfw", f.Node, "release")
	stays := fmt.Sprintf("Node %s %s", f.Node, cmp.Or(service(string(f.Failure.Reason), f.Look), "stays out of service"))
	switch {
	case f.Held && blamesNobody(*f.Failure):
		held := fmt.Sprintf("%s. Repair what is named. To have it checked, and updated where that is due: %s  To return the node to service as it is: %s",
			stays, retry, release)
		return append(stalled(reason, message+" "+held), failed, Condition{v1alpha1.ConditionHeld, metav1.ConditionTrue, reason, held})
	case f.Held && f.Rollback != nil:
		held := fmt.Sprintf("%s, and nothing more is done to it. %s Repair it. Then, to try again: %s  To return the node to service as it is: %s",
			stays, sentence(wayBack(*f.Rollback.Failure)), retry, release)
		return append(stalled(v1alpha1.ReasonNeedsIntervention, message+" "+held), failed,
			Condition{v1alpha1.ConditionHeld, metav1.ConditionTrue, v1alpha1.ReasonNeedsIntervention, held})
	case f.Rollback != nil && f.Rollback.Done && f.SettingsOnly:
		return append(stalled(reason, message+" The previous settings are in force again; the others are quarantined. To try them again when that is lifted: "+retry), failed)
	case f.Rollback != nil && f.Rollback.Done:
		return append(stalled(reason, message+" The previous firmware runs again; the image is quarantined. To try again when that is lifted: "+retry), failed)
	case f.Held && f.ByHand:
		held := fmt.Sprintf("%s. Fix the cause. Then create another job with its steps, which runs while the node stays as it is. To return the node to "+
			"service: %s", stays, release)
		return append(stalled(reason, message+" "+held), failed, Condition{v1alpha1.ConditionHeld, metav1.ConditionTrue, reason, held})
	case f.Held:
		held := fmt.Sprintf("%s. Fix the cause. Then, to try again: %s  To return the node to service as it is: %s", stays, retry, release)
		return append(stalled(reason, message+" "+held), failed, Condition{v1alpha1.ConditionHeld, metav1.ConditionTrue, reason, held})
	case f.Released:
		return append(stalled(v1alpha1.ReasonReleased, "The node was returned to service as requested. "+message), failed)
	case f.SupersededBy != "":
		return append(stalled(v1alpha1.ReasonSuperseded, fmt.Sprintf("Job %s took over the node. %s", f.SupersededBy, message)), failed)
	case f.ByHand:
		return append(stalled(reason, message+" To run its steps again, create another job with them."), failed)
	case !f.Failure.Reason.Passing():
		return append(stalled(reason, message+" To try again: "+retry), failed)
	}
	return append(stalled(reason, message), failed)
}

// SupersededBy is the job that took the node over from a failed one, as jobFailed says it; empty for none.
func SupersededBy(j *v1alpha1.FirmwareJob) string {
	c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Reason != v1alpha1.ReasonSuperseded {
		return ""
	}
	if words := strings.Fields(c.Message); len(words) > 1 && words[0] == "Job" {
		return words[1]
	}
	return ""
}

// blamesNobody reports whether the node is unhealthy, and no image explains it.
func blamesNobody(f step.Failure) bool { return f.Reason == step.Unhealthy && len(f.Blames) == 0 }

// wayBack says how a rollback failed: a step of it, or the gate after it.
func wayBack(f step.Failure) string {
	if f.Reason == step.Unhealthy {
		return f.Message
	}
	return "It was not restored: " + f.Message
}

// service says of a held node whether it is out of service, and what becomes of that; empty where it stays as the job left it.
func service(failure string, now maintenance.State) string {
	lost := failure == string(step.MaintenanceLost)
	switch {
	case now.Phase == step.MaintenanceBroken:
		return fmt.Sprintf("may take workloads, and nobody cordons it again but a retry, which drains it too (%s)", now.Message)
	case (now.Phase == step.MaintenanceRequested || now.Phase == step.MaintenanceEnding) && now.Node == "":
		return fmt.Sprintf("lost its maintenance and may take workloads until the one that was requested is ready (%s)", now.Message)
	case lost && now.Node != "":
		return "is out of service again"
	case now.Phase == step.MaintenanceReady && now.Node == "" && now.Message != "":
		return fmt.Sprintf("stays powered on (%s)", now.Message)
	case lost || now.Phase == step.MaintenanceNone:
		return "lost its maintenance and may take workloads"
	}
	return ""
}

func jobMaintenance(f JobFacts) []Condition {
	c := Condition{Type: v1alpha1.ConditionMaintenanceReady, Status: metav1.ConditionFalse}
	switch {
	case !f.MaintenanceRequested:
		return nil
	case f.MaintenanceEnded:
		c.Reason, c.Message = v1alpha1.ReasonReleased, "The maintenance is over."
	case f.Failure != nil && f.Failure.Reason == step.MaintenanceLost:
		c.Reason, c.Message = v1alpha1.ReasonMaintenanceLost, f.Failure.Message
	case f.Maintenance == step.MaintenanceNotInstalled:
		c.Reason, c.Message = v1alpha1.ReasonMaintenanceUnavailable, f.Waiting
	case f.Maintenance == step.MaintenanceReady:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonSucceeded, sentence(cmp.Or(f.MaintenanceSaid, "the node is out of service"))
	default:
		c.Reason, c.Message = v1alpha1.ReasonPending, f.Waiting
	}
	return []Condition{c}
}

// EndConditions are the condition types of a FirmwareJob that the operator takes over from a daemon that is gone.
var EndConditions = []string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled, v1alpha1.ConditionFailed}

// EndedByOperator are those conditions that the operator wrote in place of the daemon: their reasons are its own.
func EndedByOperator(all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool {
		return !slices.Contains(EndConditions, c.Type) || c.Reason != v1alpha1.ReasonNodeGone && c.Reason != v1alpha1.ReasonNoRunner
	})
}

// JobStranded are the conditions of a job that has begun and whose Node is gone. How it goes on is not known, so it has not ended.
func JobStranded(job, node string, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	message := fmt.Sprintf("Node %s does not exist any more, and the job had begun: its machine may still be at work, and the job keeps its "+
		"place in the budget. If the machine comes back, the job is reported again. If it does not, make sure that it is switched off, then run: "+
		"kubectl annotate fwj %s %s=yes", node, job, v1alpha1.ConfirmGoneAnnotation)
	return Merge(old, generation, now, EndConditions, stalled(v1alpha1.ReasonNodeGone, message)...)
}

// JobNodeGone are the conditions of a job the operator ends because its Node does not exist any more, and with it the
// daemon that would report.
func JobNodeGone(node string, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	message := fmt.Sprintf("Node %s does not exist any more, so the job was ended. What it did on the machine is not known; "+
		"when the machine joins again, its devices are read again and what is still due is planned.", node)
	want := append(stalled(v1alpha1.ReasonNodeGone, message),
		Condition{v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonNodeGone, message})
	return Merge(old, generation, now, EndConditions, want...)
}

// MachineName says what a machine is, for messages; m may be nil.
func MachineName(m *v1alpha1.Machine) string {
	if m == nil {
		return "a machine of unknown model"
	}
	return fmt.Sprintf("machine %q", strings.TrimSpace(cmp.Or(m.Vendor, "(unknown)")+" "+cmp.Or(m.Model, "(unknown)")))
}

// JobNoHandler are the conditions of a job that the operator ends before it has begun, because no image is configured that
// executes jobs on such a machine.
func JobNoHandler(namespace, node string, m *v1alpha1.Machine, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	message := fmt.Sprintf("No handler is configured for %s of node %s, so nothing was done. Add one to the file of the operator's --pod-handlers "+
		"and restart the operator; an update that is still desired is then planned again automatically: %s", MachineName(m), node, wayout.Handlers(namespace))
	want := append(stalled(v1alpha1.ReasonNoRunner, message),
		Condition{v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonNoRunner, message})
	return Merge(old, generation, now, EndConditions, want...)
}

// erases reports whether the step that runs is that of a drive which erases itself.
func (f JobFacts) erases() bool { return strings.HasPrefix(f.Step+" ", string(plan.Erase)+" ") }

// jobCancelling says what a cancellation waits for.
func jobCancelling(f JobFacts) []Condition {
	c := Condition{Type: v1alpha1.ConditionCancelling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWaitingForStep}
	switch {
	case f.Outcome != "" || f.Cancelling == "":
		return nil
	case f.Cancelling == step.GracePeriod:
		c.Message = fmt.Sprintf("Step %s has until %s to end by itself, and no other step begins. To end it at once: %s",
			f.Step, f.GraceUntil.UTC().Format(time.RFC3339), wayout.Set("fwj", f.Name, `"cancel":{"mode":"Force"}`))
	case f.erases() && f.Cancelling == step.WriteRunning && !f.CancelForce:
		c.Message = "The drives that have begun to erase themselves go on, and no other one is told to. The job ends when they are done, and holds the node. " +
			"To give them up, without a proof: " + wayout.Set("fwj", f.Name, `"cancel":{"mode":"Force"}`)
	case f.Failure != nil && !f.erases():
		c.Message = fmt.Sprintf("The job has already failed, and step %s, which follows from that, cannot be cancelled. Wait for it to end.", f.Step)
	case f.Cancelling == step.WriteRunning && f.CancelForce:
		c.Message = fmt.Sprintf("Step %s writes to the hardware and is never interrupted, not even by force. The job ends right after the write and holds the node.",
			f.Step)
	case f.Cancelling == step.WriteRunning:
		c.Message = fmt.Sprintf("Step %s writes to the hardware and is never interrupted. The job ends right after the step and holds the node.", f.Step)
	default:
		c.Message = fmt.Sprintf("Step %s may not be interrupted. The job ends right after it.", f.Step)
	}
	return []Condition{c}
}
