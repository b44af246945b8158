package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/erase"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Status maps how far a job is to the part of a FirmwareJob's status the daemon writes. Conditions of others in old are
// kept.
func Status(s engine.Snapshot, node string, old v1alpha1.FirmwareJobStatus, generation int64, now time.Time) v1alpha1.FirmwareJobStatus {
	j := s.Job
	out := v1alpha1.FirmwareJobStatus{
		ObservedGeneration: generation,
		Conditions:         status.Job(facts(s, node), old.Conditions, generation, now),
		StartTime:          stamp(&j.Accepted),
		Reboots:            int32(j.Record.Reboots()), //nolint:gosec // at most 3
		Verdict:            verdictOf(j),
		Blamed:             blamed(j),
		Request:            j.Retry,
	}
	out.Steps = brief(steps(s), roomForSteps(j.Updates, out.Blamed))
	switch {
	case j.Record.Outcome != "":
		out.CompletionTime = stamp(j.Finished)
	case j.Record.Released: // the job has ended; only its node is not back yet
		out.CompletionTime = old.CompletionTime
	}
	return out
}

// QueuedStatus is the status of a job that waits for the reason given.
func QueuedStatus(why, node string, old v1alpha1.FirmwareJobStatus, generation int64, now time.Time) v1alpha1.FirmwareJobStatus {
	f := status.JobFacts{Queued: why, Node: node}
	return v1alpha1.FirmwareJobStatus{
		ObservedGeneration: generation, Conditions: status.Job(f, old.Conditions, generation, now),
	}
}

func facts(s engine.Snapshot, node string) status.JobFacts {
	r := s.Job.Record
	f := status.JobFacts{
		Name: s.Job.Name, Waiting: s.Waiting, Maintenance: s.Maintenance.Phase, MaintenanceEnded: s.Job.MaintenanceEnded != nil,
		Outcome: r.Outcome, Failure: r.Failure, Held: s.Job.Held(), Look: s.Look, Node: node, Released: r.Released,
		SupersededBy: s.Job.SupersededBy, Summary: summary(s.Job), Slow: slow(s.Job), Rollback: r.Rollback, Overdue: s.Overdue,
	}
	f.SettingsOnly = len(s.Job.Updates) > 0 && !slices.ContainsFunc(s.Job.Updates, func(u journal.Update) bool { return !u.Configures() || u.Version != "" })
	f.ByHand = len(s.Job.Requested) > 0 && len(r.Steps) > 0 && !slices.ContainsFunc(r.Steps, func(s step.Step) bool { return s.OutOfService })
	if c := s.Cancelling; c != nil {
		f.Cancelling, f.CancelForce, f.GraceUntil = c.Reason, c.Force, c.Until
	}
	f.Archived, f.NoWayBack = archived(r)
	if e := s.Job.Exposed; e != nil {
		f.Unprotected, f.Uninhibited = e.Unprotected, e.Uninhibited
	}
	if g := s.Job.Guard; g != nil {
		f.Guarded, f.Unguarded = true, g.Missing
	}
	updatesNIC := slices.ContainsFunc(s.Job.Updates, func(u journal.Update) bool { return u.Class == inventory.NIC && u.Digest != "" })
	if b := s.Job.Baseline; b != nil && updatesNIC {
		f.Unwatched = b.Unwatched
	}
	for _, st := range r.Steps {
		if st.Kind == plan.Preflight && st.Returned != nil {
			f.Locked = st.Returned.Message
		}
		if st.Kind == plan.Maintenance {
			f.MaintenanceRequested = st.Attempt > 0
			if st.State == step.Succeeded && s.Maintenance.Phase == step.MaintenanceUnknown {
				f.Maintenance = step.MaintenanceReady // as the journal has it; the API server was not asked in this step
			}
			if st.State == step.Succeeded {
				f.MaintenanceSaid = cmp.Or(said(s.Look), said(s.Maintenance), st.Message)
			}
		}
	}
	if current := s.Job.CurrentStep(); current != nil {
		f.Step = strings.TrimSpace(string(current.Kind) + " " + current.Device)
	}
	return f
}

// said is what a maintenance says that is ready, which may name who else has the node by then.
func said(m maintenance.State) string {
	if m.Phase == step.MaintenanceReady {
		return m.Message
	}
	return ""
}

// archived reports whether every archive step has ended, and which devices have no way back.
func archived(r step.Record) (all bool, noWayBack []string) {
	for _, st := range r.Steps {
		if st.Kind != plan.Archive {
			continue
		}
		if st.State == step.Pending || st.State == step.Running {
			return false, nil
		}
		all = all || st.State == step.Succeeded
		for _, u := range r.Updates {
			if u.Device == st.Device && st.State == step.Succeeded && u.Rollback == inventory.RollbackNone {
				noWayBack = append(noWayBack, strings.TrimSuffix(u.Device+": "+u.RollbackMessage, ": "))
			}
		}
	}
	return all, noWayBack
}

// blamed lists the devices whose images or settings are at fault.
func blamed(j journal.Job) []v1alpha1.BlamedDevice {
	f := j.Record.Failure
	if f == nil {
		return nil
	}
	var out []v1alpha1.BlamedDevice
	for _, u := range j.Updates {
		if slices.Contains(f.Blames, u.Device) {
			out = append(out, v1alpha1.BlamedDevice{
				Device: u.Device, Evidence: evidences[evidenceFor(j.Record, u)], Message: text.Clip(f.Message, maxBlameMessage),
			})
		}
	}
	return briefBlame(out)
}

