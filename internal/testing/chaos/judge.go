package chaos

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/erase"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Violation is an invariant that did not hold.
type Violation struct {
	// Invariant is its short name: I1 to I10, or the number of a requirement.
	Invariant string `json:"invariant"`
	Message   string `json:"message"`
	// event is the index of the event that shows it.
	event int
}

// judge is the checker: it knows the history and nothing else.
type judge struct {
	history []Event
	at      int
	found   []Violation

	// answered is what the cluster last said to this daemon about the maintenance; asked is false while it said nothing.
	answered step.Maintenance
	asked    bool
	// saved is the job as it was saved last, by UID.
	saved map[string]journal.Job
	// writes counts the writes of an image to a device, reboots the requests of a job, changed what a job did to a device.
	writes  map[string]int
	erases  map[string]int
	reboots map[string]int
	changed map[string][]Event
	reads   map[string]Event
	// cutOff is when the node was cut off by its own firmware; zero while it is not.
	cutOff time.Duration
	// returned says that a person returned the node to service as it is.
	returned bool
	// reset says that the host was reset since the last write.
	reset bool
	// harm says that a fault was injected that explains a complaint about sound firmware.
	harm bool
	// bereaved says that a drive died that is none of the jobs'.
	bereaved bool
	// boots is what is known of the speed of the host's boots.
	boots boots
	// quiet says that no job runs and nobody asks for one.
	quiet bool
}

// judgeHistory lists the violations of a history, in order.
func judgeHistory(history []Event) []Violation {
	j := &judge{
		history: history, saved: map[string]journal.Job{}, writes: map[string]int{}, erases: map[string]int{}, reboots: map[string]int{},
		changed: map[string][]Event{}, reads: map[string]Event{}, boots: newBoots(),
	}
	for i, e := range history {
		j.at = i
		j.event(e)
	}
	return j.found
}

func (j *judge) violate(invariant, format string, args ...any) {
	j.found = append(j.found, Violation{invariant, fmt.Sprintf(format, args...), j.at})
}

func (j *judge) event(e Event) {
	if j.quiet && (e.Kind.changes() || e.Kind == EventSchedule || e.Kind == EventRelease) {
		j.violate("Quiet", "%s though the job has ended and nobody asked for anything", e.Kind)
	}
	switch e.Kind {
	case EventBroken:
		j.violate("End", "%s", e.Detail)
	case EventStart:
		j.asked = false
	case EventMaintenance:
		j.answered, j.asked = e.Maintenance, true
	case EventBoot:
		j.reset = j.reset || e.Detail != byKexec
		j.boots.booted(e)
	case EventPerson:
		j.returned = j.returned || e.Detail == returnsNode
	case EventCutOff:
		if !j.returned { // what the person who returned the node found wrong is theirs
			j.cutOff = e.Time
		}
	case EventReachable:
		j.alone(e)
	case EventFault:
		j.harm = j.harm || !slices.Contains(harmless, e.Fault)
		j.bereaved = j.bereaved || e.Fault == BystanderDies
	case EventRead:
		if e.Version != "" { // a device that does not answer later takes nothing back from what it said
			j.reads[e.Device] = e
		}
	case EventSaved:
		j.save(e)
		j.certified(e)
	case EventErase:
		if !e.Spec.Consented {
			j.violate("Consent", "%s was told to erase itself, for which nobody consented", e.Device)
		}
	case EventErasing:
		j.erased(e)
	case EventSchedule:
		j.intent(e, plan.Maintenance)
	case EventRelease:
		j.release(e)
	case EventAfterEnd:
		j.alone(e)
		j.end(*e.Snapshot)
	case EventQuiet, EventQuietOver:
		j.quiet = e.Kind == EventQuiet
	}
	if e.Kind.changes() {
		j.change(e)
	}
}

// maxAlone is how long a node may be cut off by its own firmware: the wait for the API server, the wait for the health of the
// host, and two boots and writes.
const maxAlone = time.Hour

// alone judges how long the node was cut off, when that is over. The end of a job that nobody can undo ends it too.
func (j *judge) alone(e Event) {
	if since := max(j.cutOff, e.Calm); j.cutOff > 0 && e.Time-since > maxAlone {
		j.violate("Alone", "the node was cut off by its own firmware for %s and did nothing about it", e.Time-since)
	}
	j.cutOff = 0
}

