package planner

import (
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// retryDelay is how long an image is not tried again on a device on which it failed.
type retryDelay struct {
	// untilAsked: until the desired firmware changes or a person requests a retry.
	untilAsked bool
	// until is the end of the wait after passing failures.
	until time.Time
}

const (
	firstRetry = 30 * time.Second
	lastRetry  = 30 * time.Minute
)

// retryDelay looks at the kept jobs that failed on that image for the device since the last retry that a person requested.
// It applies even where a failure left no mark on the device, such as when the node became unhealthy, and when the
// quarantine of the image is lifted: a lift is for the fleet, and a retry is for this node.
func (f facts) retryDelay(d *v1alpha1.NodeDevice, image v1alpha1.Digest) retryDelay {
	var delay retryDelay
	failures := 0
	for i := f.cleared(); i < len(f.jobs); i++ {
		j := &f.jobs[i]
		if !j.Failed() || f.retry.Clears(j.RetryInForce()) || succeededSince(f.jobs[i+1:], d.Name, image) {
			continue
		}
		u := updateFor(j, d.Name)
		if u == nil || u.Digest != image || u.UniqueID != d.Status.UniqueID || !j.FailedOn(d.Name) {
			continue
		}
		if j.Held() || j.Blames(d.Name) || !isPassing(j) {
			return retryDelay{untilAsked: true}
		}
		delay.until = f.failed[j.UID].Add(RetryPause(failures))
		failures++
	}
	return delay
}

// RetryPause is how long a device is left alone after a passing failure that follows on that many others.
func RetryPause(failures int) time.Duration {
	const doublings = 6 // from firstRetry to lastRetry
	return min(firstRetry<<min(failures, doublings), lastRetry)
}

// cleared counts the oldest jobs that the request to retry clears: those up to the newest failed one under another request,
// though one before it was under the same request as now.
func (f facts) cleared() int {
	for i, j := range slices.Backward(f.jobs) {
		if under := j.RetryInForce(); j.Failed() && under != nil && f.retry.Clears(under) {
			return i + 1
		}
	}
	return 0
}

// isPassing reports whether the job failed for a reason that says nothing about an image, so that trying again by itself is
// right, but with growing pauses. NoHandler is the operator's own reason: no node ever took up the job.
func isPassing(j *v1alpha1.FirmwareJob) bool {
	reason := j.FailureReason()
	return reason == v1alpha1.ReasonNoRunner || step.Reason(reason).Passing()
}

// succeededSince reports whether a later job brought the image to run on the device, so that older failures do not count.
func succeededSince(later []v1alpha1.FirmwareJob, device string, image v1alpha1.Digest) bool {
	return slices.ContainsFunc(later, func(j v1alpha1.FirmwareJob) bool {
		at := updateFor(&j, device)
		return at != nil && at.Digest == image && j.Ended() && !j.Failed()
	})
}
