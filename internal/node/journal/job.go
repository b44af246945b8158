package journal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Job is a job the daemon has started: a copy of its spec, and its progress. It does not depend on the API object,
// which may be deleted.
type Job struct {
	// Name and UID of the FirmwareJob. In local mode both are made up by the caller.
	Name    string   `json:"name"`
	UID     string   `json:"uid"`
	Updates []Update `json:"updates"`
	// Requested are the steps of a job of type Steps. Its Updates only name the devices the steps work on.
	Requested []RequestedStep `json:"requested,omitempty"`
	// Backup says that the job reads firmware into the archive and changes nothing.
	Backup bool `json:"backup,omitempty"`
	// TraceParent is the annotation of the FirmwareJob that says to which trace it belongs, for logs and events; empty where it has none.
	TraceParent string `json:"traceParent,omitempty"`
	// Retry is the request to retry that is in force for the job; failures of the job are recorded with it. It is nil only
	// before the job is accepted.
	Retry *string `json:"retry,omitempty"`
	// Release is the request to release the node that was in force when the daemon found that the job holds it: another one
	// releases the node. Nil before that.
	Release *string `json:"release,omitempty"`
	// Accepted is when the daemon started the job.
	Accepted time.Time `json:"accepted"`
	// Deadline for the first write; zero for none.
	Deadline time.Time `json:"deadline,omitzero"`
	// Cancel is the reason a person gave for cancelling the job; nil when it was not cancelled.
	Cancel *string `json:"cancel,omitempty"`
	// CancelForce says that the person asked for it with force.
	CancelForce bool `json:"cancelForce,omitempty"`
	// Record is the execution.
	Record step.Record `json:"record"`
	// Soak is how long the node must look healthy before its health gate passes.
	Soak time.Duration `json:"healthyFor,omitzero"`
	// CutOff is the wait of a node that its update may have cut off from the API server; nil while it does not wait.
	CutOff *CutOff `json:"cutOff,omitempty"`
	// Baseline is what the host had before the job, nil until it is taken.
	Baseline *health.Baseline `json:"baseline,omitempty"`
	// Expected is what the devices were which jobs changed that held the node before, when a person has mended it since; nil
	// for none. It completes the baseline with those that are still there.
	Expected *health.Baseline `json:"expected,omitempty"`
	// Guard says whether an engine is started on the host after a boot without the API server; nil where the job needed none
	// so far.
	Guard *Guard `json:"guard,omitempty"`
	// ProtectionRequired refuses the job's updates where the end of the daemon's container would end a write.
	ProtectionRequired bool `json:"protectionRequired,omitempty"`
	// UnlockRequired refuses the job's updates where an encrypted disk of the node would not open by itself afterwards.
	UnlockRequired bool `json:"unlockRequired,omitempty"`
	// Exposed is what could have ended a write of the job; nil where every write so far was protected, or nothing is known.
	Exposed *Exposed `json:"exposed,omitempty"`
	// Node identifies the Node that the job took out of service; empty until then, and where there is no cluster.
	Node string `json:"node,omitempty"`
	// Cordon is the one that ends with the node's maintenance for the job, or for the job that held the node before; zero where there is
	// none, or none is known.
	Cordon maintenance.Cordon `json:"cordon,omitzero"`
	// MaintenanceStarted and MaintenanceEnded are when the node's maintenance for this job began and ended.
	MaintenanceStarted *time.Time `json:"maintenanceStarted,omitempty"`
	MaintenanceEnded   *time.Time `json:"maintenanceEnded,omitempty"`
	// Finished is when the job ended, held or not; nil while it runs.
	Finished *time.Time `json:"finished,omitempty"`
	// SupersededBy is the name of the newer job that took over the held node.
	SupersededBy string `json:"supersededBy,omitempty"`
	// Reported says that the API server has the final state of the job.
	Reported bool `json:"reported,omitempty"`
}

// Exposed says why a write was not protected. An empty text stands for a protection that it had.
type Exposed struct {
	// Unprotected is why the end of the daemon's container would have ended it.
	Unprotected string `json:"unprotected,omitempty"`
	// Uninhibited is why a shutdown of the host was not put off for it.
	Uninhibited string `json:"uninhibited,omitempty"`
}

