package job

import (
	"encoding/json"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Bounds in bytes of JSON, which keep a job of many devices under 256 KiB. The journal of the node has everything.
const (
	// maxSize is for the updates, the steps and the blame together. The API server notes of each update and of each blamed device who
	// wrote it: the updates count twice, and the rest is left for the others.
	maxSize      = 184 << 10
	minStepsSize = 16 << 10
	maxBlameSize = 48 << 10
	// shortMessage is how short the message of a step or of a blamed device becomes, in bytes.
	shortMessage = 64
)

// roomForSteps is what the updates and the blame of a job leave to its steps.
func roomForSteps(updates []journal.Update, blamed []v1alpha1.BlamedDevice) int {
	return max(maxSize-2*size(updates)-size(blamed), minStepsSize)
}

// brief shortens the steps until they fit into the room: first the messages of those that neither run nor failed, then all messages. Then the
// oldest that succeeded are left out, and at last those that come last. A failed step stays: it says which device the job
// failed on.
func brief(steps []v1alpha1.JobStep, room int) []v1alpha1.JobStep {
	matters := func(s v1alpha1.JobStep) bool {
		return s.State == v1alpha1.StepRunning || s.State == v1alpha1.StepFailed
	}
	left := size(steps) - room
	clip := func(of func(v1alpha1.JobStep) bool) {
		for i := range steps {
			if s := &steps[i]; left > 0 && of(*s) && len(s.Message) > shortMessage {
				left -= len(s.Message) - shortMessage
				s.Message = text.Clip(s.Message, shortMessage)
			}
		}
	}
	clip(func(s v1alpha1.JobStep) bool { return !matters(s) })
	clip(matters)
	drop := func(s v1alpha1.JobStep) bool {
		if left <= 0 || matters(s) {
			return false
		}
		left -= size(s) + len(",")
		return true
	}
	past := func(s v1alpha1.JobStep) bool {
		return s.State == v1alpha1.StepSucceeded || s.State == v1alpha1.StepSkipped
	}
	steps = slices.DeleteFunc(steps, func(s v1alpha1.JobStep) bool { return past(s) && drop(s) })
	slices.Reverse(steps)
	steps = slices.DeleteFunc(steps, drop)
	slices.Reverse(steps)
	return steps
}

// briefBlame shortens the messages of blamed devices until they fit. None is left out.
func briefBlame(blamed []v1alpha1.BlamedDevice) []v1alpha1.BlamedDevice {
	for limit := maxBlameMessage / 2; limit >= shortMessage && size(blamed) > maxBlameSize; limit /= 2 {
		for i := range blamed {
			blamed[i].Message = text.Clip(blamed[i].Message, limit)
		}
	}
	return blamed
}

func size(of any) int {
	out, _ := json.Marshal(of) // it holds nothing that cannot be written
	return len(out)
}
