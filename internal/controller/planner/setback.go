package planner

import (
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// setback is how long an image is not tried again on a device where it failed.
type setback struct {
	// untilAsked: until the wish changes or a person asks for a retry.
	untilAsked bool
	// until is the end of the wait after failures that say nothing about the image.
	until time.Time
}

// passing are the reasons of failures that say nothing about an image. Trying again by itself is right, but ever slower.
var passing = []string{
	v1alpha1.ReasonImageUnavailable, v1alpha1.ReasonReadFailed, v1alpha1.ReasonDeviceChanged, v1alpha1.ReasonMaintenanceUnavailable,
	v1alpha1.ReasonMaintenanceLost, v1alpha1.ReasonTimedOut, v1alpha1.ReasonUnhealthyBefore, v1alpha1.ReasonNoHandler,
}

const (
	firstRetry = 30 * time.Second
	lastRetry  = 30 * time.Minute
)

// setback looks at the kept jobs that failed on that image for the device since the last retry a person asked for. It
// holds where a failure left no trace on the device, such as for a node that became unhealthy, and when the quarantine of
// the image is lifted: that is for the fleet, and a retry is for this node.
func (f facts) setback(d *v1alpha1.NodeDevice, image v1alpha1.Digest) setback {
	var s setback
	failures := 0
	for i := range f.jobs {
		j := &f.jobs[i]
		if !j.Failed() || j.EndedAt().Before(f.retryAfter) || succeededSince(f.jobs[i+1:], d.Name, image) {
			continue
		}
		u := updateFor(j, d.Name)
		if u == nil || u.Digest != image || u.UniqueID != d.Status.UniqueID || !blames(j, d.Name) {
			continue
		}
		if j.Held() || accuses(j, d.Name) || !slices.Contains(passing, j.FailureReason()) {
			return setback{untilAsked: true}
		}
		s.until = j.EndedAt().Add(min(firstRetry<<failures, lastRetry))
		failures++
	}
	return s
}

// succeededSince reports whether a later job brought the image to run on the device, so that older failures are history.
func succeededSince(later []v1alpha1.FirmwareJob, device string, image v1alpha1.Digest) bool {
	return slices.ContainsFunc(later, func(j v1alpha1.FirmwareJob) bool {
		at := updateFor(&j, device)
		return at != nil && at.Digest == image && j.Ended() && !j.Failed()
	})
}

// blames reports whether a failed job failed because of the device: a step on it failed, or one of the whole node. Where
// the job tells which images made the node unhealthy, only their devices are to blame for that.
func blames(j *v1alpha1.FirmwareJob, device string) bool {
	if j.FailureReason() == v1alpha1.ReasonNodeGone {
		return false
	}
	tells := len(j.Status.BadImages) > 0
	onDevices := tells
	for _, s := range j.Status.Steps {
		if s.State != v1alpha1.StepFailed {
			continue
		}
		if s.Device == device || s.Device == "" && !tells {
			return true
		}
		onDevices = true
	}
	return !onDevices || accuses(j, device)
}

// accuses reports whether the job says that its image made the device or its node unhealthy.
func accuses(j *v1alpha1.FirmwareJob, device string) bool {
	return slices.ContainsFunc(j.Status.BadImages, func(b v1alpha1.BadImage) bool { return b.Device == device })
}
