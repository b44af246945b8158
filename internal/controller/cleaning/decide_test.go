package cleaning

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

var now = time.Date(2026, 11, 28, 3, 0, 0, 0, time.UTC)

// world is a node that is at its target, and a policy for it.
func world(changes ...func(*facts)) facts {
	f := facts{
		now: now,
		node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", Labels: map[string]string{"pool": "storage"}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		},
		firmware: &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "f1"}, Status: v1alpha1.NodeFirmwareStatus{
			LastScanTime: &metav1.Time{Time: now}, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUpToDate}},
		}},
		devices: []v1alpha1.NodeDevice{device("n1-nic-1", metav1.ConditionTrue)},
		policies: []v1alpha1.CleaningPolicy{
			policy("other", map[string]string{"pool": "gpu"}),
			policy("storage", map[string]string{"pool": "storage"}),
		},
	}
	for _, change := range changes {
		change(&f)
	}
	return f
}

func device(name string, ready metav1.ConditionStatus) v1alpha1.NodeDevice {
	return v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2}, Status: v1alpha1.NodeDeviceStatus{
		ObservedGeneration: 2, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: v1alpha1.ReasonUpToDate}},
	}}
}

func policy(name string, nodes map[string]string) v1alpha1.CleaningPolicy {
	return v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CleaningPolicySpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: nodes}, State: v1alpha1.CleaningActive,
		When: []v1alpha1.CleaningTime{v1alpha1.CleaningNewNode, v1alpha1.CleaningOutOfService},
		Steps: []v1alpha1.CleaningStep{
			{Name: "verify-firmware", Priority: ptr.To[int32](5)}, {Name: "never", Priority: ptr.To[int32](0)}, {Name: "reset-bios-settings", Priority: ptr.To[int32](10)},
		},
	}}
}

func isNew(f *facts) {
	f.node.Spec.Taints = append(f.node.Spec.Taints, corev1.Taint{Key: v1alpha1.UnverifiedTaint, Effect: corev1.TaintEffectNoSchedule})
}

func isOut(f *facts) { f.firmware.Spec.Service = v1alpha1.NodeOutOfService }

// since has the node bear the taint of a stay out of service.
func since(stay string) func(*facts) {
	return func(f *facts) {
		isOut(f)
		f.node.Spec.Taints = append(f.node.Spec.Taints, corev1.Taint{Key: v1alpha1.OutOfServiceTaint, Value: stay, Effect: corev1.TaintEffectNoSchedule})
	}
}

func retries(request string) func(*facts) {
	return func(f *facts) { f.firmware.Spec.Requests.Retry = request }
}

// says is what the condition Clean says already.
func says(is metav1.ConditionStatus, reason string) func(*facts) {
	return func(f *facts) {
		f.firmware.Status.Conditions = append(f.firmware.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionClean, Status: is, Reason: reason, Message: "Said."})
	}
}

// queued makes the job that follows from what is known so far, and changes it.
func queued(changes ...func(*v1alpha1.FirmwareJob)) func(*facts) {
	return func(f *facts) {
		j := decide(*f).job
		for _, change := range changes {
			change(j)
		}
		f.jobs = append(f.jobs, *j)
	}
}

func is(kinds ...string) func(*v1alpha1.FirmwareJob) {
	return func(j *v1alpha1.FirmwareJob) {
		for _, kind := range kinds {
			j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", Message: "step verify-firmware failed"})
		}
	}
}

func started(j *v1alpha1.FirmwareJob) {
	is(v1alpha1.ConditionAdmitted)(j)
	j.Status.StartTime = &metav1.Time{Time: now}
}

// said is the condition Clean that follows.
func said(t *testing.T, f facts, d decision) string {
	t.Helper()
	c := status.Clean(d.clean, nil, 1, f.now)
	if len(c) == 0 {
		return ""
	}
	require.Len(t, c, 1)
	return string(c[0].Status) + " " + c[0].Reason
}

