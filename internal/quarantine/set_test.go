package quarantine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

const model = "15b3:101d"

var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// at is a number of seconds after the epoch, as the API tells it.
func at(seconds int) metav1.Time {
	return metav1.NewTime(epoch.Add(time.Duration(seconds) * time.Second))
}

func digest(n int) v1alpha1.Digest { return v1alpha1.Digest(fmt.Sprintf("sha256:%016x%048x", n, 0)) }

// failing is a job on node n1 that was admitted and reports image n bad on a device of the model.
func failing(name string, n int, model string, created int) *v1alpha1.FirmwareJob {
	return &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at(created)},
		Spec: v1alpha1.FirmwareJobSpec{
			NodeName: "n1", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{
				{Name: "n1-nic", Version: fmt.Sprint(n), Digest: digest(n), Model: model},
			}},
		},
		Status: v1alpha1.FirmwareJobStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, LastTransitionTime: at(0)}},
			Blamed: []v1alpha1.BlamedDevice{{
				Device: "n1-nic", Message: "gone after the reset", Evidence: v1alpha1.EvidenceDevice,
			}},
		},
	}
}

// on moves the job to another node. A node of the policy p is named p/n.
func on(node string, j *v1alpha1.FirmwareJob) *v1alpha1.FirmwareJob {
	j.Spec.NodeName = node
	return j
}

// network makes the report one of a node that missed nothing but its network.
func network(j *v1alpha1.FirmwareJob) *v1alpha1.FirmwareJob {
	j.Status.Blamed[0].Evidence = v1alpha1.EvidenceNetwork
	return j
}

func jobs(js ...*v1alpha1.FirmwareJob) []*v1alpha1.FirmwareJob { return js }

// ledger is what is stored: the quarantines, as the controller writes them.
type ledger []v1alpha1.FirmwareQuarantine

func compute(js []*v1alpha1.FirmwareJob, stored ...v1alpha1.FirmwareQuarantine) quarantine.Set {
	return quarantine.Compute(quarantine.Facts{Jobs: js, Quarantines: stored, Now: epoch.Add(time.Minute + time.Millisecond), Pool: pool})
}

func pool(node string) string {
	pool, _, ok := strings.Cut(node, "/")
	if !ok {
		return "default"
	}
	return pool
}

// record writes what follows from the jobs and from what is stored.
func (l *ledger) record(js ...*v1alpha1.FirmwareJob) { l.write(compute(js, *l...)) }

func (l *ledger) write(s quarantine.Set) {
	*l = s.All()
	for i := range *l {
		(*l)[i].Status.ObservedGeneration = (*l)[i].Generation
	}
}

// set has a person set the state of every quarantine.
func (l *ledger) set(states ...v1alpha1.QuarantineState) {
	*l = slices.Clone(*l)
	for _, state := range states {
		for i := range *l {
			if (*l)[i].Spec.State != state {
				(*l)[i].Spec.State = state
				(*l)[i].Generation++
			}
		}
	}
}

// blocks is for a node of the default policy.
func blocks(s quarantine.Set, n int, model string) bool { return blocksOn(s, n, model, "default") }

func blocksOn(s quarantine.Set, n int, model, pool string) bool {
	_, is := s.Blocks(digest(n), model, pool)
	return is
}

func isEmpty(s quarantine.Set) bool {
	return !slices.ContainsFunc(s.All(), func(q v1alpha1.FirmwareQuarantine) bool { return quarantine.InForce(&q, "") })
}

