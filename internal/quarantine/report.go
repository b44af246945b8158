package quarantine

import (
	"cmp"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// maxMessage bounds the message of an entry, as the API does.
const maxMessage = 512

// key is what an entry is about.
type key struct {
	digest v1alpha1.Digest
	model  string
}

// report is what one job says about one image.
type report struct {
	key
	version, node, job, message string
	evidence                    v1alpha1.Evidence
}

// believed returns the bad images that a job reports, as far as they are believed. The job was admitted by the operator; the
// image is the one that the job was to flash to that device; the model is the one that the planner wrote. A daemon that is
// compromised can accuse the images of its own admitted jobs for the models of their devices, and nothing else. Only in a
// job without that model, which a person made, is the node believed about it, and never that it means every model.
func believed(j *v1alpha1.FirmwareJob) []report {
	if !j.Admitted() {
		return nil
	}
	var out []report
	for _, bad := range j.Status.BadImages {
		for _, u := range j.Spec.Task.Devices {
			model := cmp.Or(u.Model, bad.Model)
			if u.Name != bad.Device || u.Digest != bad.Digest || model == "" || u.Model == "" && model == v1alpha1.AnyModel {
				continue
			}
			out = append(out, report{
				key: key{bad.Digest, model}, version: u.Version, node: j.Spec.NodeName, job: j.Name,
				message: text.Clip(bad.Message, maxMessage), evidence: bad.Evidence,
			})
		}
	}
	return out
}