// CutOff is a wait for the API server that outlives the daemon. Its times are counted from the start of the kernel.
type CutOff struct {
	// BootID is the boot in which the node waits; under another the record is void.
	BootID string `json:"bootID"`
	// Since is when the wait began, and Seen about when the reason for it was last seen.
	Since time.Duration `json:"since"`
	Seen  time.Duration `json:"seen"`
}

// Guard is what is known of the guard of a job.
type Guard struct {
	// Missing says why there is none; empty where there is one.
	Missing string `json:"missing,omitempty"`
}

// Update is the update of one device.
type Update struct {
	// Device is the name of the device, and UniqueID the hardware that the update is for.
	Device   string          `json:"device"`
	UniqueID string          `json:"uniqueID"`
	Class    inventory.Class `json:"class"`
	// Driver of the device; the steps it provides apply to the device too.
	Driver string `json:"driver,omitempty"`
	// FromVersion ran when the update was planned, and Version should run after it.
	FromVersion string `json:"fromVersion,omitempty"`
	Version     string `json:"version,omitempty"`
	// Digest of the image, and RollbackDigest of an image of FromVersion; the latter is empty where no source has one.
	Digest         string `json:"digest,omitempty"`
	RollbackDigest string `json:"rollbackDigest,omitempty"`
	// AllowDowngrade lets an older version be flashed.
	AllowDowngrade bool `json:"allowDowngrade,omitempty"`
	// Settings are those that the device gets. ResetUnlisted says that all others get their defaults.
	Settings      []Setting `json:"settings,omitempty"`
	ResetUnlisted bool      `json:"resetUnlisted,omitempty"`
	// Configuration is the digest of both, by which they are known when they fail; empty in local mode.
	Configuration string `json:"configuration,omitempty"`
	// Resets are those others with their defaults, or those of the archive, and Before is what the device had, which a rollback gives back. Both are known once the
	// preflight is settled.
	Resets []Setting `json:"resets,omitempty"`
	Before []Setting `json:"before,omitempty"`
	// Origin lists the objects that the update comes from.
	Origin []Origin `json:"origin,omitempty"`
	// Archived is the entry of the archive that holds the image, for an update that restores it; empty where a source has the image.
	Archived string `json:"archived,omitempty"`
	// ArchivedSettings says that the settings of that entry come back too.
	ArchivedSettings bool `json:"archivedSettings,omitempty"`
	// Declared are the names of the settings that are declared for the device, which those of the archive may displace.
	Declared []string `json:"declared,omitempty"`
	// Desired is what would be flashed over the restored image; nil for nothing.
	Desired *Desired `json:"desired,omitempty"`
}

// Configures reports whether the device gets settings.
func (u Update) Configures() bool {
	return len(u.Settings) > 0 || u.ResetUnlisted || u.ArchivedSettings
}

// Setting is one setting of a device.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Settings are the settings as the journal has them.
func Settings(of []inventory.Setting) []Setting {
	var out []Setting
	for _, s := range of {
		out = append(out, Setting(s))
	}
	return out
}

// Desired is firmware that a device should run. It has no digest where no image is known.
type Desired struct {
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// Origin is one object that the firmware of a device comes from, as it was then.
type Origin struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	// Rule of the object that assigned the firmware.
	Rule string `json:"rule,omitempty"`
	// Hash of the content that mattered.
	Hash string `json:"hash,omitempty"`
}

// RequestedStep is one step of a job of type Steps.
type RequestedStep struct {
	Name string `json:"name"`
	// Device the step works on; empty for every device that it applies to.
	Device string `json:"device,omitempty"`
	// Expected is what verify-inventory compares the host with.
	Expected []Expectation `json:"expected,omitempty"`
}

// Expectation says how many devices of a kind the host should have.
type Expectation struct {
	Selector Selector `json:"selector"`
	Count    int      `json:"count"`
}

// Selector selects devices as that of a template does. An empty field stands for any.
type Selector struct {
	Class         inventory.Class `json:"class"`
	Vendor        string          `json:"vendor,omitempty"`
	Models        []string        `json:"models,omitempty"`
	BoardIDs      []string        `json:"boardIDs,omitempty"`
	SerialNumbers []string        `json:"serialNumbers,omitempty"`
	PCIAddresses  []string        `json:"pciAddresses,omitempty"`
}