func TestWhatANodeWaitsFor(t *testing.T) {
	away := func(f *facts) { f.node.Status.Conditions[0].Status = corev1.ConditionUnknown }
	unread := func(f *facts) { f.firmware.Status.LastScanTime = nil }
	twice := func(f *facts) {
		f.policies = append(f.policies, policy("too", map[string]string{"pool": "storage"}))
	}
	paused := func(f *facts) { f.policies[1].Spec.State = v1alpha1.CleaningPaused }
	none := func(f *facts) { f.policies = f.policies[:1] }
	invalid := func(f *facts) { f.policies[1].Spec.NodeSelector.MatchLabels["pool"] = "no label!" }
	off := func(f *facts) { f.policies[1].Spec.Steps = f.policies[1].Spec.Steps[1:2] }
	only := func(when v1alpha1.CleaningTime) func(*facts) {
		return func(f *facts) { f.policies[1].Spec.When = []v1alpha1.CleaningTime{when} }
	}
	replaced := func(f *facts) { f.devices[0].Name, f.devices[0].Status.SerialNumber = "n1-disk-c", "c" }
	failed := queued(started, is(v1alpha1.ConditionFailed))
	over := queued(started, is(v1alpha1.ConditionComplete))
	for name, c := range map[string]struct {
		facts facts
		says  string
		// job says that one is queued, and proven that the taint of a new node goes.
		job, proven bool
	}{
		"in service":                           {facts: world()},
		"new":                                  {facts: world(isNew), says: "False Pending", job: true},
		"new, and not Ready":                   {facts: world(isNew, away), says: "False NodeNotReady"},
		"new, and not reported":                {facts: world(isNew, unread), says: "False NotReporting"},
		"new, and not assigned":                {facts: world(isNew, func(f *facts) { f.unassigned = "n1-nic-1" }), says: "False Pending"},
		"new, and behind":                      {facts: world(isNew, func(f *facts) { f.devices[0] = device("n1-nic-1", metav1.ConditionFalse) }), says: "False OutOfDate"},
		"new, and not read for what it is now": {facts: world(isNew, func(f *facts) { f.devices[0].Generation++ }), says: "False OutOfDate"},
		"new, and sick": {facts: world(isNew, func(f *facts) {
			f.firmware.Status.Conditions = append(f.firmware.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Message: "Sick."})
		}), says: "False Unhealthy"},
		"new, and held": {facts: world(isNew, func(f *facts) {
			f.firmware.Status.Conditions[0].Status, f.firmware.Status.Conditions[0].Reason = "False", "StepFailed"
		}), says: "False StepFailed"},
		"new, and two policies":           {facts: world(isNew, twice), says: "False Conflict"},
		"new, and its steps run":          {facts: world(isNew, queued(started)), says: "False Progressing"},
		"new, and a step failed":          {facts: world(isNew, failed), says: "False StepFailed"},
		"new, and its steps succeeded":    {facts: world(isNew, over), says: "True Succeeded"},
		"new, and said to be clean":       {facts: world(isNew, over, says(metav1.ConditionTrue, "Succeeded")), says: "True Succeeded", proven: true},
		"new, clean, and behind again":    {facts: world(isNew, over, says(metav1.ConditionTrue, "Succeeded"), func(f *facts) { f.devices[0].Generation++ }), says: "False OutOfDate"},
		"new, without steps":              {facts: world(isNew, only(v1alpha1.CleaningOutOfService)), says: "True Succeeded"},
		"new, while the policy is paused": {facts: world(isNew, paused), says: "True Succeeded"},
		"new, while every step is off":    {facts: world(isNew, off), says: "True Succeeded"},
		"new, with an invalid selector":   {facts: world(isNew, invalid), says: "True Succeeded"},
		"new, and registered again":       {facts: world(isNew, over, func(f *facts) { f.node.UID = "u2" }), says: "False Pending", job: true},
		"out":                             {facts: world(isOut), says: "False Pending", job: true},
		"out, and not at its target":      {facts: world(isOut, unread, away), says: "False Pending", job: true},
		"out, and held by an update":      {facts: world(isOut, func(f *facts) { f.firmware.Status.HeldBy = "n1-update" }), says: "False NodeBusy"},
		"out, held by a cleaning, and retried": {facts: world(since("s"), failed, retries("reseated"), func(f *facts) { f.firmware.Status.HeldBy = f.jobs[0].Name }),
			says: "False Pending", job: true},
		"out, and two policies":                           {facts: world(isOut, twice), says: "False Conflict"},
		"out, without a policy":                           {facts: world(isOut, none), says: "Unknown NoMatch"},
		"out, with a policy for new nodes":                {facts: world(isOut, only(v1alpha1.CleaningNewNode)), says: "Unknown NoMatch"},
		"out, while the policy is paused":                 {facts: world(isOut, paused), says: "Unknown Paused"},
		"out, while every step is off":                    {facts: world(isOut, off), says: "Unknown Paused"},
		"out, with an invalid selector":                   {facts: world(isOut, invalid), says: "Unknown InvalidSpec"},
		"out, with an invalid selector for new":           {facts: world(isOut, invalid, only(v1alpha1.CleaningNewNode)), says: "Unknown NoMatch"},
		"out, with an invalid selector and a valid one":   {facts: world(isOut, invalid, twice), says: "False Pending", job: true},
		"out, and its job waits":                          {facts: world(since("s"), queued()), says: "False Pending"},
		"out, and its steps run":                          {facts: world(since("s"), queued(started)), says: "False Progressing"},
		"out, and a step failed":                          {facts: world(since("s"), failed), says: "False StepFailed"},
		"out, a step failed, and it is retried":           {facts: world(since("s"), failed, retries("reseated")), says: "False Pending", job: true},
		"out, and its steps succeeded":                    {facts: world(since("s"), over), says: "True Succeeded"},
		"out, succeeded, and something retried":           {facts: world(since("s"), over, retries("another matter")), says: "True Succeeded"},
		"out, running, and something retried":             {facts: world(since("s"), queued(started), retries("another matter")), says: "False Progressing"},
		"out, running, and the policy is edited":          {facts: world(since("s"), queued(started), func(f *facts) { f.policies[1].Spec.Steps = f.policies[1].Spec.Steps[:1] }), says: "False Progressing"},
		"out, succeeded before the taint went":            {facts: world(isOut, over, says(metav1.ConditionTrue, "Succeeded"), func(f *facts) { f.now = now.Add(time.Second) }), says: "False Pending", job: true},
		"out, succeeded in an earlier stay":               {facts: world(since("s"), over, func(f *facts) { f.node.Spec.Taints[0].Value = "t" }), says: "False Pending", job: true},
		"out, and its drives are to be erased":            {facts: world(isOut, erases(2)), says: "False Pending", job: true},
		"out, with another number of drives":              {facts: world(isOut, erases(3)), says: "False NoMatch"},
		"out, an erasure failed, and a drive is replaced": {facts: world(erases(2), since("s"), failed, replaced), says: "False StepFailed"},
		"out, to be erased, and a drive is replaced":      {facts: world(erases(2), since("s"), queued(), replaced), says: "False Pending", job: true},
		"out, being erased, and one is pulled":            {facts: world(erases(2), since("s"), queued(started), func(f *facts) { f.devices = f.devices[:1] }), says: "False Progressing"},
		"out and new":                                     {facts: world(isNew, isOut), says: "False Pending", job: true},
		"out, in a cluster that another pool has":         {facts: world(isOut, func(f *facts) { f.node.Labels = nil }), says: "Unknown NoMatch"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(c.facts)
			assert.Equal(t, c.says, said(t, c.facts, d))
			assert.Equal(t, c.job, d.job != nil)
			assert.Equal(t, c.proven, d.proven)
			assert.Equal(t, c.facts.firmware.Spec.Service == v1alpha1.NodeOutOfService, d.stay != "", "the taint is there as long as the node is out")
		})
	}
}