// intent returns the running step on disk, and reports a violation unless it is of one of the kinds.
func (j *judge) intent(e Event, kinds ...plan.Kind) *step.Step {
	if e.Job == nil {
		j.violate("I1", "%s without a job in the journal", e.Kind)
		return nil
	}
	s := e.Job.CurrentStep()
	switch {
	case s == nil || !slices.Contains(kinds, s.Kind):
		j.violate("I1", "%s while the journal on disk is elsewhere: %v", e.Kind, s)
	case s.State != step.Running || s.Attempt == 0:
		j.violate("I1", "%s though the step %s is %s on disk", e.Kind, s.Kind, s.State)
	case s.Device != "" && s.Device != nameOf(e.Device):
		j.violate("I1", "%s of %s while the journal on disk is at %s", e.Kind, e.Device, s.Device)
	default:
		return s
	}
	return nil
}

// change judges an operation that changes a device or the host.
func (j *judge) change(e Event) {
	kinds := map[EventKind][]plan.Kind{
		EventWrite: {plan.Flash, plan.Restore}, EventRevert: {plan.Restore}, EventConfigure: {plan.Configure}, EventActivate: {plan.Activate}, EventReboot: {plan.Reboot},
		EventTask: {scrub}, EventErase: {plan.Erase},
	}
	if e.Job != nil && e.Job.Record.NeedsIntervention() {
		j.violate("R002-27", "%s after a person was asked for", e.Kind)
		return
	}
	s := j.intent(e, kinds[e.Kind]...)
	if s == nil {
		return
	}
	j.maintenance(e, *s)
	switch {
	case e.Kind == EventReboot && len(e.Busy) > 0:
		j.violate("I2", "reboot while %v is written", e.Busy)
	case slices.Contains(e.Busy, e.Device):
		j.violate("I2", "%s while a write to %s runs", e.Kind, e.Device)
	}
	j.member(e)
	switch e.Kind {
	case EventReboot:
		j.again(e)
		if j.reboots[e.Job.UID]++; j.reboots[e.Job.UID] > mostReboots(*e.Job) {
			j.violate("R002-25", "reboot %d of the job", j.reboots[e.Job.UID])
		}
		return
	case EventTask, EventErase:
		return // they leave the firmware alone
	case EventWrite, EventRevert:
		j.reset = false
		j.write(e, *s)
	}
	j.changed[e.Job.UID] = append(j.changed[e.Job.UID], e)
}

// maxUnseen is how long before an operation a set may have lost a drive without the engine having seen it.
const maxUnseen = time.Minute

// member judges an operation on a drive that is a member of a set or carries the node.
func (j *judge) member(e Event) {
	at := e.Kind == EventActivate || e.Spec.Activation == inventory.ActivateNone
	erases := e.Kind == EventTask || e.Kind == EventErase
	if e.Spec.Carries != "" && at && !erases {
		j.violate("Carrier", "%s of %s, which carries %s and may only be activated by a reboot", e.Kind, e.Device, e.Spec.Carries)
	}
	if e.Spec.Set == "" || erases {
		return
	}
	if e.Weak > maxUnseen {
		j.violate("Set", "%s of %s, though %s has had no drive to spare for %s", e.Kind, e.Device, e.Spec.Set, e.Weak)
	}
	for uid, changes := range j.changed {
		for _, other := range changes {
			both := other.Spec.Set == e.Spec.Set && other.Device != e.Device
			if both && (uid == e.Job.UID || slices.Contains(e.Busy, other.Device)) {
				j.violate("Set", "%s of %s after %s of %s, which are both of %s", e.Kind, e.Device, other.Kind, other.Device, e.Spec.Set)
				return
			}
		}
	}
}

// maintenance: its last known state must allow the write.
func (j *judge) maintenance(e Event, s step.Step) {
	before := s.Attempt > 1
	for _, other := range e.Job.Record.Steps {
		before = before || other.Writes() && other.Attempt > 0 && !reflect.DeepEqual(other.Step, s.Step)
	}
	switch {
	case !j.asked:
		j.violate("I1", "%s without asking for the maintenance", e.Kind)
	case j.answered == step.MaintenanceReady, j.answered == step.MaintenanceUnknown && before:
	default:
		j.violate("I1", "%s though the maintenance is %d", e.Kind, j.answered)
	}
}

// erased judges that a drive begins to erase itself.
func (j *judge) erased(e Event) {
	if e.Job == nil {
		return // the tool outlived the job
	}
	key := e.Job.UID + e.Device
	if j.erases[key]++; j.erases[key] > 1 {
		j.violate("Once", "%s erases itself for the %d. time for one job", e.Device, j.erases[key])
	}
}