// Verdict is a result of the health gate.
type Verdict struct {
	// Result is Healthy or Unhealthy.
	Result Health `json:"result"`
	// BootID of the boot in which the host was checked. The verdict says nothing about another boot.
	BootID string    `json:"bootID"`
	Time   time.Time `json:"time"`
	Job    string    `json:"job"`
	// Complaints lists what is worse than before.
	Complaints []string `json:"complaints,omitempty"`
}

// Health is the result of a verdict.
type Health string

// The results of a verdict.
const (
	Healthy   Health = "Healthy"
	Unhealthy Health = "Unhealthy"
)

// Clearance clears the failures from before the job that a person asked to try again.
func (j Job) Clearance() plan.Clearance {
	if j.Retry == nil {
		return ""
	}
	return plan.Clearance(*j.Retry)
}

// TraceID is the trace of the job; empty where it belongs to none. A traceparent has it as the second of four fields.
func (j Job) TraceID() string {
	if fields := strings.Split(j.TraceParent, "-"); len(fields) == 4 {
		return fields[1]
	}
	return ""
}

// Held reports whether the job failed and still keeps the node out of service.
func (j Job) Held() bool {
	f := j.Record.Failure
	return f != nil && f.Held && !j.Record.Released && j.SupersededBy == "" && j.Record.Outcome != ""
}

// Restores reports whether the job writes back what the archive holds.
func (j Job) Restores() bool {
	return slices.ContainsFunc(j.Updates, func(u Update) bool { return u.Archived != "" })
}

// Active reports whether the job runs or holds the node.
func (j Job) Active() bool { return j.Record.Outcome == "" || j.Held() }

// CurrentStep is the step that runs, nil when none does.
func (j Job) CurrentStep() *step.Step {
	if i := j.Record.Current(); i >= 0 {
		return &j.Record.Steps[i]
	}
	return nil
}

// Verdict is the last result of the job's health gate; nil when there is none.
func (j Job) Verdict() *Verdict {
	v := j.Record.Verdict
	if v == nil {
		return nil
	}
	out := &Verdict{Result: Unhealthy, BootID: v.BootID, Time: v.Time, Job: j.Name}
	if v.Healthy {
		out.Result = Healthy
	}
	const maxComplaints, maxLength = 32, 512
	for _, c := range v.Complaints[:min(len(v.Complaints), maxComplaints)] {
		out.Complaints = append(out.Complaints, text.Clip(c.Message, maxLength))
	}
	return out
}

var (
	stepStates = []step.State{step.Pending, step.Running, step.Succeeded, step.StepFault, step.Skipped}
	outcomes   = []step.Outcome{"", step.Complete, step.Failed}
)

// decodeJob tolerates unknown fields and refuses unknown values: guessing the meaning of a state could flash a device
// twice.
func decodeJob(raw []byte) (Job, error) {
	var j Job
	if err := json.Unmarshal(raw, &j); err != nil {
		return j, fmt.Errorf("decode job: %w", err)
	}
	if !slices.Contains(outcomes, j.Record.Outcome) {
		return j, fmt.Errorf("decode job %s: unknown outcome %q; was it written by a newer daemon?", j.Name, j.Record.Outcome)
	}
	known := map[string]bool{}
	for _, u := range j.Record.Updates {
		known[u.Device] = true
	}
	for _, s := range j.Record.Steps {
		switch {
		case !slices.Contains(stepStates, s.State):
			return j, fmt.Errorf("decode job %s: unknown state %q of step %s; was it written by a newer daemon?", j.Name, s.State, s.Kind)
		case !s.Task && !slices.Contains(plan.UpdateKinds, s.Kind):
			return j, fmt.Errorf("decode job %s: unknown step %q; was it written by a newer daemon?", j.Name, s.Kind)
		case s.Device != "" && !known[s.Device]:
			return j, fmt.Errorf("decode job %s: step %s is for %s, which the job does not update", j.Name, s.Kind, s.Device)
		}
	}
	return j, nil
}