// erases has the policy erase so many drives of a node with two.
func erases(n int32) func(*facts) {
	return func(f *facts) {
		f.devices = nil
		for _, serial := range []string{"a", "b"} {
			d := device("n1-disk-"+serial, metav1.ConditionTrue)
			d.Status.Class, d.Status.SerialNumber = v1alpha1.ClassDisk, serial
			f.devices = append(f.devices, d)
		}
		f.policies[1].Spec.Consent, f.policies[1].Spec.Steps = "storage", []v1alpha1.CleaningStep{{Name: "erase", Priority: ptr.To[int32](1), Expect: []v1alpha1.ExpectedDevices{
			{Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Vendor: v1alpha1.AnyVendor}, Count: &n},
		}}}
	}
}

// R003-43: the job names each drive and its serial number, and who consented.
func TestTheJobNamesTheDrivesThatThePolicyErases(t *testing.T) {
	named := func(serial string) v1alpha1.RequestedStep {
		return v1alpha1.RequestedStep{Name: "erase", Device: "n1-disk-" + serial, Arguments: []v1alpha1.StepArgument{{Name: "serialNumber", Value: serial}}}
	}
	consents := func(f *facts) {
		f.policies[1].Annotations = map[string]string{v1alpha1.ConsentedByAnnotation: "alice", "other": "x"}
	}
	j := decide(world(since("s"), erases(2), consents)).job
	assert.Equal(t, []v1alpha1.RequestedStep{named("a"), named("b")}, j.Spec.Task.Steps)
	assert.Equal(t, map[string]string{v1alpha1.ConsentedByAnnotation: "alice"}, j.Annotations)
	assert.Empty(t, decide(world(since("s"), erases(2))).job.Annotations)
}

