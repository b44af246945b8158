package quarantine

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Bounds of the API: the bytes of a report's message, and the reports of a FirmwareQuarantine.
const (
	maxMessage = 512
	maxReports = 16
)

// key is what a FirmwareQuarantine is about.
type key struct {
	digest v1alpha1.Digest
	model  string
}

// report is what one job says about one image.
type report struct {
	key
	version, node, job, message string
	evidence                    v1alpha1.Evidence
	// ended says that the job judges no more.
	ended bool
	// created is when the job was, by the clock of the API server.
	created metav1.Time
}

// believed returns what a job blames, as far as it is believed. The job was admitted by the operator; the
// image, or the settings, are those that the job was to write to that device, and did not find there; the model is the one that the planner wrote. A daemon that is
// compromised can accuse the images of its own admitted jobs for the models of their devices, and nothing else. A job without that model,
// which a person made, accuses none; and neither does one whose digest or model is none, so that there can be no FirmwareQuarantine.
func believed(j *v1alpha1.FirmwareJob) []report {
	if !j.Admitted() {
		return nil
	}
	var out []report
	for _, blamed := range j.Status.Blamed {
		for _, u := range j.Spec.Task.Devices {
			for _, content := range j.Suspects(&u) {
				if u.Name != blamed.Device || v1alpha1.QuarantineName(content, u.Model) == "" {
					continue
				}
				out = append(out, report{
					key: key{content, u.Model}, version: u.Called(content), node: j.Spec.NodeName, job: j.Name,
					message: text.Clip(blamed.Message, maxMessage), evidence: blamed.Evidence, ended: j.Ended(), created: j.CreationTimestamp,
				})
			}
		}
	}
	return out
}

// succeeds reports whether the report is not the one that a person lifted, but of a later job of the same name: a job that is deleted may
// be planned again under its name.
func (r report) succeeds(o v1alpha1.QuarantineReport) bool {
	return o.Job == r.job && o.State == v1alpha1.ReportLifted && r.created.After(o.Time.Time)
}

// accuses reports whether the job blames a device of the model for which it has the image, believed or not.
func accuses(j *v1alpha1.FirmwareJob, about key) bool {
	return slices.ContainsFunc(j.Spec.Task.Devices, func(u v1alpha1.TaskDevice) bool {
		return about.model == u.Model && slices.Contains(j.Suspects(&u), about.digest) && slices.ContainsFunc(j.Status.Blamed, func(b v1alpha1.BlamedDevice) bool { return b.Device == u.Name })
	})
}
