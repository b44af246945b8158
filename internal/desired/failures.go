package desired

import (
	"cmp"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Wants reports whether the device, being the same hardware, is still to get the image of an update, as the desired
// version or as a hop, or the settings of one that has no image.
func Wants(d *v1alpha1.NodeDevice, u *v1alpha1.TaskDevice) bool {
	if u.SettingsOnly() {
		c := d.Spec.Configuration
		return c != nil && c.Policy == v1alpha1.PolicyApply && d.Status.UniqueID == u.UniqueID && c.Digest() == u.Configuration
	}
	w := d.Spec.Firmware
	return w != nil && w.Policy == v1alpha1.PolicyApply && d.Status.UniqueID == u.UniqueID &&
		slices.Contains(w.Images(), u.Digest)
}

// UpdateFor is what the job is to do with a device; nil for nothing.
func UpdateFor(j *v1alpha1.FirmwareJob, device string) *v1alpha1.TaskDevice {
	at := slices.IndexFunc(j.Spec.Task.Devices, func(u v1alpha1.TaskDevice) bool { return u.Name == device })
	if at < 0 {
		return nil
	}
	return &j.Spec.Task.Devices[at]
}

// SortJobs puts the jobs of a node in order. The clock of the API server may be put back, and a failure that seemed to be older than
// another one would be forgotten, so the jobs of the planner are in order of their turns.
func SortJobs(jobs []v1alpha1.FirmwareJob) {
	slices.SortFunc(jobs, func(a, b v1alpha1.FirmwareJob) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var planned []v1alpha1.FirmwareJob
	for i := range jobs {
		if jobs[i].Spec.Task.Turn > 0 {
			planned = append(planned, jobs[i])
		}
	}
	slices.SortStableFunc(planned, func(a, b v1alpha1.FirmwareJob) int { return cmp.Compare(a.Spec.Task.Turn, b.Spec.Task.Turn) })
	for i := range jobs {
		if jobs[i].Spec.Task.Turn > 0 {
			jobs[i], planned = planned[0], planned[1:]
		}
	}
}

// failedWith are those of the image and the settings of an update that a job which failed on the device speaks against. A job that ends
// before the device is judged says what it failed on; where it blames a device that it gave both, nobody knows which it was.
func failedWith(j *v1alpha1.FirmwareJob, u *v1alpha1.TaskDevice) []v1alpha1.Digest {
	switch {
	case u.Digest == "" || u.Configuration == "" || j.Blames(u.Name) && !j.FailedOnSettings(u.Name):
		return j.Suspects(u)
	case j.FailedOnSettings(u.Name):
		return []v1alpha1.Digest{u.Configuration}
	}
	return []v1alpha1.Digest{u.Digest}
}

// Failures are the jobs of a node, in order, that failed on an image, or on settings, for the device since the last retry that a person requested.
// They count even where a failure left no mark on the device, such as when the node became unhealthy, and when the
// quarantine of the image is lifted: a lift is for the fleet, and a retry is for this node.
func Failures(jobs []v1alpha1.FirmwareJob, retry plan.Clearance, d *v1alpha1.NodeDevice, image v1alpha1.Digest) (out []*v1alpha1.FirmwareJob) {
	for i := cleared(jobs, retry); i < len(jobs); i++ {
		j := &jobs[i]
		if !j.Failed() || retry.Clears(j.RetryInForce()) || succeededSince(jobs[i+1:], d.Name, image) {
			continue
		}
		if u := UpdateFor(j, d.Name); u != nil && slices.Contains(failedWith(j, u), image) && u.UniqueID == d.Status.UniqueID && j.FailedOn(d.Name) {
			out = append(out, j)
		}
	}
	return out
}

// cleared counts the oldest jobs that the request to retry clears: those up to the newest failed one under another request,
// though one before it was under the same request as now.
func cleared(jobs []v1alpha1.FirmwareJob, retry plan.Clearance) int {
	for i, j := range slices.Backward(jobs) {
		if under := j.RetryInForce(); j.Failed() && under != nil && retry.Clears(under) {
			return i + 1
		}
	}
	return 0
}

// succeededSince reports whether a later job brought the image to run on the device, so that older failures do not count.
func succeededSince(later []v1alpha1.FirmwareJob, device string, image v1alpha1.Digest) bool {
	return slices.ContainsFunc(later, func(j v1alpha1.FirmwareJob) bool {
		at := UpdateFor(&j, device)
		return at != nil && slices.Contains(at.Contents(), image) && j.Ended() && !j.Failed()
	})
}