// R003-9, R003-10: the steps run in the order of their priority, and those with the priority 0 not at all.
func TestTheJobHasTheStepsOfThePolicy(t *testing.T) {
	d := decide(world(since("s"), retries("reseated"), func(f *facts) { f.healthyFor = "90s" }))
	require.NotNil(t, d.job)
	task := d.job.Spec.Task
	assert.Equal(t, v1alpha1.JobTypeSteps, task.Type)
	assert.Equal(t, []v1alpha1.RequestedStep{{Name: "reset-bios-settings"}, {Name: "verify-firmware"}}, task.Steps)
	assert.Equal(t, "storage", task.CleaningPolicyRef.Name)
	assert.Equal(t, "reseated", *task.Request)
	assert.EqualValues(t, "90s", task.HealthyFor, "as every job of the node")
	assert.Equal(t, "s", d.stay)
	assert.Equal(t, d.job.Name, decide(world(since("s"), retries("reseated"))).job.Name, "a cache that is late queues no second one")
}

// What is known to be clean stays so while it is out, though its job has gone from the history or the policy was edited.
func TestANodeIsCleanedOnceForEachStay(t *testing.T) {
	d := decide(world(since("s"), says(metav1.ConditionTrue, "Succeeded")))
	assert.True(t, d.keep)
	assert.Nil(t, d.job)
	assert.Equal(t, "s", d.stay)
}

func TestQueuedJobsThatAreNotWantedGo(t *testing.T) {
	back := func(f *facts) { f.firmware.Spec.Service = v1alpha1.NodeInService }
	edited := func(f *facts) { f.policies[1].Spec.Steps = f.policies[1].Spec.Steps[:1] }
	assert.Empty(t, decide(world(since("s"), queued())).withdrawn)
	assert.Len(t, decide(world(since("s"), queued(), back)).withdrawn, 1)
	assert.Len(t, decide(world(since("s"), queued(), edited)).withdrawn, 1)
	assert.Empty(t, decide(world(since("s"), queued(is(v1alpha1.ConditionAdmitted)), back)).withdrawn, "its node may begin it")
	assert.Empty(t, decide(world(since("s"), queued(started), back)).withdrawn)
}

func TestTheNodeNamesTheJobWhoseStepsRun(t *testing.T) {
	f := world(since("s"), queued(started))
	assert.Equal(t, f.jobs[0].Name, decide(f).running)
	assert.Empty(t, decide(world(since("s"), queued())).running)
	at := func(state v1alpha1.StepState) func(*v1alpha1.FirmwareJob) {
		return func(j *v1alpha1.FirmwareJob) {
			j.Status.Steps = []v1alpha1.JobStep{{Name: "verify-firmware", State: v1alpha1.StepRunning}, {Name: "release", State: state}}
		}
	}
	assert.NotEmpty(t, decide(world(since("s"), queued(started, at(v1alpha1.StepPending)))).running)
	assert.Empty(t, decide(world(since("s"), queued(started, at(v1alpha1.StepRunning)))).running, "somebody uncordons it now")
	assert.Empty(t, decide(world(since("s"), queued(started, is(v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)))).running, "a held node is a person's")
}