// I5: a report counts at once, for every device of the model and no other.
func TestAReportedImageIsBlocked(t *testing.T) {
	s := compute(jobs(failing("j1", 1, model, 30)))
	q, is := s.Blocks(digest(1), model, "default")
	require.True(t, is)
	assert.Equal(t, v1alpha1.FirmwareQuarantine{
		ObjectMeta: metav1.ObjectMeta{Name: "0000000000000001.15b3.101d"},
		Spec:       v1alpha1.FirmwareQuarantineSpec{Digest: digest(1), Model: model, State: v1alpha1.QuarantineActive},
		Status: v1alpha1.FirmwareQuarantineStatus{Version: "1", Scope: v1alpha1.QuarantinePolicies, Reports: []v1alpha1.QuarantineReport{{
			Job: "j1", Node: "n1", Policy: "default", Evidence: v1alpha1.EvidenceDevice, Time: at(60), Message: "gone after the reset",
			State: v1alpha1.ReportCounted,
		}}},
	}, q)
	assert.False(t, blocks(s, 1, "15b3:1017"), "another model")
	assert.False(t, blocks(s, 2, model), "another image")
	assert.True(t, s.Holds(digest(1)))
	assert.False(t, s.HoldsEverywhere(digest(1)))
	assert.False(t, blocks(quarantine.Set{}, 1, model))
	assert.Empty(t, quarantine.Set{}.All())
}

// A job that was deleted may be planned again under its name: what that one reports was not lifted with the first.
func TestNameOfLiftedJobReturns(t *testing.T) {
	var l ledger
	l.record(failing("j1", 1, model, 30))
	l.set(v1alpha1.QuarantineLifted)
	l.record(failing("j1", 1, model, 30))
	assert.False(t, blocks(compute(nil, l...), 1, model))
	again := failing("j1", 1, model, 90)
	assert.False(t, quarantine.Recorded(again, l), "it must not be forgotten before it is listed")
	l.record(again)
	assert.True(t, blocks(compute(nil, l...), 1, model))
	assert.True(t, quarantine.Recorded(again, l))
	l.set(v1alpha1.QuarantineActive, v1alpha1.QuarantineLifted)
	l.record(again)
	assert.False(t, blocks(compute(jobs(again), l...), 1, model), "it is lifted as any other")
}

func TestAnUnknownModelIsBlocked(t *testing.T) {
	s := compute(jobs(failing("j1", 1, model, 30)))
	assert.True(t, blocks(s, 1, ""))
	assert.True(t, blocks(s, 1, v1alpha1.AnyModel))
	s = compute(jobs(failing("j1", 1, v1alpha1.AnyModel, 30)))
	assert.True(t, blocks(s, 1, "1b96:2400"), "and one that the planner does not know stands for every model")
}

