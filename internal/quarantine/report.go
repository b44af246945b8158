package quarantine

import (
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

// believed returns what a job blames, as far as they are believed. The job was admitted by the operator; the
// image is the one that the job was to flash to that device; the model is the one that the planner wrote. A daemon that is
// compromised can accuse the images of its own admitted jobs for the models of their devices, and nothing else. A job without that model,
// which a person made, accuses none.
func believed(j *v1alpha1.FirmwareJob) []report {
	if !j.Admitted() {
		return nil
	}
	var out []report
	for _, blamed := range j.Status.Blamed {
		for _, u := range j.Spec.Task.Devices {
			if u.Name != blamed.Device || u.Model == "" {
				continue
			}
			out = append(out, report{
				key: key{u.Digest, u.Model}, version: u.Version, node: j.Spec.NodeName, job: j.Name,
				message: text.Clip(blamed.Message, maxMessage), evidence: blamed.Evidence,
			})
		}
	}
	return out
}
