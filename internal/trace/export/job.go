package export

import (
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	jobtrace "github.com/nodefirmware/node-firmware-operator/internal/trace"
)

// The attributes of spans. None holds a message or an address, which may say what is nobody's business but the cluster's.
const (
	attrNode       = "k8s.node.name"
	attrJob        = "nodefirmware.job.name"
	attrType       = "nodefirmware.job.type"
	attrDevices    = "nodefirmware.devices"
	attrReboots    = "nodefirmware.reboots"
	attrDevice     = "nodefirmware.device"
	attrFrom       = "nodefirmware.version.from"
	attrTo         = "nodefirmware.version.to"
	attrPart       = "nodefirmware.step.part"
	attrAttempt    = "nodefirmware.step.attempt"
	attrResult     = "nodefirmware.result"
	attrReason     = "nodefirmware.reason"
	attrHealth     = "nodefirmware.health"
	attrKind       = "nodefirmware.origin.kind"
	attrName       = "nodefirmware.origin.name"
	attrGeneration = "nodefirmware.origin.generation"
)

// maxDevices bounds the list of devices in an attribute.
const maxDevices = 32

// The results of a job besides Complete and Failed, which are its conditions.
const (
	resultHeld       = "Held"
	resultRolledBack = "RolledBack"
	// resultWithdrawn is that of a job that was deleted before it had ended.
	resultWithdrawn = "Withdrawn"
)

// jobSpan is the span of a job.
func (e *Exporter) jobSpan(j *v1alpha1.FirmwareJob) trace.SpanContext {
	at := jobtrace.SpanOf("job", string(j.UID))
	if parent := jobtrace.Parent(j); parent.IsValid() {
		return within(parent, at)
	}
	return e.first(jobtrace.OfJob(j.UID), at)
}

// spansOf are those of the job that have ended. The job span is at, and gone is when the job was deleted; zero where it was not.
func spansOf(j *v1alpha1.FirmwareJob, at trace.SpanContext, gone time.Time) []span {
	common := []attribute.KeyValue{attribute.String(attrNode, j.Spec.NodeName), attribute.String(attrJob, j.Name)}
	queued := j.CreationTimestamp.Time
	end := endOf(j)
	if end.IsZero() {
		end = gone
	}
	var out []span
	if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted); c != nil && c.Status == metav1.ConditionTrue {
		out = append(out, part(j, at, "admission", "admission", queued, c.LastTransitionTime.Time, common, attribute.String(attrReason, c.Reason)))
	}
	out = append(out, stepSpans(j, at, end, common)...)
	if end.IsZero() {
		return out
	}
	result, reason := resultOf(j)
	outcome := []attribute.KeyValue{attribute.String(attrResult, result), attribute.String(attrReason, reason)}
	failed := result != v1alpha1.ConditionComplete && result != resultWithdrawn
	if j.Ended() {
		last := queued
		for _, s := range out {
			if s.end.After(last) {
				last = s.end
			}
		}
		verdict := part(j, at, "verdict", "verdict", last, end, common, outcome...)
		if v := j.Status.Verdict; v != nil {
			verdict.attributes = append(verdict.attributes, attribute.String(attrHealth, string(v.Result)))
		}
		verdict.failed, verdict.reason = failed, reason
		out = append(out, verdict)
	}
	var devices []string
	for _, u := range j.Spec.Task.Devices[:min(len(j.Spec.Task.Devices), maxDevices)] {
		devices = append(devices, u.Name)
	}
	job := span{
		name: "job", at: at, parent: jobtrace.Parent(j), links: jobtrace.Links(j), start: queued, end: notBefore(end, queued), failed: failed, reason: reason,
		attributes: with(with(common, attribute.String(attrType, string(j.Spec.Task.Type)), attribute.StringSlice(attrDevices, devices),
			attribute.Int(attrReboots, int(j.Status.Reboots))), outcome...),
	}
	out = append(out, job)
	for _, other := range job.links { // each of these traces has the result too, and the way to the steps
		mirror := job
		mirror.at, mirror.parent = within(other, jobtrace.SpanOf("job in", string(j.UID), other.TraceID().String())), other
		mirror.links = []trace.SpanContext{at}
		out = append(out, mirror)
	}
	return out
}

