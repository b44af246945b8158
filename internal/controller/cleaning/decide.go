package cleaning

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/cleaning"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// facts is what was read about one node.
type facts struct {
	// node and firmware are nil where there is none.
	node     *corev1.Node
	firmware *v1alpha1.NodeFirmware
	// devices of the node, where it is new or out of service, and unassigned the first one that does not have yet what templates and pins say, where the node waits
	// for nothing else.
	devices    []v1alpha1.NodeDevice
	unassigned string
	// policies are all there are, in order of name.
	policies []v1alpha1.CleaningPolicy
	// healthyFor is what the RolloutPolicy of the node says.
	healthyFor v1alpha1.Duration
	// jobs are those of the node that run the steps of a policy.
	jobs []v1alpha1.FirmwareJob
	now  time.Time
}

// decision is what follows for the node.
type decision struct {
	// stay is the value of the taint of a node that is out of service, which stands for that stay; empty for none.
	stay string
	// proven says that a new node has lost its taint.
	proven bool
	// running is the job whose steps run on the node; empty for none.
	running string
	// clean is what the condition Clean says; nil for none. Where keep is set it says what it says.
	clean *status.CleaningFacts
	keep  bool
	// job is to be queued; withdrawn are queued, not admitted, and no longer wanted.
	job       *v1alpha1.FirmwareJob
	withdrawn []v1alpha1.FirmwareJob
	// untainted is what the condition Clean said of a node whose taint somebody took off before it was proven; nil for none.
	untainted *metav1.Condition
}

// decide is the policy for nodes that are new or out of service. A node that is both is out of service first.
func decide(f facts) decision {
	var d decision
	was := meta.FindStatusCondition(f.firmware.Status.Conditions, v1alpha1.ConditionClean)
	switch {
	case f.firmware.Spec.Service == v1alpha1.NodeOutOfService:
		d = f.outOfService(was)
	case taint(f.node, v1alpha1.UnverifiedTaint) != nil:
		d = f.newNode(was)
	default: // a node in service has a taint of this product no more, and what it said of itself is no longer true
		if was != nil && was.Status != metav1.ConditionTrue && taint(f.node, v1alpha1.OutOfServiceTaint) == nil {
			d.untainted = was
		}
	}
	for _, j := range f.jobs {
		switch {
		case j.Ended() || j.DeletionTimestamp != nil:
		case stepsRun(&j):
			d.running = j.Name
		case j.Status.StartTime == nil && !j.Admitted() && (d.clean == nil || d.clean.Job == nil || d.clean.Job.Name != j.Name):
			d.withdrawn = append(d.withdrawn, j)
		}
	}
	return d
}

// stepsRun reports whether a job has begun and its steps have not ended: whoever returns the node after them may do so.
func stepsRun(j *v1alpha1.FirmwareJob) bool {
	return j.Status.StartTime != nil && !j.Ended() && !slices.ContainsFunc(j.Status.Steps, func(s v1alpha1.JobStep) bool {
		return s.Name == string(plan.Release) && s.State != v1alpha1.StepPending
	})
}

// outOfService has the node cleaned once for each stay out of service. The taint stands for the stay: where it is gone, something may have
// been scheduled on the node since, so another stay begins.
func (f facts) outOfService(was *metav1.Condition) decision {
	d := decision{stay: f.now.UTC().Format("2006-01-02T15-04-05.000Z")}
	if t := taint(f.node, v1alpha1.OutOfServiceTaint); t != nil && t.Value != "" {
		d.stay = t.Value
		if d.keep = was != nil && was.Status == metav1.ConditionTrue; d.keep { // its job may have gone from the history
			return d
		}
	}
	d.run(f, v1alpha1.CleaningOutOfService, d.stay)
	return d
}

// newNode has a node proven that registered with the taint: first it is brought to its target, then the steps run, and where all is well at once
// the taint goes.
func (f facts) newNode(was *metav1.Condition) decision {
	var d decision
	d.run(f, v1alpha1.CleaningNewNode, string(f.node.UID))
	if j := d.clean.Job; j != nil && (!j.Ended() || j.Failed()) {
		return d
	}
	if waits := f.waits(); waits != nil {
		d.job, d.clean.Waits = nil, waits
		return d
	}
	if d.clean.Proven = d.clean.Job != nil || len(d.clean.Policies) == 0 || d.clean.Paused || d.clean.Off; d.clean.Proven {
		d.proven = was != nil && was.Status == metav1.ConditionTrue // it is seen to be clean before it is available
	}
	return d
}

