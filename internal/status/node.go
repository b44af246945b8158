package status

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// NodeConditions are the condition types of a NodeFirmware that its daemon writes.
var NodeConditions = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
	v1alpha1.ConditionHeld, v1alpha1.ConditionDegraded, v1alpha1.ConditionHealthy,
}

// NodeFacts is what the daemon knows about its node when it reports.
type NodeFacts struct {
	// Node is the name of the Node and of its NodeFirmware.
	Node string
	// Devices of the node in order of name, with the conditions that were decided for them in this pass.
	Devices []DeviceSummary
	// Problems says which classes of devices could not be enumerated and which devices could not be distinguished, one
	// sentence each.
	Problems []string
	// Tools are the vendors' programs that the drivers of the node run.
	Tools []vendortool.Finding
	// Verdict is what the last health gate found; nil where none has judged the node.
	Verdict *VerdictFacts
	// Held says why the node is kept in maintenance; nil when it is not.
	Held *HeldFacts
	// Working names the job and the step that run now; empty when none does.
	Working string
}

// DeviceSummary is one device as the node's conditions need it.
type DeviceSummary struct {
	Name string
	// Assigned says that firmware or settings are desired of the device, and Configured that settings are.
	Assigned, Configured bool
	Conditions           []metav1.Condition
}

// HeldFacts is the failure that keeps a node in maintenance.
type HeldFacts struct {
	Job     string
	Reason  string
	Message string
	// Step and Device name where it happened; Device is empty where no single device is to blame.
	Step, Device string
	// NoWayBack says why the firmware that ran before could not be restored though new firmware is at fault, so that
	// nothing more is done until a person has looked; empty where that is not so.
	NoWayBack string
	// Look is how the maintenance stood when it was last looked at; zero where it was not yet.
	Look maintenance.State
}

// reason is what keeps the node: the failure, or that a person has to look.
func (h HeldFacts) reason() string {
	if h.NoWayBack != "" {
		return v1alpha1.ReasonNeedsIntervention
	}
	return h.Reason
}

// where names the step that failed.
func (h HeldFacts) where() string {
	switch {
	case h.Step == "":
		return ""
	case h.Device == "":
		return " at step " + h.Step
	}
	return " at step " + h.Step + " of " + h.Device
}

// Node maps facts to the conditions of a NodeFirmware.
func Node(f NodeFacts, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	want := nodeReady(f)
	if f.Held != nil {
		want = append(want, Condition{v1alpha1.ConditionHeld, metav1.ConditionTrue, f.Held.reason(), heldMessage(f)})
	}
	want = append(want, degraded(f)...)
	if f.Verdict != nil {
		want = append(want, f.Verdict.condition())
	}
	return Merge(old, generation, now, NodeConditions, want...)
}

// VerdictFacts is what a health gate found.
type VerdictFacts struct {
	Healthy bool
	// OtherBoot says that the node runs under another boot id by now.
	OtherBoot  bool
	Job        string
	Complaints []string
}

func (v VerdictFacts) condition() Condition {
	c := Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded}
	switch {
	case v.OtherBoot:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonPending
		c.Message = fmt.Sprintf("Job %s judged the node under another boot; the next job judges it again.", v.Job)
	case v.Healthy:
		c.Message = strings.TrimSpace(fmt.Sprintf("After job %s the node was as healthy as before it. %s", v.Job, bounded(sentences(v.Complaints))))
	default:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonUnhealthy
		c.Message = strings.TrimSpace(fmt.Sprintf("After job %s the node was not as healthy as before it. %s", v.Job, bounded(sentences(v.Complaints))))
	}
	return c
}

// degraded is the condition of a node of which something cannot be read, or that has tools which were not tested: first those that are
// not used. What is missing is said on the devices that need it, because few nodes need all tools.
func degraded(f NodeFacts) []Condition {
	var unused, used []string
	for _, t := range f.Tools {
		said := t.Tool + ": " + strings.TrimSuffix(t.Message, ".") + "."
		switch t.Support {
		case vendortool.TooOld, vendortool.CannotRun:
			unused = append(unused, said)
		case vendortool.Newer, vendortool.Unknown:
			used = append(used, said)
		}
	}
	var parts []string
	reason := v1alpha1.ReasonToolUnsupported
	if problems := f.unreadable(); len(problems) > 0 {
		reason = v1alpha1.ReasonReadFailed
		parts = append(parts, bounded(problems)+" Every scan tries again; nothing is removed from the list meanwhile.")
	}
	if tools := append(unused, used...); len(tools) > 0 {
		parts = append(parts, bounded(tools)+" To have them looked at again when another version is installed: "+wayout.RestartDaemon(f.Node))
	}
	if len(parts) == 0 {
		return nil
	}
	return []Condition{{v1alpha1.ConditionDegraded, metav1.ConditionTrue, reason, strings.Join(parts, " ")}}
}