// stepSpans are those of the steps that have ended. One that runs when its job ends, because nobody is left to report it, ends with that.
func stepSpans(j *v1alpha1.FirmwareJob, at trace.SpanContext, end time.Time, common []attribute.KeyValue) (out []span) {
	known := map[[3]string]int{}
	for i := range j.Status.Steps {
		s := &j.Status.Steps[i]
		key := [3]string{string(partOf(s)), s.Name, s.Device}
		known[key]++
		if s.StartTime == nil || s.State == v1alpha1.StepPending {
			continue
		}
		ended := end
		if s.State != v1alpha1.StepRunning && s.CompletionTime != nil {
			ended = s.CompletionTime.Time
		}
		if ended.IsZero() {
			continue
		}
		attributes := []attribute.KeyValue{
			attribute.String(attrResult, string(s.State)), attribute.Int(attrAttempt, int(s.Attempt)), attribute.String(attrPart, string(partOf(s))),
		}
		if s.Device != "" {
			attributes = append(attributes, attribute.String(attrDevice, s.Device))
		}
		if u := updateOf(j, s.Device); u != nil && u.Version != "" {
			attributes = append(attributes, attribute.String(attrFrom, u.FromVersion), attribute.String(attrTo, u.Version))
		}
		// A step that is begun again after it had ended is another span; one whose attempt was interrupted has one, that of its last attempt.
		id := []string{"step", string(partOf(s)), s.Name, s.Device, strconv.Itoa(known[key]), strconv.Itoa(int(s.Attempt))}
		one := part(j, at, s.Name, "", s.StartTime.Time, ended, common, attributes...)
		one.at = within(at, jobtrace.SpanOf(append(id, string(j.UID))...))
		one.failed = s.State == v1alpha1.StepFailed || s.State == v1alpha1.StepRunning
		out = append(out, one)
	}
	return out
}

// part is a span below that of the job.
func part(j *v1alpha1.FirmwareJob, of trace.SpanContext, name, id string, start, end time.Time, common []attribute.KeyValue, more ...attribute.KeyValue) span {
	return span{
		name: name, at: within(of, jobtrace.SpanOf(id, string(j.UID))), parent: of, start: start, end: notBefore(end, start),
		attributes: with(common, more...),
	}
}

// with is a new list, so that spans share none.
func with(common []attribute.KeyValue, more ...attribute.KeyValue) []attribute.KeyValue {
	return append(append(make([]attribute.KeyValue, 0, len(common)+len(more)), common...), more...)
}

// notBefore is the end of a span whose times are those of two clocks.
func notBefore(end, start time.Time) time.Time {
	if end.Before(start) {
		return start
	}
	return end
}

func partOf(s *v1alpha1.JobStep) v1alpha1.StepPart {
	if s.Part == "" {
		return v1alpha1.PartUpdate
	}
	return s.Part
}

func updateOf(j *v1alpha1.FirmwareJob, device string) *v1alpha1.TaskDevice {
	for i := range j.Spec.Task.Devices {
		if u := &j.Spec.Task.Devices[i]; u.Name == device {
			return u
		}
	}
	return nil
}

// endOf is when the job ended; zero while it has not.
func endOf(j *v1alpha1.FirmwareJob) time.Time {
	if !j.Ended() {
		return time.Time{}
	}
	if j.Status.CompletionTime != nil {
		return j.Status.CompletionTime.Time
	}
	for _, kind := range []string{v1alpha1.ConditionFailed, v1alpha1.ConditionComplete} {
		if c := meta.FindStatusCondition(j.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// resultOf says how the job ended, and the reason of the condition that says so.
func resultOf(j *v1alpha1.FirmwareJob) (result, reason string) {
	switch {
	case !j.Ended():
		return resultWithdrawn, ""
	case !j.Failed():
		if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionComplete); c != nil {
			reason = c.Reason
		}
		return v1alpha1.ConditionComplete, reason
	case j.Held():
		return resultHeld, j.FailureReason()
	case meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionRolledBack):
		return resultRolledBack, j.FailureReason()
	}
	return v1alpha1.ConditionFailed, j.FailureReason()
}