// certified judges what the journal claims to be proven, and gets a certificate.
func (j *judge) certified(e Event) {
	if e.Job == nil {
		return
	}
	for _, s := range e.Job.Record.Steps {
		if s.Kind == plan.Erase && erase.ReadProof(s.Data) != nil && slices.Contains(e.Holding, s.Device) {
			j.violate("Certified", "%s is proven erased and still holds data", s.Device)
		}
	}
}

func (j *judge) write(e Event, s step.Step) {
	u, r := update(*e.Job, e.Device), e.Job.Record
	back := step.Update{}
	for _, ru := range r.Updates {
		if ru.Device == nameOf(e.Device) {
			back = ru
		}
	}
	if s.Kind == plan.Restore {
		if e.Version != back.From || !s.Rollback || r.Failure == nil || !slices.Contains(r.Failure.Blames, s.Device) {
			j.violate("I5", "restored %s on %s, which is to run %s", e.Version, e.Device, back.From)
		}
		if !e.Archived {
			j.violate("I5", "the archive of %s was lost or overwritten", e.Device)
		}
		return
	}
	j.flash(e, u)
	if !e.Archived {
		j.violate("I1", "flashed %s though what ran before would not survive a power cut", e.Device)
	}
}

func (j *judge) flash(e Event, u journal.Update) {
	if e.Digest.String() != u.Digest {
		j.violate("I1", "flashed %s with %s instead of %s", e.Device, e.Digest, u.Digest)
	}
	failed := e.Record.LastFailure
	if failed != nil && failed.Digest == u.Digest && !e.Job.Clearance().Clears(failed.Retry) {
		j.violate("I5", "flashed %s with an image that failed on it: %s", e.Device, failed.Message)
	}
	key := e.Device + u.Digest
	j.writes[key]++
	switch tries := e.Record.Attempts; {
	case tries == nil || tries.Digest != u.Digest || tries.Writes < j.writes[key]:
		j.violate("R002-15", "write %d of %s is not counted on disk: %+v", j.writes[key], e.Device, tries)
	case tries.Writes-tries.Cleared > engine.MaxWrites:
		j.violate("I5", "%s was written %d times", e.Device, tries.Writes)
	}
}

func update(job journal.Job, uniqueID string) journal.Update {
	for _, u := range job.Updates {
		if u.UniqueID == uniqueID {
			return u
		}
	}
	return journal.Update{Device: "none of the job's"}
}

// save judges what may change from one state of the journal to the next.
func (j *judge) save(e Event) {
	if e.Job == nil {
		return
	}
	was, known := j.saved[e.Job.UID]
	j.saved[e.Job.UID] = *e.Job
	j.boots.compares(e, known)
	if !known {
		return
	}
	anew := e.Job.Record.Restarts > was.Record.Restarts || e.Job.Record.SecondBoot && !was.Record.SecondBoot ||
		reconfigured(e.Job.Record) > reconfigured(was.Record)
	for i, b := range was.Record.Steps {
		if i >= len(e.Job.Record.Steps) {
			j.violate("P4", "the steps of the rollback are gone from the journal")
			return
		}
		n := e.Job.Record.Steps[i]
		limit, rounds := int32(step.MaxAttempts), n.Kind == scrub || n.Kind == plan.Erase
		switch {
		case n.Kind == plan.Reboot:
			limit = int32(mostReboots(*e.Job)) //nolint:gosec // a few
		case reconfigured(e.Job.Record) > 0 && (n.Kind == plan.Configure || n.Kind == plan.Activate):
			limit *= 2
		}
		switch {
		case n.Attempt < b.Attempt:
			j.violate("I5", "the attempts of %s %s went from %d to %d", n.Kind, n.Device, b.Attempt, n.Attempt)
		case rounds && n.Interruptions > step.MaxInterruptions:
			j.violate("I5", "%s %s was interrupted %d times and begun again", n.Kind, n.Device, n.Interruptions)
		case rounds && n.Interruptions < b.Interruptions:
			j.violate("I5", "the interruptions of %s %s went from %d to %d", n.Kind, n.Device, b.Interruptions, n.Interruptions)
		case n.Writes() && !rounds && n.Attempt > limit:
			j.violate("I5", "%s %s was begun %d times", n.Kind, n.Device, n.Attempt)
		case b.State != step.Pending && b.State != step.Running && n.State != b.State && !anew && !rejudged(b, n, was.Record, e):
			j.violate("I5", "%s %s was %s and is %s", n.Kind, n.Device, b.State, n.State)
		}
	}
	j.slow(e, was.Record)
	if !same(was.Record.Verdict, e.Job.Record.Verdict) {
		j.verdict(e, was.Record, e.Job.Record)
	}
}

