package certificate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// remains is what a sanitization leaves, and what the samples cannot see.
const remains = "Blocks that the drive has taken out of use, its caches and its spare area are erased by the drive itself, as its specification demands; " +
	"no host can read them to look. So are namespaces of an NVMe drive that were attached to no controller, of which no samples were read. " +
	"The drive's firmware, logs, settings and passwords, and the memory of its controller, are not erased."

// maxUser bounds the name of who consented, in bytes, as the API does.
const maxUser = 1024

// Name is that of the certificate of a drive that a job erased. A job has one for each drive.
func Name(job *v1alpha1.FirmwareJob, device string) string {
	sum := sha256.Sum256([]byte(string(job.UID) + "/" + device))
	const maxJob = 253 - 1 - 16
	return strings.TrimRight(job.Name[:min(len(job.Name), maxJob)], "-.") + "-" + hex.EncodeToString(sum[:8])
}

// Records are what the job proves of the drives that it erased, by the names of their certificates. What the job was not asked for is not certified, whatever
// its node says: err says so.
func Records(job *v1alpha1.FirmwareJob) (records map[string]v1alpha1.SanitizationRecord, err error) {
	for _, s := range job.Status.Steps {
		if s.Sanitization == nil {
			continue
		}
		if why := unasked(job, s); why != "" {
			err = fmt.Errorf("the node %s reports that the drive %s (serial number %q) is erased, which is not certified: %s; look at the node",
				job.Spec.NodeName, s.Device, s.Sanitization.SerialNumber, why)
			continue
		}
		r := v1alpha1.SanitizationRecord{
			Sanitization: *s.Sanitization, Term: v1alpha1.TermPurge, NodeName: job.Spec.NodeName, Device: s.Device, Job: job.Name, JobUID: string(job.UID),
			ConsentedBy: text.Clip(job.Annotations[v1alpha1.ConsentedByAnnotation], maxUser), CompletionTime: *s.CompletionTime, Remains: remains,
		}
		if ref := job.Spec.Task.CleaningPolicyRef; ref != nil {
			r.CleaningPolicy = ref.Name
		}
		if records == nil {
			records = map[string]v1alpha1.SanitizationRecord{}
		}
		records[Name(job, s.Device)] = r
	}
	return records, err
}

// unasked says what the step lacks to be one that the job asks for, and that is done.
func unasked(job *v1alpha1.FirmwareJob, s v1alpha1.JobStep) string {
	asked := slices.IndexFunc(job.Spec.Task.Steps, func(r v1alpha1.RequestedStep) bool {
		return r.Name == string(plan.Erase) && r.Device == s.Device && slices.Contains(r.Arguments,
			v1alpha1.StepArgument{Name: plan.EraseSerialNumber, Value: s.Sanitization.SerialNumber})
	})
	switch {
	case s.Name != string(plan.Erase) || asked < 0:
		return "the job does not ask for that"
	case s.State != v1alpha1.StepSucceeded || s.CompletionTime == nil:
		return "the step has not ended well"
	}
	return ""
}