// A node that lies accuses the images of its own admitted jobs for the models of its devices, and nothing else.
func TestWhatIsBelieved(t *testing.T) {
	for name, lie := range map[string]func(*v1alpha1.FirmwareJob){
		"a job that was never admitted":    func(j *v1alpha1.FirmwareJob) { j.Status.Conditions = nil },
		"a device of another job":          func(j *v1alpha1.FirmwareJob) { j.Status.Blamed[0].Device = "n2-nic" },
		"a device without a model":         func(j *v1alpha1.FirmwareJob) { j.Spec.Task.Devices[0].Model = "" },
		"what is no model":                 func(j *v1alpha1.FirmwareJob) { j.Spec.Task.Devices[0].Model = "Lenovo:7X21" },
		"the name of another object":       func(j *v1alpha1.FirmwareJob) { j.Spec.Task.Devices[0].Model = "a/../b:c" },
		"a model too long for a name":      func(j *v1alpha1.FirmwareJob) { j.Spec.Task.Devices[0].Model = "a:" + strings.Repeat("b", 224) },
		"what is no digest":                func(j *v1alpha1.FirmwareJob) { j.Spec.Task.Devices[0].Digest = "sha256:12" },
		"steps, which flash no image":      func(j *v1alpha1.FirmwareJob) { j.Spec.Task.Devices = nil },
		"an admission that was taken back": func(j *v1alpha1.FirmwareJob) { j.Status.Conditions[0].Status = metav1.ConditionFalse },
	} {
		j := failing("j1", 1, model, 1)
		lie(j)
		assert.Empty(t, compute(jobs(j)).All(), name)
	}
	j := failing("j1", 1, model, 1)
	assert.False(t, blocks(compute(jobs(j)), 1, "15b3:1017"), "the model is the one that the planner wrote")
	assert.True(t, blocks(compute(jobs(j)), 1, model))
	far := metav1.NewTime(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	j.Status.CompletionTime = &far
	q, _ := compute(jobs(j)).Blocks(digest(1), model, "")
	assert.Equal(t, at(60), q.Status.Reports[0].Time, "the clock is the operator's")
}

// One node alone can never stop the fleet, however many jobs it has.
func TestASecondNodeIsTheFleet(t *testing.T) {
	first := on("gpu/n1", failing("j1", 1, model, 1))
	s := compute(jobs(first, on("gpu/n1", failing("j2", 1, model, 2))))
	assert.True(t, blocksOn(s, 1, model, "gpu"))
	assert.False(t, blocksOn(s, 1, model, "default"), "though it reports twice")
	assert.True(t, blocksOn(s, 1, model, ""), "of whatever policy")

	s = compute(jobs(first, on("gpu/n2", failing("j2", 1, model, 2))))
	assert.True(t, blocksOn(s, 1, model, "default"), "a second node")
	assert.True(t, s.HoldsEverywhere(digest(1)))

	var again []*v1alpha1.FirmwareJob
	var l ledger
	for i := range 40 {
		again = append(again, on("gpu/n1", failing(fmt.Sprintf("j%02d", i), 1, model, i)))
		l.record(again...)
	}
	assert.Equal(t, v1alpha1.QuarantinePolicies, l[0].Status.Scope)
	assert.False(t, blocksOn(compute(nil, l...), 1, model, "default"))
}

// What only the network showed proves nothing: a switch may have died.
func TestTheNetworkAloneBlocksNothing(t *testing.T) {
	cut := network(on("gpu/n1", failing("j1", 1, model, 1)))
	assert.True(t, isEmpty(compute(jobs(cut))))
	var l ledger
	l.record(cut)
	require.Len(t, l, 1)
	assert.Equal(t, v1alpha1.QuarantineNone, l[0].Status.Scope, "it is shown")

	assert.False(t, compute(jobs(cut, network(on("gpu/n1", failing("j2", 1, model, 2))))).Holds(digest(1)), "the same node again")
	s := compute(jobs(cut, network(on("gpu/n2", failing("j2", 1, model, 2)))))
	assert.True(t, blocksOn(s, 1, model, "gpu"), "a second node")
	assert.False(t, blocksOn(s, 1, model, "default"))
	s = compute(jobs(cut, on("gpu/n2", failing("j2", 1, model, 2))))
	assert.True(t, blocksOn(s, 1, model, "default"), "a second node that knows more")

	cut.Status.Blamed[0].Evidence = v1alpha1.EvidenceDevice
	assert.True(t, blocksOn(compute(jobs(cut), l...), 1, model, "gpu"), "its network came back with the old firmware")
}

// A node that was unhealthy as a whole proves as little; a second one does.
func TestNodeEvidenceIsWeak(t *testing.T) {
	weak := func(name, node string) *v1alpha1.FirmwareJob {
		j := on(node, failing(name, 1, model, 1))
		j.Status.Blamed[0].Evidence = v1alpha1.EvidenceNode
		return j
	}
	assert.True(t, isEmpty(compute(jobs(weak("j1", "gpu/n1")))))
	s := compute(jobs(weak("j1", "gpu/n1"), weak("j2", "gpu/n2")))
	assert.True(t, blocksOn(s, 1, model, "gpu"))
	assert.False(t, blocksOn(s, 1, model, "default"))
}

// What a device was blamed for while the job restored the previous firmware may turn out to be the node's. While the job is not over, a
// weaker judgement is not its last.
func TestLastEvidenceCounts(t *testing.T) {
	j := failing("j1", 1, model, 1)
	var l ledger
	l.record(j)
	require.Equal(t, v1alpha1.QuarantinePolicies, l[0].Status.Scope)
	j.Status.Blamed[0].Evidence = v1alpha1.EvidenceNode
	l.record(j)
	assert.Equal(t, v1alpha1.EvidenceDevice, l[0].Status.Reports[0].Evidence, "it is judged again")
	j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: "Unhealthy"})
	l.record(j)
	assert.Equal(t, v1alpha1.EvidenceNode, l[0].Status.Reports[0].Evidence)
	assert.Equal(t, v1alpha1.QuarantineNone, l[0].Status.Scope)
}

