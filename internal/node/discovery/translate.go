package discovery

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// moment is a time as the API keeps it, in whole seconds.
func moment(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// currentStep is the step of the active job that runs; nil when none does.
func currentStep(v journal.View) *v1alpha1.CurrentStep {
	job := v.Active()
	if job == nil {
		return nil
	}
	s := job.CurrentStep()
	if s == nil {
		return nil
	}
	return &v1alpha1.CurrentStep{Job: job.Name, Name: string(s.Kind)}
}

func appliedFirmware(a *journal.Applied) *v1alpha1.AppliedFirmware {
	return &v1alpha1.AppliedFirmware{Digest: v1alpha1.Digest(a.Digest), Origin: origin(a.Origin), BootID: a.BootID, Time: moment(a.Time)}
}

func origin(from []journal.Origin) []v1alpha1.Origin {
	var out []v1alpha1.Origin
	for _, o := range from {
		out = append(out, v1alpha1.Origin{
			Kind: v1alpha1.OriginKind(o.Kind), Name: o.Name, UID: o.UID, Generation: o.Generation, Rule: o.Rule, Hash: o.Hash,
		})
	}
	return out
}

func failedFirmware(f *journal.Failure) *v1alpha1.DeviceFailure {
	if f == nil {
		return nil
	}
	return &v1alpha1.DeviceFailure{
		Reason: f.Reason, Digest: v1alpha1.Digest(f.Digest), Message: f.Message, Job: f.Job, Time: moment(f.Time), Request: ptr.Deref(f.Retry, ""),
	}
}

func unhealthyDevice(m *journal.UnhealthyMark) *v1alpha1.DeviceFailure {
	if m == nil {
		return nil
	}
	return &v1alpha1.DeviceFailure{
		Reason: v1alpha1.ReasonUnhealthy, Message: text.Clip(m.Message, 1024), Job: m.Job, Time: moment(m.Since), Request: ptr.Deref(m.Retry, ""),
	}
}
