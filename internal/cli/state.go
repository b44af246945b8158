package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
)

// State is the content of the state directory of this machine, for printing.
type State struct {
	Directory string `json:"directory"`
	// Schema and Daemon are those of the stamp: the daemon that opened the directory last.
	Schema int    `json:"schema,omitempty"`
	Daemon string `json:"daemon,omitempty"`
	// InUse says that a daemon, or a command, has the directory open now.
	InUse  bool   `json:"inUse"`
	BootID string `json:"bootID,omitempty"`
	// Job is the one that runs or holds the node; nil when none does.
	Job *StateJob `json:"job,omitempty"`
	// Verdict is the last one of the health gate; nil when it never judged.
	Verdict *journal.Verdict `json:"verdict,omitempty"`
	Devices []StateDevice    `json:"devices"`
	Archive []ArchivedImage  `json:"archive"`
	// History of finished jobs, newest first.
	History   []journal.Past `json:"history,omitempty"`
	Leftovers []string       `json:"leftovers,omitempty"`
	// Earlier are directories with the state of a development build.
	Earlier []string `json:"earlier,omitempty"`
	// Foreign are directories with the state of other machines.
	Foreign []string `json:"foreign,omitempty"`
	// Problems says what could not be read, and why.
	Problems []string `json:"problems,omitempty"`
}

// StateJob is the job that runs or holds the node.
type StateJob struct {
	Name     string    `json:"name"`
	Accepted time.Time `json:"accepted"`
	// Held says that the job failed and keeps the node out of service.
	Held bool `json:"held,omitempty"`
	// Step runs or runs next; empty when the job is over.
	Step    string `json:"step,omitempty"`
	State   string `json:"state,omitempty"`
	Attempt int32  `json:"attempt,omitempty"`
	Message string `json:"message,omitempty"`
	// Failure says why the job failed; empty while it has not.
	Failure string `json:"failure,omitempty"`
	// RolledBack says that what ran before runs again. NeedsIntervention says that it could not be restored.
	RolledBack        bool `json:"rolledBack,omitempty"`
	NeedsIntervention bool `json:"needsIntervention,omitempty"`
}

// StateDevice is what the journal knows about one device.
type StateDevice struct {
	UniqueID string `json:"uniqueID"`
	// Applied is the version that was read back after the last update; LastGood is what a rollback brings back while the
	// device is unhealthy.
	Applied  string `json:"applied,omitempty"`
	LastGood string `json:"lastGood,omitempty"`
	// Writes counts the writes of the image Digest that were begun, and Reboots the reboots that were requested for it.
	Digest  string `json:"digest,omitempty"`
	Writes  int    `json:"writes,omitempty"`
	Reboots int    `json:"reboots,omitempty"`
	// Failed is the last update that failed; its image is not tried again until a person asks.
	Failed *journal.Failure `json:"failed,omitempty"`
	// FailedSettings is the last change of settings that failed; these are not tried again until a person asks.
	FailedSettings *journal.Failure `json:"failedSettings,omitempty"`
	// Drift are the settings that flashes changed and no job gave the device, with what they were before.
	Drift []journal.Setting `json:"drift,omitempty"`
	// Unhealthy is set until a person clears that a job left the device unhealthy.
	Unhealthy *journal.UnhealthyMark `json:"unhealthy,omitempty"`
}

// unknownHealth is the result of a verdict under another boot.
const unknownHealth journal.Health = "Unknown"

// ErrUnreadableState says that a part of the state could not be read.
var ErrUnreadableState = errors.New("not all of the state can be read")

// ReadState reads the state directory, also while another process has it open, and changes nothing. The boot id is that of
// the running kernel, empty where it cannot be read: the verdict of another boot is shown as Unknown. With
// ErrUnreadableState, what could be read is returned too.
func ReadState(dir, bootID string) (State, error) {
	found, err := state.Inspect(dir)
	if err != nil {
		return State{}, fmt.Errorf("%w; nothing has run with this --state-dir, or this user may not read it", err)
	}
	out := State{
		Directory: dir, InUse: found.Locked, BootID: bootID, Devices: []StateDevice{}, Archive: archived(found.Archive),
		History: found.Journal.History, Leftovers: found.Leftovers, Earlier: found.Earlier, Foreign: found.Foreign, Problems: found.Problems,
	}
	if s := found.Stamp; s != nil {
		out.Schema, out.Daemon = s.Schema, s.Daemon
	}
	if v := found.Journal.Verdict; v != nil {
		judged := *v
		if judged.BootID != bootID {
			judged.Result = unknownHealth
		}
		out.Verdict = &judged
	}
	if job := found.Journal.Active(); job != nil {
		out.Job = stateJob(*job)
	}
	for _, id := range slices.Sorted(maps.Keys(found.Journal.Devices)) {
		out.Devices = append(out.Devices, stateDevice(found.Journal.Devices[id]))
	}
	if len(out.Problems) > 0 {
		return out, ErrUnreadableState
	}
	return out, nil
}

func stateJob(j journal.Job) *StateJob {
	out := &StateJob{
		Name: j.Name, Accepted: j.Accepted, Held: j.Held(), RolledBack: j.Record.RolledBack(),
		NeedsIntervention: j.Record.NeedsIntervention(),
	}
	if s := j.CurrentStep(); s != nil {
		out.Step, out.State, out.Attempt, out.Message = stepName(*s), string(s.State), s.Attempt, s.Message
	}
	if f := j.Record.Failure; f != nil {
		out.Failure = fmt.Sprintf("%s: %s", f.Reason, f.Message)
	}
	return out
}