// A job that ends and blames nobody takes back what it reported while it restored the previous firmware.
func TestAcquittalWithdraws(t *testing.T) {
	j := failing("j1", 1, model, 1)
	var l ledger
	l.record(j)
	require.Equal(t, v1alpha1.QuarantinePolicies, l[0].Status.Scope, "while it is restored")
	j.Status.Blamed = nil
	j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: "Unhealthy"})
	s := quarantine.Compute(quarantine.Facts{
		Quarantines: l, Now: epoch.Add(time.Hour), Pool: pool, Job: func(string) *v1alpha1.FirmwareJob { return j },
	})
	require.Len(t, s.All(), 1)
	assert.Equal(t, v1alpha1.QuarantineNone, s.All()[0].Status.Scope)
	assert.Equal(t, v1alpha1.ReportWithdrawn, s.All()[0].Status.Reports[0].State)
}

func TestALiftIsOfWhatIsReported(t *testing.T) {
	first, second := failing("j1", 1, model, 1), failing("j2", 1, model, 2)
	var l ledger
	l.record(first)
	l.set(v1alpha1.QuarantineLifted)
	assert.False(t, blocks(compute(jobs(first), l...), 1, model), "at once")
	assert.True(t, blocks(compute(jobs(first, second), l...), 1, model), "what is reported at this moment was not meant")
	l.record(first)
	assert.Equal(t, v1alpha1.ReportLifted, l[0].Status.Reports[0].State)
	assert.False(t, blocks(compute(jobs(first), l...), 1, model))
	l.record()
	assert.False(t, blocks(compute(jobs(first), l...), 1, model), "the cache forgot the job for a moment")
	first.Status.Blamed[0].Message = "said better"
	assert.False(t, blocks(compute(jobs(first), l...), 1, model))

	l.record(first, second)
	q, is := compute(nil, l...).Blocks(digest(1), model, "default")
	require.True(t, is, "a later report")
	assert.Equal(t, "j2", quarantine.First(&q).Job)
	l.set(v1alpha1.QuarantineActive)
	assert.True(t, blocks(compute(nil, l...), 1, model))
	l.set(v1alpha1.QuarantineLifted)
	assert.True(t, isEmpty(compute(jobs(first, second), l...)), "lifted once more")
	l.record(first, second)
	l.set(v1alpha1.QuarantineActive)
	assert.True(t, isEmpty(compute(jobs(first, second), l...)), "what was lifted stays so")
}

// Whoever sets Active and Lifted again within one pass of the controller lifts.
func TestALiftThatNobodySawComeCounts(t *testing.T) {
	j := failing("j1", 1, model, 1)
	var l ledger
	l.record()
	l.record(j)
	l.set(v1alpha1.QuarantineLifted)
	l.record(j)
	l.record(j, failing("j2", 1, model, 2))
	l.set(v1alpha1.QuarantineActive, v1alpha1.QuarantineLifted)
	assert.True(t, isEmpty(compute(jobs(j), l...)))
}