// evidenceFor is what the blame of a device is based on. Of a device that got settings alone, only these can be at fault.
func evidenceFor(r step.Record, u journal.Update) step.Evidence {
	switch {
	case u.Digest != "" || !u.Configures():
		return r.Evidence()
	case r.Failure.Settings && r.Failure.Device == u.Device, r.RolledBack():
		return step.OfDevice
	}
	return r.Failure.Evidence
}

// evidences are those of package step as the API names them.
var evidences = map[step.Evidence]v1alpha1.Evidence{
	step.OfDevice: v1alpha1.EvidenceDevice, step.Network: v1alpha1.EvidenceNetwork, step.OfNode: v1alpha1.EvidenceNode,
}

func summary(j journal.Job) string {
	switch {
	case len(j.Requested) > 0:
		return "Every step was run."
	case j.Backup:
		_, without := archived(j.Record)
		return fmt.Sprintf("The firmware of %d of %s was backed up.", len(j.Updates)-len(without), text.Quantity(len(j.Updates), "device", "devices"))
	}
	n, flashes := len(j.Updates), func(u journal.Update) bool { return u.Version != "" }
	switch {
	case n == 0 || n > 1 && slices.ContainsFunc(j.Updates, flashes):
		return fmt.Sprintf("%d devices run their target.", n)
	case n > 1:
		return fmt.Sprintf("%d devices have their settings.", n)
	}
	switch u := j.Updates[0]; {
	case !u.Configures():
		return fmt.Sprintf("%s runs %s.", u.Device, u.Version)
	case u.Version == "":
		return fmt.Sprintf("%s has its settings.", u.Device)
	default:
		return fmt.Sprintf("%s runs %s and has its settings.", u.Device, u.Version)
	}
}

// slow says that the node boots slowly since the job: a gate that passes has no other complaint.
func slow(j journal.Job) string {
	if v := j.Verdict(); v != nil && v.Result == journal.Healthy {
		return strings.Join(v.Complaints, "; ")
	}
	return ""
}

func steps(s engine.Snapshot) []v1alpha1.JobStep {
	out := make([]v1alpha1.JobStep, 0, len(s.Job.Record.Steps))
	current := s.Job.Record.Current()
	for i, st := range s.Job.Record.Steps {
		js := v1alpha1.JobStep{
			Name: string(st.Kind), Device: st.Device, State: v1alpha1.StepState(st.State), Attempt: st.Attempt,
			StartTime: stamp(st.Started), CompletionTime: stamp(st.Finished), Message: text.Clip(st.Message, maxMessage),
		}
		if st.Rollback {
			js.Part = v1alpha1.PartRollback
		}
		if st.Kind == plan.Erase && st.State == step.Succeeded {
			js.Sanitization = sanitization(st)
		}
		beside, ok := s.Beside[i]
		switch {
		case st.State != step.Running:
		case i == current:
			js.ProgressPercent = s.Percent
			if s.Waiting != "" {
				js.Message = text.Clip(s.Waiting, maxMessage)
			}
		case ok:
			js.Message = text.Clip(beside.Message, maxMessage)
			if beside.Percent >= 0 {
				js.ProgressPercent = new(int32(min(beside.Percent, 100))) //nolint:gosec // bounded
			}
		}
		out = append(out, js)
	}
	return shown(out, current)
}

// sanitization is the proof that a step erased its drive; nil for a step of an earlier version, which kept none.
func sanitization(st step.Step) *v1alpha1.Sanitization {
	p := erase.ReadProof(st.Data)
	if p == nil {
		return nil
	}
	return &v1alpha1.Sanitization{
		SerialNumber: text.Clip(p.SerialNumber, maxIdentity), Vendor: text.Clip(p.Vendor, maxIdentity), Model: text.Clip(p.Model, maxIdentity),
		StartTime: metav1.NewTime(p.Began), SizeBytes: p.Size, Method: text.Clip(p.Method, maxIdentity), Log: text.Clip(p.Log, maxLog),
		Samples: int32(p.Samples), HeldData: int32(p.Held), Seed: fmt.Sprintf("%#x", p.Seed), Version: text.Clip(p.Version, maxVersion), //nolint:gosec // at most 128 samples
	}
}

// Bounds of the API: the steps of a job, and the bytes of a step's message and of a blamed device's message.
const (
	maxSteps        = 512
	maxMessage      = 1024
	maxBlameMessage = 512
	maxIdentity     = 128
	maxLog          = 256
	maxVersion      = 64
)

// shown are at most as many steps as the API allows: the last ones, or those from the current step on if it is not among
// the last.
func shown(all []v1alpha1.JobStep, current int) []v1alpha1.JobStep {
	first := max(len(all)-maxSteps, 0)
	if current >= 0 {
		first = min(first, current)
	}
	return all[first:min(first+maxSteps, len(all))]
}

func stamp(t *time.Time) *metav1.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	s := metav1.NewTime(t.Truncate(time.Second))
	return &s
}

// sameStatus reports whether two statuses differ in nothing but the order of their conditions.
func sameStatus(old, want v1alpha1.FirmwareJobStatus) bool {
	old, want = *old.DeepCopy(), *want.DeepCopy()
	old.Conditions, want.Conditions = ordered(old.Conditions), ordered(want.Conditions)
	return equality.Semantic.DeepEqual(old, want)
}

func ordered(conditions []metav1.Condition) []metav1.Condition {
	return slices.SortedFunc(slices.Values(conditions), func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}

// verdictOf is the last result of the job's health gate; nil when there is none.
func verdictOf(j journal.Job) *v1alpha1.HealthVerdict {
	v := j.Verdict()
	if v == nil {
		return nil
	}
	return &v1alpha1.HealthVerdict{Result: v1alpha1.HealthResult(v.Result), BootID: v.BootID, Complaints: v.Complaints}
}