// mostReboots is how often a job may request a reboot: twice more where it gives a device firmware and settings.
func mostReboots(job journal.Job) int {
	if slices.ContainsFunc(job.Updates, func(u journal.Update) bool { return u.Version != "" && len(u.Settings) > 0 }) {
		return step.MaxReboots + 2
	}
	return step.MaxReboots
}

// reconfigured is in how many parts of a job settings were told once more.
func reconfigured(r step.Record) int {
	n := 0
	for _, u := range r.Updates {
		if u.Reconfigured {
			n++
		}
		if u.UndoneAgain {
			n++
		}
	}
	return n
}

// rejudged reports whether the gate runs again because the host has rebooted since its verdict, and settings are read again before.
func rejudged(before, now step.Step, was step.Record, e Event) bool {
	settings := now.Kind == plan.Verify && slices.ContainsFunc(e.Job.Updates, func(u journal.Update) bool {
		return u.Device == now.Device && u.Configures()
	})
	return (now.Kind == plan.Health || settings) && before.State == step.Succeeded && now.State == step.Pending && was.Verdict != nil &&
		was.Verdict.BootID != e.Boot
}

func same(a, b *step.Verdict) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Healthy == b.Healthy && a.BootID == b.BootID && a.Time.Equal(b.Time)
}

func (j *judge) verdict(e Event, was, is step.Record) {
	judged := false
	for i, s := range is.Steps {
		settled := s.State == step.Succeeded || s.State == step.StepFault
		judged = judged || s.Kind == plan.Health && settled && (i >= len(was.Steps) || was.Steps[i].State == step.Running)
	}
	switch {
	case is.Verdict == nil || !judged:
		j.violate("R002-19", "a verdict by something else than the gate")
	case e.Detail == "" && is.Verdict.BootID != e.Boot:
		j.violate("R002-31", "a verdict about %s under %s", is.Verdict.BootID, e.Boot)
	}
}

func (j *judge) release(e Event) {
	if j.intent(e, plan.Release) == nil {
		return
	}
	if f := e.Job.Record.Failure; f != nil && f.Held && !e.Job.Record.Released {
		j.violate("I9", "returned a node that is held: %s", f.Message)
	}
}

// end judges how a job ended.
func (j *judge) end(s snapshot) {
	if s.guarded {
		j.violate("Guard", "the host still starts a guard though the job has ended")
	}
	for _, st := range s.job.Record.Steps {
		if st.State == step.Running {
			j.violate("End", "the job has ended and its step %s %s runs", st.Kind, st.Device)
		}
	}
	switch s.job.Record.Outcome {
	case step.Complete:
		j.complete(s)
	case step.Failed:
		j.failed(s)
	default:
		j.violate("End", "the job ended without an outcome")
	}
}

func (j *judge) complete(s snapshot) {
	r := s.job.Record
	if r.Failure != nil {
		j.violate("I4", "complete with a failure: %s", r.Failure.Message)
	}
	if len(j.changed[s.job.UID]) > 0 && (r.Verdict == nil || !r.Verdict.Healthy) {
		j.violate("I4", "success without a verdict of the gate")
	}
	if s.in != step.MaintenanceNone && !r.UnderHold {
		j.violate("I9", "the node was left in maintenance")
	}
	for _, st := range r.Steps {
		if st.Kind == plan.Erase && erase.ReadProof(st.Data) == nil {
			j.violate("I4", "success though %s is not proven erased", st.Device)
		}
	}
	for _, d := range s.devices {
		if d.gone || len(s.job.Requested) > 0 {
			continue
		}
		if d.spec.Setting && d.setting != settingValue {
			j.violate("I4", "success though the setting of %s is %s", d.spec.ID, d.setting)
		}
		if d.spec.SettingOnly {
			continue
		}
		if d.running != newVersion || d.stored != newVersion {
			j.violate("I4", "success though %s runs %s and stores %s", d.spec.ID, d.running, d.stored)
		}
		if d.ails && r.Touched(nameOf(d.spec.ID)) {
			j.violate("I4", "success though the firmware of %s is at fault", d.spec.ID)
		}
		j.readBack(s, d)
	}
}