// A person forbids an image on every node, reported or not.
func TestAPersonConfirms(t *testing.T) {
	var l ledger
	l.record(on("gpu/n1", failing("j1", 1, model, 1)))
	l.set(v1alpha1.QuarantineConfirmed)
	assert.True(t, blocksOn(compute(nil, l...), 1, model, "default"))
	l.record()
	l.set(v1alpha1.QuarantineActive)
	assert.False(t, blocksOn(compute(nil, l...), 1, model, "default"), "it is left to the reports")
	assert.True(t, blocksOn(compute(nil, l...), 1, model, "gpu"))

	beforehand := v1alpha1.FirmwareQuarantine{Spec: v1alpha1.FirmwareQuarantineSpec{Digest: digest(2), Model: model, State: v1alpha1.QuarantineConfirmed}}
	assert.True(t, compute(nil, beforehand).HoldsEverywhere(digest(2)), "nobody reported it")
	assert.False(t, blocks(compute(nil, beforehand), 2, "15b3:1017"))
	q, _ := compute(nil, beforehand).Blocks(digest(2), model, "")
	assert.Contains(t, quarantine.Why(&q), "a person confirmed")
}

func TestAReportStaysWithoutItsJob(t *testing.T) {
	j := failing("j1", 1, model, 30)
	var l ledger
	l.record(j)
	assert.True(t, blocks(compute(nil, l...), 1, model))
	before := slices.Clone(l)
	l.record()
	assert.Equal(t, before, l)
	assert.True(t, blocks(compute(jobs(j)), 1, model), "and a job reports again what was deleted")
}

// The first failure stays what the quarantine is about, while others follow.
func TestTheFirstReportStaysTheFirst(t *testing.T) {
	var l ledger
	l.record(failing("j1", 1, model, 30))
	l.record(failing("j3", 1, model, 33), failing("j1", 1, model, 30), failing("j0", 1, model, 20))
	assert.Equal(t, "j1", quarantine.First(&l[0]).Job)
	assert.Len(t, l[0].Status.Reports, 3)
}

// The previous firmware complained alike, so the job took its report back.
func TestAJobTakesItsReportBack(t *testing.T) {
	j := failing("j1", 1, model, 30)
	var l ledger
	l.record(j)
	now := j.DeepCopy()
	withdrawn := func() quarantine.Set {
		return quarantine.Compute(quarantine.Facts{Quarantines: l, Job: func(string) *v1alpha1.FirmwareJob { return now }})
	}
	now.Status.Blamed = nil
	assert.False(t, isEmpty(withdrawn()), "it has not ended")
	now.Status.Conditions = append(now.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue})
	now.CreationTimestamp = at(61)
	assert.False(t, isEmpty(withdrawn()), "another job of that name")
	now.CreationTimestamp = at(30)
	now.Status.Blamed, now.Status.Conditions[0].Status = j.Status.Blamed, metav1.ConditionFalse
	assert.False(t, isEmpty(withdrawn()), "it still says so")
	now.Status.Blamed = nil
	require.True(t, isEmpty(withdrawn()))
	l.write(withdrawn())
	assert.Equal(t, v1alpha1.ReportWithdrawn, l[0].Status.Reports[0].State)
	assert.True(t, isEmpty(compute(nil, l...)))
	assert.False(t, isEmpty(compute(jobs(j), l...)), "it reports it again")
	now = nil
	l = nil
	l.record(j)
	assert.False(t, isEmpty(withdrawn()), "a job that is gone takes nothing back")
}

// One image for two models is two reports of a job, and it takes back one of them.
func TestAReportIsAboutOneModel(t *testing.T) {
	const other = "15b3:1017"
	j := failing("j1", 1, model, 30)
	j.Spec.Task.Devices = append(j.Spec.Task.Devices, v1alpha1.TaskDevice{Name: "n1-other", Version: "1", Digest: digest(1), Model: other})
	j.Status.Blamed = append(j.Status.Blamed, v1alpha1.BlamedDevice{Device: "n1-other", Evidence: v1alpha1.EvidenceDevice})
	var l ledger
	l.record(j)
	require.Len(t, l, 2)
	j.Status.Blamed = j.Status.Blamed[:1]
	j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue})
	s := quarantine.Compute(quarantine.Facts{Jobs: jobs(j), Quarantines: l, Pool: pool, Job: func(string) *v1alpha1.FirmwareJob { return j }})
	assert.True(t, blocks(s, 1, model), "it says so still")
	assert.False(t, blocks(s, 1, other))
}