func stateDevice(d journal.Device) StateDevice {
	out := StateDevice{
		UniqueID: d.UniqueID, LastGood: d.LastGood, Failed: d.LastFailure, FailedSettings: d.SettingsFailure, Drift: d.Drift, Unhealthy: d.Unhealthy,
	}
	if d.LastApplied != nil {
		out.Applied = d.LastApplied.Version
	}
	if a := d.Attempts; a != nil {
		out.Digest, out.Writes, out.Reboots = a.Digest, a.Writes, a.Reboots
	}
	return out
}

func (s State) table(w io.Writer) error {
	fmt.Fprintf(w, "State:   %s, %s\n", s.Directory, s.use())
	fmt.Fprintf(w, "Opened:  %s\n", s.opened())
	fmt.Fprintf(w, "Boot:    %s\n", cmp.Or(s.BootID, "unknown"))
	fmt.Fprintf(w, "Job:     %s\n", s.job())
	fmt.Fprintf(w, "Verdict: %s\n", s.verdict())
	if len(s.Devices) > 0 {
		fmt.Fprintln(w)
		if err := columns(w, []string{"DEVICE", "APPLIED", "LAST GOOD", "WRITES", "REBOOTS", "FAILED", "IMAGE", "UNHEALTHY"}, s.devices()); err != nil {
			return err
		}
	}
	for _, d := range s.Devices {
		if f := d.FailedSettings; f != nil {
			fmt.Fprintf(w, "\nSettings: those of %s failed: %s: %s\n", d.UniqueID, f.Reason, f.Message)
		}
		var drift []string
		for _, was := range d.Drift {
			drift = append(drift, was.Name+", which was "+cmp.Or(was.Value, "empty"))
		}
		if len(drift) > 0 {
			fmt.Fprintf(w, "\nDrift:    flashes of %s changed %s\n", d.UniqueID, strings.Join(drift, "; "))
		}
	}
	if len(s.Archive) > 0 {
		fmt.Fprintln(w)
		if err := (ArchiveList{s.Archive}).table(w); err != nil {
			return err
		}
	}
	for _, l := range s.Leftovers {
		fmt.Fprintf(w, "\nLeftover: %s holds half-made files of an interrupted start; remove it when it is not needed\n", l)
	}
	for _, e := range s.Earlier {
		fmt.Fprintf(w, "\nEarlier:  %s holds the state of a development build, which this version does not read; remove it when it is not needed\n", e)
	}
	for _, f := range s.Foreign {
		fmt.Fprintf(w, "\nForeign:  %s holds the state of another machine, of which nothing is done here; remove it when it is not needed\n", f)
	}
	for _, p := range s.Problems {
		fmt.Fprintf(w, "\nNot read: %s\n", p)
	}
	return nil
}

func (s State) use() string {
	if s.InUse {
		return "in use by a daemon"
	}
	return "no daemon uses it"
}

func (s State) opened() string {
	if s.Schema == 0 {
		return "never to its end"
	}
	return fmt.Sprintf("last by firmware-daemon %s, schema %d", cmp.Or(s.Daemon, "of unknown version"), s.Schema)
}

func (s State) job() string {
	j := s.Job
	if j == nil {
		return "none"
	}
	parts := []string{fmt.Sprintf("%s, accepted %s", j.Name, j.Accepted.UTC().Format(time.RFC3339))}
	if j.Step != "" {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s is %s (attempt %d) %s", j.Step, j.State, j.Attempt, j.Message)))
	}
	if j.Failure != "" {
		parts = append(parts, j.Failure)
	}
	switch {
	case j.RolledBack:
		parts = append(parts, "rolled back")
	case j.NeedsIntervention:
		parts = append(parts, "needs a person")
	}
	if j.Held {
		parts = append(parts, "holds the node")
	}
	return strings.Join(parts, "; ")
}

func (s State) verdict() string {
	v := s.Verdict
	if v == nil {
		return "none"
	}
	text := fmt.Sprintf("%s, under boot %s at %s by job %s", v.Result, v.BootID, v.Time.UTC().Format(time.RFC3339), v.Job)
	if v.Result == unknownHealth {
		text += ", which was another boot"
	}
	return strings.Join(append([]string{text}, v.Complaints...), "; ")
}

func (s State) devices() [][]string {
	var rows [][]string
	for _, d := range s.Devices {
		var failed, image, unhealthy string
		if f := d.Failed; f != nil {
			failed, image = f.Version+" "+f.Reason, shortDigest(f.Digest)
		}
		if u := d.Unhealthy; u != nil {
			unhealthy = "since " + u.Since.UTC().Format(time.RFC3339) + " by " + u.Job
		}
		rows = append(rows, []string{d.UniqueID, d.Applied, d.LastGood, count(d.Writes), count(d.Reboots), failed, image, unhealthy})
	}
	return rows
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// shortDigest is enough of a digest to distinguish images.
func shortDigest(digest string) string {
	digits := strings.TrimPrefix(digest, "sha256:")
	return digits[:min(len(digits), 12)]
}