// readBack requires for a success that the device was read at its target after the last change, and after a reboot where
// only a reboot activates it.
func (j *judge) readBack(s snapshot, d deviceState) {
	for _, e := range j.changed[s.job.UID] {
		if e.Device != d.spec.ID {
			continue
		}
		read := j.reads[d.spec.ID]
		switch {
		case read.Version != newVersion || read.Time < e.Time:
			j.violate("I4", "success of %s, which was last read as %q", d.spec.ID, read.Version)
		case e.Kind == EventWrite && d.spec.Activation == inventory.ActivateReboot && read.Boot == e.Boot:
			j.violate("I4", "success of %s without a new boot", d.spec.ID)
		}
	}
}

func (j *judge) failed(s snapshot) {
	r := s.job.Record
	if r.Failure == nil || r.Failure.Message == "" {
		j.violate("I7", "failed without a word")
		return
	}
	if !j.harm && s.sound() {
		j.sound(s)
	}
	if r.Failure.Reason == step.PowerCycleRequired && len(j.changed[s.job.UID]) > 0 && !j.reset {
		j.violate("Reset", "a device is said to need its power removed though the host was never reset: %s", r.Failure.Message)
	}
	inService := !s.held && !r.Released && !r.UnderHold
	switch {
	case s.held && !s.stolen && s.in != step.MaintenanceReady:
		j.violate("I9", "held without a maintenance: %s", r.Failure.Message)
	case !s.held && s.in != step.MaintenanceNone && !r.UnderHold:
		j.violate("I9", "left in maintenance without being held: %s", r.Failure.Message)
	case len(r.Failure.Blames) > 0 && !r.RolledBack() && inService:
		j.violate("I7", "new firmware is at fault and the node is in service: %s", r.Failure.Message)
	case inService && !r.RolledBack() && len(j.changed[s.job.UID]) > 0:
		j.violate("I7", "the node is in service though the job changed it and failed: %s", r.Failure.Message)
	case r.RolledBack() && (r.Verdict == nil || !r.Verdict.Healthy || r.Failure.Held):
		j.violate("I4", "rolled back without a healthy verdict, or held")
	}
	for _, d := range s.devices {
		if inService && !d.gone {
			j.left(r, d)
		}
	}
}

// sound judges a failure of which the new firmware is not the cause. A BIOS may be that of a drive that died, until it was taken back.
func (j *judge) sound(s snapshot) {
	r := s.job.Record
	mayBe := j.bereaved && slices.ContainsFunc(s.devices, func(d deviceState) bool { return d.spec.Class == inventory.BIOS })
	tried := r.Rollback != nil && len(r.Rollback.Devices) > 0 && r.Rollback.Failure != nil && r.Rollback.Failure.Reason == step.Unhealthy
	switch blamed := len(r.Failure.Blames) > 0; {
	case blamed && tried:
		j.violate("Acquitted", "sound firmware is blamed though the previous one is as unhealthy: %s", r.Failure.Message)
	case blamed && !mayBe:
		j.violate("Spared", "sound firmware is blamed for what it did not do: %s", r.Failure.Message)
	case r.Rollback != nil && !mayBe:
		j.violate("Foreign", "sound firmware was taken back for what it did not do: %s", r.Failure.Message)
	}
}

// left judges a device on a node that is back in service after a failure.
func (j *judge) left(r step.Record, d deviceState) {
	brought := r.Rollback != nil && slices.Contains(r.Rollback.Devices, nameOf(d.spec.ID))
	switch {
	case d.running == drivertest.TornVersion || d.stored == drivertest.TornVersion:
		j.violate("I7", "the node is in service with a torn image in %s", d.spec.ID)
	case d.stored != d.running && !d.spec.Staged:
		j.violate("I7", "the node is in service and %s, running %s, hides %s", d.spec.ID, d.running, d.stored)
	case brought && d.spec.Setting && d.setting != settingBefore:
		j.violate("I4", "rolled back though the setting of %s is %s", d.spec.ID, d.setting)
	case d.spec.SettingOnly && d.running != oldVersion:
		j.violate("I4", "a job that gives %s settings alone left it with %s", d.spec.ID, d.running)
	case brought && !d.spec.SettingOnly && d.running != d.original:
		j.violate("I4", "rolled back though %s runs %s", d.spec.ID, d.running)
	}
}