func nodeReady(f NodeFacts) []Condition {
	stuck, pending := f.withCondition(v1alpha1.ConditionStalled), f.withCondition(v1alpha1.ConditionReconciling)
	switch {
	case f.Working != "":
		return reconciling(v1alpha1.ReasonProgressing, f.Working)
	case f.Held != nil:
		return stalled(f.Held.reason(), heldMessage(f))
	case len(stuck) > 0:
		return stalled(stuck[0].reason, fmt.Sprintf("%d of %d devices need attention: %s", len(stuck), len(f.Devices), list(stuck)))
	case len(f.Problems) > 0:
		return reconciling(v1alpha1.ReasonReadFailed, bounded(f.Problems))
	case len(pending) > 0:
		return reconciling(pending[0].reason, fmt.Sprintf("%d of %d devices are not done yet: %s", len(pending), len(f.Devices), list(pending)))
	}
	assigned, configured := 0, false
	for _, d := range f.Devices {
		if d.Assigned {
			assigned++
		}
		configured = configured || d.Configured
	}
	if assigned == 0 {
		return ready(v1alpha1.ReasonNotAssigned, fmt.Sprintf("%s; no template or pin assigns firmware to any of them.", found(len(f.Devices))))
	}
	if configured {
		return ready(v1alpha1.ReasonUpToDate, fmt.Sprintf("%s; all %d with assigned firmware or settings have them.", found(len(f.Devices)), assigned))
	}
	return ready(v1alpha1.ReasonUpToDate, fmt.Sprintf("%s; all %d with an assigned firmware run it.", found(len(f.Devices)), assigned))
}

// heldMessage always contains the next steps: the message of the failure is cut to leave room for them.
func heldMessage(f NodeFacts) string {
	retry, release := wayout.Retry(f.Node), wayout.Request("nfw", f.Node, "release")
	stays := "stays in maintenance, powered on"
	if said := service(f.Held.Reason, f.Held.Look); said != "" {
		stays = text.Clip(said, mentionedBytes)
	}
	said := fmt.Sprintf("Job %s failed%s (%s) and the node %s", f.Held.Job, f.Held.where(), f.Held.Reason, stays)
	if f.Held.NoWayBack == "" {
		return fmt.Sprintf("%s: %s To try again: %s  To return the node to service as it is: %s",
			said, text.Clip(sentence(f.Held.Message), mentionedBytes), retry, release)
	}
	return fmt.Sprintf("%s, and nothing more is done to it until a person has looked at it: %s %s Repair it. Then, to try again: %s  To return the node "+
		"to service as it is: %s", said, text.Clip(sentence(f.Held.Message), mentionedBytes/2), text.Clip(sentence(f.Held.NoWayBack), mentionedBytes/2), retry, release)
}

// mentionedBytes bounds what such a message repeats of a failure.
const mentionedBytes = 400

// unreadable lists what could not be read, one sentence each.
func (f NodeFacts) unreadable() []string {
	out := append([]string(nil), f.Problems...)
	for _, d := range f.Devices {
		for _, c := range d.Conditions {
			if c.Type == v1alpha1.ConditionInspected && c.Reason == v1alpha1.ReasonReadFailed {
				out = append(out, d.Name+": "+sentence(c.Message))
			}
		}
	}
	return out
}

// concern is one device with an abnormal condition.
type concern struct{ name, reason string }

func (f NodeFacts) withCondition(kind string) []concern {
	var out []concern
	for _, d := range f.Devices {
		if c := active(d.Conditions, kind); c != nil {
			out = append(out, concern{d.Name, c.Reason})
		}
	}
	return out
}

// mentioned bounds how many devices a message names.
const mentioned = 4

func list(concerns []concern) string {
	var parts []string
	for i, c := range concerns {
		if i == mentioned {
			parts = append(parts, fmt.Sprintf("and %d more", len(concerns)-mentioned))
			break
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", c.name, c.reason))
	}
	return strings.Join(parts, ", ") + "."
}

func bounded(sentences []string) string {
	if len(sentences) > mentioned {
		more := fmt.Sprintf("And %d more.", len(sentences)-mentioned)
		sentences = append(append([]string(nil), sentences[:mentioned]...), more)
	}
	return strings.Join(sentences, " ")
}

func found(devices int) string {
	if devices == 1 {
		return "1 device found"
	}
	return fmt.Sprintf("%d devices found", devices)
}

func orUnknown[T ~string](s T) string {
	if s == "" {
		return "an unknown version"
	}
	return string(s)
}

// sentences gives each message the form of a sentence.
func sentences(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = sentence(s)
	}
	return out
}

// sentence gives a message the form of a sentence.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	if !strings.HasPrefix(s, "http") {
		s = string(unicode.ToUpper(first)) + s[size:]
	}
	if !strings.HasSuffix(s, ".") && !strings.HasSuffix(s, `}'`) && !strings.HasSuffix(s, `}"`) { // a command that can be copied
		s += "."
	}
	return s
}