// A fleet that fails together fits into the quarantine, and one lift is enough for it.
func TestOneLiftIsEnoughForAFleet(t *testing.T) {
	for name, how := range map[string]func(*v1alpha1.FirmwareJob) *v1alpha1.FirmwareJob{
		"devices": func(j *v1alpha1.FirmwareJob) *v1alpha1.FirmwareJob { return j }, "networks": network,
	} {
		var all []*v1alpha1.FirmwareJob
		for i := range 40 {
			all = append(all, how(on(fmt.Sprint("n", i), failing(fmt.Sprintf("j%02d", i), 1, model, i))))
		}
		var l ledger
		l.record(all...)
		assert.Len(t, l[0].Status.Reports, 16)
		assert.Equal(t, v1alpha1.QuarantineFleet, l[0].Status.Scope, name)
		l.set(v1alpha1.QuarantineLifted)
		assert.True(t, isEmpty(compute(all, l...)), name)
		l.record(all...)
		assert.True(t, isEmpty(compute(all, l...)), name)
		for _, j := range all {
			assert.True(t, quarantine.Recorded(j, l), "%s: %s", name, j.Name)
		}

		later := failing("later", 1, model, 99)
		require.False(t, quarantine.Recorded(later, l))
		l.record(append(all, later)...)
		assert.Equal(t, v1alpha1.QuarantinePolicies, l[0].Status.Scope, name)
		assert.Len(t, l[0].Status.Reports, 16)
		before := slices.Clone(l)
		l.record(append(all, later)...)
		assert.Equal(t, before, l, "what made room does not come back")
	}
}

// A job is deleted, and the cache of quarantines does not show yet what was written of it.
func TestAReporterIsRemembered(t *testing.T) {
	var w quarantine.Reporters
	j := failing("j1", 1, model, 30)
	j.UID = "uid-1"
	var l ledger
	require.Equal(t, jobs(j), w.Remember(jobs(j, &v1alpha1.FirmwareJob{}), l, at(0).Time))
	require.Equal(t, jobs(j), w.Remember(nil, l, at(0).Time), "the job is gone")
	assert.True(t, blocks(compute(w.Remember(nil, l, at(0).Time), l...), 1, model))
	l.record(j)
	assert.Empty(t, w.Remember(nil, l, at(0).Time))
	assert.Empty(t, w.Remember(nil, nil, at(0).Time), "what was written down and deleted stays settled")
}

// Between two passes of one controller another one records a report, and a person deletes the quarantine when the job is gone. Nothing
// shows that to the first one, which must not hold on to the report until its process ends.
func TestTheMemoryOfAJobEndsInTime(t *testing.T) {
	var w quarantine.Reporters
	j := failing("j1", 1, model, 30)
	j.UID = "uid-1"
	w.Remember(jobs(j), nil, at(0).Time)
	w.Remember(jobs(j), nil, at(600).Time)
	assert.NotEmpty(t, w.Remember(nil, nil, at(601).Time), "perhaps the quarantine is seen late")
	assert.NotEmpty(t, w.Remember(nil, nil, at(600+3599).Time))
	assert.Empty(t, w.Remember(nil, nil, at(600+3600).Time))
	assert.Empty(t, w.Remember(nil, nil, at(601).Time), "for good")
}

