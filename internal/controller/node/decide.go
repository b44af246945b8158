package node

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// Retention is how long the NodeFirmware and the jobs of a Node that is gone are kept: a Node that is registered again finds
// its history. It is counted by this process, so a new leader begins anew.
const Retention = time.Hour

// decision is what has to be done about one node's name.
type decision struct {
	// create the NodeFirmware of a Node that has none.
	create bool
	// pinned is what the status is to say of the machine that the pins are for; nil where it says so.
	pinned *pinned
	// reports are the conditions about the node's daemon where they say something else; nil where they do not.
	reports []metav1.Condition
	// end these jobs: no process is left that runs or reports them.
	end []v1alpha1.FirmwareJob
	// stranded jobs have begun, and what executes them may go on without the Node.
	stranded []v1alpha1.FirmwareJob
	// release our part in the node's maintenance.
	release bool
	// delete these devices and jobs, and this NodeFirmware.
	devices  []v1alpha1.NodeDevice
	history  []v1alpha1.FirmwareJob
	firmware *v1alpha1.NodeFirmware
	// keep a NodeFirmware without a Node because it holds a request of a person.
	keep *v1alpha1.NodeFirmware
	// next is how long until the node must be looked at again though nothing changes; 0 for never.
	next time.Duration
}

// decide is the policy for Nodes that come and go. Nothing of the product's is owned by a Node but the NodeDevices: a Node
// is registered again under the same name by every reinstallation, and with it the garbage collector would take pins and
// history.
//
// When a Node is gone, its maintenance is released, which stops a job before its next irreversible step, and the jobs that
// nothing has begun are ended. A job that has begun is ended when a person confirmed that the machine does not go on with it.
// What is left is deleted after the retention; a NodeFirmware that holds a request of a person stays.
func decide(f facts) decision {
	switch {
	case f.joined:
		return decision{}
	case f.node != nil && f.firmware == nil:
		return decision{create: true}
	case f.node != nil:
		next := -overdue(f.firmware, f.now)
		if next <= 0 {
			next = looksAgain
		}
		d := decision{pinned: pinnedTo(f.firmware), next: next}
		if d.pinned == nil { // the event of that write brings the node here again
			d.reports = f.reports()
		}
		return d
	}
	d := decision{release: true, devices: f.devices}
	left := f.retention - f.now.Sub(f.goneSince)
	for _, j := range f.jobs {
		switch {
		case !j.Ended() && hasBegun(&j) && j.Annotations[v1alpha1.ConfirmGoneAnnotation] == "":
			d.stranded = append(d.stranded, j)
		case !j.Ended():
			d.end = append(d.end, j)
		case left <= 0 && !controllerutil.ContainsFinalizer(&j, v1alpha1.JobFinalizer):
			d.history = append(d.history, j)
		}
	}
	switch {
	case f.firmware == nil:
	case requests(f.firmware.Spec):
		d.keep = f.firmware
	case left <= 0 && len(d.history) == len(f.jobs):
		d.firmware = f.firmware
	}
	if left > 0 && (len(f.jobs) > 0 || f.firmware != nil && d.keep == nil) {
		d.next = left
	}
	return d
}

// reports are the conditions of the NodeFirmware where what they say about the daemon has changed; nil otherwise.
func (f facts) reports() []metav1.Condition {
	next := status.Daemon(f.silence, f.firmware.Status.Conditions, f.firmware.Generation, f.now)
	was, is := meta.FindStatusCondition(f.firmware.Status.Conditions, v1alpha1.ConditionDaemonReady), meta.FindStatusCondition(next, v1alpha1.ConditionDaemonReady)
	if ptr.Equal(was, is) {
		return nil
	}
	return next
}

// hasBegun reports whether a job may have changed the machine.
func hasBegun(j *v1alpha1.FirmwareJob) bool {
	return j.Status.StartTime != nil
}

// requests reports whether the spec holds a person's pins or settings, or that the node is out of service.
func requests(s v1alpha1.NodeFirmwareSpec) bool {
	return len(s.Pins) > 0 || s.ScanThreshold != "" || s.Service == v1alpha1.NodeOutOfService
}

// pinned is the machine that the pins of a node are for, and the last request to adopt another one.
type pinned struct{ machine, adopt string }

// pinnedTo is the machine at which the pins were first seen; once a person asks for that, the one that reports now. It is nil where the
// status says so, and while no machine has reported.
func pinnedTo(f *v1alpha1.NodeFirmware) *pinned {
	was := pinned{f.Status.PinnedMachine, f.Status.Requests.Adopt}
	now := was
	if len(f.Spec.Pins) == 0 {
		now.machine = ""
	}
	if f.Status.Machine != nil || f.Status.LastScanTime != nil {
		if asked := f.Spec.Requests.Adopt; asked != "" && asked != was.adopt {
			now = pinned{adopt: asked}
		}
		if m := f.Status.Machine; m != nil && len(f.Spec.Pins) > 0 {
			now.machine = cmp.Or(now.machine, m.SerialNumber)
		}
	}
	if now == was {
		return nil
	}
	return &now
}