// run finds the policy for that time and its job for this occasion, or makes it.
func (d *decision) run(f facts, when v1alpha1.CleaningTime, occasion string) {
	d.clean = &status.CleaningFacts{Node: f.node.Name, When: when}
	var policy *v1alpha1.CleaningPolicy
	for i := range f.policies {
		p := &f.policies[i]
		if p.DeletionTimestamp != nil || !p.Runs(when) {
			continue
		}
		switch selector, err := cleaning.Selector(p); {
		case err != nil:
			d.clean.Invalid = append(d.clean.Invalid, p.Name)
		case selector.Matches(labels.Set(f.node.Labels)):
			policy, d.clean.Policies = p, append(d.clean.Policies, p.Name)
		}
	}
	if len(d.clean.Policies) != 1 {
		return
	}
	steps, unfit := cleaning.Steps(policy, f.devices)
	d.clean.Paused, d.clean.Off = policy.Spec.State == v1alpha1.CleaningPaused, unfit == nil && len(steps) == 0
	if d.clean.Paused || d.clean.Off {
		return
	}
	retry := desired.Retry(f.firmware)
	for i := range f.jobs {
		j := &f.jobs[i]
		isOfThis := j.Name == jobName(f.node.Name, policy, occasion, plan.Clearance(ptr.Deref(j.Spec.Task.Request, "")))
		switch {
		case isOfThis && !j.Ended() && j.Status.StartTime == nil && !j.Admitted() && !equality.Semantic.DeepEqual(j.Spec.Task.Steps, steps):
			// the devices are others by now, and it is withdrawn
		case !j.Ended() && (isOfThis || j.Status.StartTime != nil), isOfThis && !j.Failed():
			d.clean.Job = j
			return // one that runs ends first, though it was made under what the policy said before
		case isOfThis && !retry.Clears(j.RetryInForce()):
			d.clean.Job = j
		}
	}
	if d.clean.Job != nil {
		return
	}
	if unfit != nil {
		d.clean.Unfit = unfit.Error()
		return
	}
	// A job of another kind that failed keeps the node: the steps would run below its hold, and not end it.
	if by := f.firmware.Status.HeldBy; by != "" && !slices.ContainsFunc(f.jobs, func(j v1alpha1.FirmwareJob) bool { return j.Name == by }) {
		d.clean.HeldBy = by
		return
	}
	d.job = &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: jobName(f.node.Name, policy, occasion, retry), Finalizers: []string{v1alpha1.JobFinalizer}},
		Spec: v1alpha1.FirmwareJobSpec{NodeName: f.node.Name, Task: v1alpha1.JobTask{
			Type: v1alpha1.JobTypeSteps, Steps: steps, CleaningPolicyRef: &v1alpha1.CleaningPolicyReference{Name: policy.Name}, Request: retry.InForce(),
			HealthyFor: f.healthyFor,
		}},
	}
	if by := policy.Annotations[v1alpha1.ConsentedByAnnotation]; by != "" {
		metav1.SetMetaDataAnnotation(&d.job.ObjectMeta, v1alpha1.ConsentedByAnnotation, by)
	}
}

// jobName is the same for the same steps of the policy on the same occasion under the same request to retry, so that they run once, whichever devices
// the node has meanwhile.
func jobName(node string, policy *v1alpha1.CleaningPolicy, occasion string, retry plan.Clearance) string {
	work, _ := json.Marshal(cleaning.Enabled(policy)) // it has nothing that cannot be written
	return due.JobName(node, occasion, strings.Join([]string{policy.Name, string(work), string(retry)}, "\n"))
}

// waits says what a new node waits for before its steps run; nil for nothing.
func (f facts) waits() *status.Condition {
	ready := meta.FindStatusCondition(f.firmware.Status.Conditions, v1alpha1.ConditionReady)
	healthy := meta.FindStatusCondition(f.firmware.Status.Conditions, v1alpha1.ConditionHealthy)
	switch behind := f.behind(); {
	case !isReady(f.node):
		return status.NewNodeWaits(v1alpha1.ReasonNodeNotReady, "The Node is not Ready.")
	case f.firmware.Status.LastScanTime == nil || ready == nil:
		return status.NewNodeWaits(v1alpha1.ReasonNotReporting, "The daemon of the node has not reported its devices yet.")
	case len(behind) > 0:
		return status.NewNodeWaits(v1alpha1.ReasonOutOfDate, fmt.Sprintf("Not at its target: device %s. To see why: kubectl firmware why %s",
			text.Some(behind, 1), behind[0]))
	case healthy != nil && healthy.Status == metav1.ConditionFalse:
		return status.NewNodeWaits(v1alpha1.ReasonUnhealthy, healthy.Message)
	case ready.Status != metav1.ConditionTrue:
		return status.NewNodeWaits(ready.Reason, ready.Message)
	case f.unassigned != "":
		return status.NewNodeWaits(v1alpha1.ReasonPending, "What templates and pins say is being assigned to "+f.unassigned+".")
	}
	return nil
}

// behind are the devices that are not at their target, or of which that is not known for what they are to be now. That is more than running the
// desired firmware, which the condition FirmwareCompliant of a Node is about: settings that differ count here, and so does an assignment that is
// in conflict or blocked, or that the daemon has not read the device for.
func (f facts) behind() []string {
	var out []string
	for i := range f.devices {
		d := &f.devices[i]
		ready := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || d.Status.ObservedGeneration != d.Generation ||
			meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionConflict) || meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionBlocked) {
			out = append(out, d.Name)
		}
	}
	slices.Sort(out)
	return out
}

// taint is the taint of the Node with the key; nil for none.
func taint(n *corev1.Node, key string) *corev1.Taint {
	i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	if i < 0 {
		return nil
	}
	return &n.Spec.Taints[i]
}