// Only a person can have removed the taint of a node that was not proven.
func TestALostTaintIsNoticed(t *testing.T) {
	assert.NotNil(t, decide(world(says(metav1.ConditionFalse, "OutOfDate"))).untainted)
	assert.Nil(t, decide(world(says(metav1.ConditionTrue, "Succeeded"))).untainted, "the operator removed it")
	assert.Nil(t, decide(world(since("s"), says(metav1.ConditionFalse, "StepFailed"), func(f *facts) { f.firmware.Spec.Service = "" })).untainted, "it returns as it is")
	assert.Nil(t, decide(world()).untainted)
}

func TestPoliciesCountTheirNodes(t *testing.T) {
	nodes := []corev1.Node{*world().node, *world().node, *world().node}
	nodes[1].Name, nodes[2].Name = "n2", "n3"
	nodes[2].Labels = map[string]string{"pool": "gpu"}
	found := []v1alpha1.CleaningPolicy{
		policy("gpu", map[string]string{"pool": "gpu"}), policy("storage", map[string]string{"pool": "storage"}), policy("too", map[string]string{"pool": "gpu"}),
	}
	found[2].Spec.When = found[2].Spec.When[:1]
	got := count(found, nodes, map[string]string{"n1": "TrueSucceeded", "n2": "FalseStepFailed", "n3": "FalsePending"})
	assert.Equal(t, v1alpha1.CleaningNodes{Selected: 2, Clean: 1, Failed: 1}, got[1].Nodes)
	assert.Equal(t, v1alpha1.CleaningNodes{Selected: 1}, got[0].Nodes)
	assert.Equal(t, "too", got[0].Other)
	assert.Equal(t, "gpu", got[2].Other)
	assert.Equal(t, "n3", got[2].Node)
	assert.Empty(t, got[1].Other)
	found[0].Spec.When = found[0].Spec.When[1:] // for another time
	assert.Empty(t, count(found, nodes, nil)[0].Other)
	found[2].Spec.NodeSelector.MatchLabels["pool"] = "no label!"
	got = count(found, nodes, nil)
	assert.Contains(t, got[2].Invalid, "spec.nodeSelector: ")
	assert.Zero(t, got[2].Nodes)
	assert.Empty(t, got[1].Invalid)
}

// Hundreds of nodes may wait for their updates, each looked at every half a minute: what is assigned is worked out for those that wait for nothing
// else.
func TestTemplatesAreReadOnlyForANodeThatWaitsForNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		facts facts
		reads int
	}{
		"at its target": {world(isNew), 1},
		"behind":        {world(isNew, func(f *facts) { f.devices[0].Generation++ }), 0},
		"not reported":  {world(isNew, func(f *facts) { f.firmware.Status.LastScanTime = nil }), 0},
		"in service":    {world(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			require.NoError(t, corev1.AddToScheme(scheme))
			require.NoError(t, v1alpha1.AddToScheme(scheme))
			c.facts.devices[0].Spec.NodeName = "n1"
			reads := 0
			r := New(fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.facts.node, c.facts.firmware, &c.facts.devices[0]).
				WithIndex(&v1alpha1.NodeDevice{}, index.NodeName, index.ByNode).WithIndex(&v1alpha1.FirmwareJob{}, index.NodeName, index.ByNode).
				WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, is := list.(*v1alpha1.FirmwareTemplateList); is {
						reads++
					}
					return c.List(ctx, list, opts...)
				}}).Build(), nil, nil, func() time.Time { return now })
			f, err := r.gather(t.Context(), "n1")
			require.NoError(t, err)
			assert.Equal(t, c.reads, reads)
			if c.reads > 0 {
				assert.Equal(t, "n1-nic-1", f.unassigned, "nobody has inspected it")
			}
		})
	}
}