// A job that was recorded reports another image and is deleted before a quarantine lists that one.
func TestALaterReportIsRemembered(t *testing.T) {
	var w quarantine.Reporters
	j := failing("j1", 1, model, 30)
	j.UID = "uid-1"
	var l ledger
	l.record(j)
	w.Remember(jobs(j), l, at(0).Time)
	more, second := j.DeepCopy(), failing("j1", 2, "15b3:1017", 30)
	second.Spec.Task.Devices[0].Name, second.Status.Blamed[0].Device = "n1-other", "n1-other"
	more.Spec.Task.Devices = append(more.Spec.Task.Devices, second.Spec.Task.Devices...)
	more.Status.Blamed = append(more.Status.Blamed, second.Status.Blamed...)
	w.Remember(jobs(more), l, at(0).Time)
	assert.True(t, blocks(compute(w.Remember(nil, l, at(0).Time), l...), 2, "15b3:1017"))
}

func TestAFullListMakesRoom(t *testing.T) {
	var dead, again []*v1alpha1.FirmwareJob
	for i := range 16 {
		dead = append(dead, network(on(fmt.Sprintf("gpu/n%d", i%8), failing(fmt.Sprintf("j%02d", i), 1, model, i))))
		again = append(again, on("gpu/n0", failing(fmt.Sprintf("j%02d", i), 1, model, i)))
	}
	for name, full := range map[string][]*v1alpha1.FirmwareJob{"of nodes that missed their network": dead, "of one node": again} {
		var l ledger
		late := on("web/n1", failing("late", 1, model, 99))
		l.record(full...)
		require.Equal(t, v1alpha1.QuarantinePolicies, l[0].Status.Scope)
		require.False(t, quarantine.Recorded(late, l), name)
		l.record(append(full, late)...)
		assert.Len(t, l[0].Status.Reports, 16)
		assert.True(t, quarantine.Recorded(late, l), name)
		assert.True(t, blocksOn(compute(nil, l...), 1, model, "web"), name)
	}
}

// A node that can label itself moves from policy to policy and reports in each.
func TestANodeThatMovesIsOneNode(t *testing.T) {
	moved := func(l ledger, i int, node string) quarantine.Set {
		return quarantine.Compute(quarantine.Facts{
			Jobs: jobs(on(node, failing(fmt.Sprintf("j%02d", i), 1, model, i))), Quarantines: l, Now: at(60).Time,
			Pool: func(string) string { return fmt.Sprintf("p%02d", i) },
		})
	}
	var l ledger
	for i := range 20 {
		l.write(moved(l, i, "n0"))
	}
	assert.Equal(t, v1alpha1.QuarantinePolicies, l[0].Status.Scope)
	assert.Len(t, l[0].Status.Reports, 16)
	l.write(moved(l, 20, "n1"))
	assert.Equal(t, v1alpha1.QuarantineFleet, l[0].Status.Scope, "another node finds room")
	assert.Equal(t, v1alpha1.QuarantineFleet, moved(l, 20, "n1").All()[0].Status.Scope)
}

// However many jobs report, the list decides what all of them would, needs none of them, and stays as it is.
func TestAFullListDecidesAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 25).Draw(t, "nodes")
		var all []*v1alpha1.FirmwareJob
		var l ledger
		for i := range rapid.IntRange(1, 40).Draw(t, "jobs") {
			n := rapid.IntRange(0, nodes-1).Draw(t, "node")
			j := on(fmt.Sprintf("p%d/n%d", n%3, n), failing(fmt.Sprintf("j%02d", i), 1, model, i))
			if rapid.IntRange(0, 9).Draw(t, "evidence") > 0 {
				network(j)
			}
			all = append(all, j)
			if rapid.Bool().Draw(t, "written at once") {
				l.record(all...)
			}
		}
		l.record(all...)
		first := slices.Clone(l)
		l.record(all...)
		require.Equal(t, first, l, "a second pass writes nothing")
		for _, j := range all {
			require.True(t, quarantine.Recorded(j, l), j.Name)
		}
		for _, pool := range []string{"p0", "p1", "p2", "q"} {
			require.Equal(t, blocksOn(compute(all), 1, model, pool), blocksOn(compute(nil, l...), 1, model, pool), pool)
		}
	})
}
