package job

import (
	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
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
	case f.object.Ended():
		return leave
	case f.startedBefore() && !f.mine: // a report that it waits would hide that it was started
		return leave
	case f.startedBefore():
		return refuse
	case f.object.DeletionTimestamp != nil && f.object.Spec.Cancel == nil && !f.object.Admitted():
		return leave // the operator lets it go: often it was replaced, and a record of that would keep its updates from being planned
	case isToStop(f.object):
		return cancelUnstarted
	case f.object.Admitted() && f.busy == "" && f.mine && refusal(f) != nil:
		return refuse
	case f.object.Admitted() && f.busy == "" && f.mine:
		return submit
	}
	return queue
}

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