// DaemonConditions are the condition types of a NodeFirmware that say whether its daemon reports. The operator writes them.
var DaemonConditions = []string{v1alpha1.ConditionDaemonReady}

// Silence is why the daemon of a node does not report.
type Silence struct {
	// Since is when it reported last; nil where it never has.
	Since *metav1.Time
	// NodeNotReady says that the Node itself does not.
	NodeNotReady bool
	// Pod of the daemon; empty where there is none. Trouble is what keeps it from being ready, or how it ended since; empty for neither.
	Namespace, Pod, Trouble string
	// Ended says that the log of a daemon that ended is there.
	Ended bool
}

// Daemon brings the condition DaemonReady of a NodeFirmware up to date. A daemon whose pod was never found wanting is not mentioned.
func Daemon(s *Silence, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	mentioned := meta.FindStatusCondition(old, v1alpha1.ConditionDaemonReady) != nil
	switch {
	case s != nil && (mentioned || !s.ready()):
		return Merge(old, generation, now, DaemonConditions, s.condition())
	case mentioned:
		return Merge(old, generation, now, DaemonConditions, Condition{
			v1alpha1.ConditionDaemonReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "The daemon of the node reports.",
		})
	}
	return Merge(old, generation, now, DaemonConditions)
}

// ready reports whether the daemon's pod is, though no report comes.
func (s *Silence) ready() bool { return !s.NodeNotReady && s.Pod != "" && s.Trouble == "" }

func (s *Silence) condition() Condition {
	since := "has never reported"
	if s.Since != nil {
		since = "has not reported since " + s.Since.UTC().Format(time.RFC3339)
	}
	c := Condition{Type: v1alpha1.ConditionDaemonReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotReporting}
	switch {
	case s.ready():
		c.Status = metav1.ConditionTrue
		c.Message = fmt.Sprintf("The daemon %s, and its pod %s is ready. To see what it does: kubectl -n %s logs %[2]s", since, s.Pod, s.Namespace)
	case s.NodeNotReady:
		c.Reason = v1alpha1.ReasonNodeNotReady
		c.Message = fmt.Sprintf("The daemon %s; the Node is not Ready.", since)
	case s.Pod == "":
		c.Message = fmt.Sprintf("The daemon %s, and has no pod on the node: the nodeSelector or the tolerations of its DaemonSet leave the node out, "+
			"or there is no DaemonSet. To compare: kubectl -n %s describe daemonset", since, s.Namespace)
	default:
		more := "describe pod " + s.Pod
		if s.Ended {
			more = "logs " + s.Pod + " --previous"
		}
		c.Message = fmt.Sprintf("The daemon %s. Its pod: %s To see more: kubectl -n %s %s", since,
			text.Clip(sentence(s.Trouble), mentionedBytes), s.Namespace, more)
	}
	return c
}

// ProvenanceConditions are the condition types of a NodeFirmware that say whether it is obsolete. The operator writes them.
var ProvenanceConditions = []string{v1alpha1.ConditionCurrent}

// Provenance brings the condition Current of a NodeFirmware up to date: whether every object that the firmware of its devices
// came from is as it was. Obsolete lists those that are not.
func Provenance(obsolete []v1alpha1.ObsoleteReference, old []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	if len(obsolete) == 0 {
		return Merge(old, generation, now, ProvenanceConditions, Condition{
			v1alpha1.ConditionCurrent, metav1.ConditionTrue, v1alpha1.ReasonUpToDate,
			"Every object that the firmware of the node's devices came from is unchanged.",
		})
	}
	var named []string
	for _, r := range obsolete[:min(len(obsolete), maxNamed)] {
		named = append(named, reference(r))
	}
	if more := len(obsolete) - len(named); more > 0 {
		named = append(named, text.Quantity(more, "other", "others"))
	}
	return Merge(old, generation, now, ProvenanceConditions, Condition{
		v1alpha1.ConditionCurrent, metav1.ConditionFalse, v1alpha1.ReasonReferencesChanged, fmt.Sprintf(
			"%s that the firmware of the node's devices came from changed since: %s. That alone flashes nothing; if another image is desired now, "+
				"a job follows.", text.Quantity(len(obsolete), "object", "objects"), strings.Join(named, ", ")),
	})
}

func reference(r v1alpha1.ObsoleteReference) string {
	name := string(r.Kind) + " " + r.Name
	switch r.Kind {
	case v1alpha1.OriginPin:
		name = fmt.Sprintf("pin %s of %s", r.Rule, name)
	case v1alpha1.OriginTemplate:
		name = fmt.Sprintf("rule %s of %s", r.Rule, name)
	}
	return fmt.Sprintf("%s (%s)", name, r.Reason)
}
