package quarantine_test

import (
	"fmt"
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

func digest(n int) v1alpha1.Digest { return v1alpha1.Digest(fmt.Sprintf("sha256:%064x", n)) }

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

// source holds the images of these numbers.
func source(name string, images ...int) v1alpha1.FirmwareSource {
	s := v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, n := range images {
		s.Status.Images = append(s.Status.Images, v1alpha1.StoredImage{Version: fmt.Sprint(n), Digest: digest(n)})
	}
	return s
}

func jobs(js ...*v1alpha1.FirmwareJob) []*v1alpha1.FirmwareJob { return js }

func compute(js []*v1alpha1.FirmwareJob, sources ...v1alpha1.FirmwareSource) quarantine.Set {
	return quarantine.Compute(quarantine.Facts{Jobs: js, Sources: sources, Now: epoch.Add(time.Minute + time.Millisecond), Pool: func(node string) string {
		pool, _, ok := strings.Cut(node, "/")
		if !ok {
			return "default"
		}
		return pool
	}})
}

// record has the source list what follows from the jobs and from itself.
func record(src *v1alpha1.FirmwareSource, js ...*v1alpha1.FirmwareJob) {
	src.Status.Quarantine, _ = compute(js, *src).Listed(src)
}

// blocks is for a node of the default policy.
func blocks(s quarantine.Set, n int, model string) bool { return blocksOn(s, n, model, "default") }

func blocksOn(s quarantine.Set, n int, model, pool string) bool {
	_, is := s.Blocks(digest(n), model, pool)
	return is
}

// I5: a report counts at once, for every device of the model and no other.
func TestAnImageAJobReportsIsBlockedForItsModel(t *testing.T) {
	s := compute(jobs(failing("j1", 1, model, 30)), source("s", 1))
	e, is := s.Blocks(digest(1), model, "default")
	require.True(t, is)
	assert.Equal(t, v1alpha1.QuarantinedImage{
		Digest: digest(1), Model: model, Version: "1", Since: at(60), NodeName: "n1", Job: "j1", Message: "gone after the reset",
		Scope: v1alpha1.QuarantinePolicies, Policies: []string{"default"},
		Reports: []v1alpha1.QuarantineReport{{Job: "j1", NodeName: "n1", Policy: "default", Evidence: v1alpha1.EvidenceDevice}},
	}, e)
	assert.False(t, blocks(s, 1, "15b3:1017"), "another model")
	assert.False(t, blocks(s, 2, model), "another image")
	assert.True(t, s.Holds(digest(1)))
	assert.False(t, s.Empty())
	assert.True(t, quarantine.Set{}.Empty())
	assert.False(t, blocks(quarantine.Set{}, 1, model))
}

func TestAnUnknownModelMayBeTheOneThatFailed(t *testing.T) {
	s := compute(jobs(failing("j1", 1, model, 30)))
	assert.True(t, blocks(s, 1, ""))
	assert.True(t, blocks(s, 1, v1alpha1.AnyModel))
	s = compute(jobs(failing("j1", 1, v1alpha1.AnyModel, 30)))
	assert.True(t, blocks(s, 1, "1b96:2400"), "and one that the planner does not know stands for every model")
}

// A node that lies accuses the images of its own admitted jobs for the models of its devices, and nothing else.
func TestOnlyWhatTheOperatorConfirmsIsBelieved(t *testing.T) {
	for name, lie := range map[string]func(*v1alpha1.FirmwareJob){
		"a job that was never admitted":    func(j *v1alpha1.FirmwareJob) { j.Status.Conditions = nil },
		"a device of another job":          func(j *v1alpha1.FirmwareJob) { j.Status.Blamed[0].Device = "n2-nic" },
		"a device without a model":         func(j *v1alpha1.FirmwareJob) { j.Spec.Task.Devices[0].Model = "" },
		"steps, which flash no image":      func(j *v1alpha1.FirmwareJob) { j.Spec.Task.Devices = nil },
		"an admission that was taken back": func(j *v1alpha1.FirmwareJob) { j.Status.Conditions[0].Status = metav1.ConditionFalse },
	} {
		j := failing("j1", 1, model, 1)
		lie(j)
		assert.True(t, compute(jobs(j)).Empty(), name)
	}
	j := failing("j1", 1, model, 1)
	assert.False(t, blocks(compute(jobs(j)), 1, "15b3:1017"), "the model is the one that the planner wrote")
	assert.True(t, blocks(compute(jobs(j)), 1, model))
	far := metav1.NewTime(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	j.Status.CompletionTime = &far
	e, _ := compute(jobs(j)).Blocks(digest(1), model, "")
	assert.Equal(t, at(60), e.Since, "the clock is the operator's")
}

// One node alone can never stop the fleet.
func TestOneNodeQuarantinesForItsPolicyAndASecondForTheFleet(t *testing.T) {
	first := on("gpu/n1", failing("j1", 1, model, 1))
	s := compute(jobs(first, on("gpu/n1", failing("j2", 1, model, 2))))
	assert.True(t, blocksOn(s, 1, model, "gpu"))
	assert.False(t, blocksOn(s, 1, model, "default"), "though it reports twice")
	assert.True(t, blocksOn(s, 1, model, ""), "of whatever policy")

	s = compute(jobs(first, on("gpu/n2", failing("j2", 1, model, 2))))
	assert.True(t, blocksOn(s, 1, model, "default"), "a second node")

	src := source("s", 1)
	record(&src, first)
	src.Spec.ConfirmQuarantine = "seen on the bench"
	assert.True(t, blocksOn(compute(nil, src), 1, model, "default"), "a person")
	record(&src)
	src.Spec.ConfirmQuarantine = ""
	assert.True(t, blocksOn(compute(nil, src), 1, model, "default"), "for good")
	src.Spec.ConfirmQuarantine = "seen on the bench"
	src.Status.Quarantine = nil
	record(&src, first)
	assert.False(t, blocksOn(compute(nil, src), 1, model, "default"), "what is reported after the confirmation was not meant")
}

// What only the network showed proves nothing: a switch may have died.
func TestANodeThatMissedItsNetworkQuarantinesNothingAlone(t *testing.T) {
	cut := network(on("gpu/n1", failing("j1", 1, model, 1)))
	s := compute(jobs(cut))
	assert.True(t, s.Empty())
	src := source("s", 1)
	record(&src, cut)
	require.Len(t, src.Status.Quarantine, 1)
	assert.Equal(t, v1alpha1.QuarantineReported, src.Status.Quarantine[0].Scope, "it is shown")

	assert.False(t, compute(jobs(cut, network(on("gpu/n1", failing("j2", 1, model, 2))))).Holds(digest(1)), "the same node again")
	s = compute(jobs(cut, network(on("gpu/n2", failing("j2", 1, model, 2)))))
	assert.True(t, blocksOn(s, 1, model, "gpu"), "a second node")
	assert.False(t, blocksOn(s, 1, model, "default"))
	s = compute(jobs(cut, on("gpu/n2", failing("j2", 1, model, 2))))
	assert.True(t, blocksOn(s, 1, model, "default"), "a second node that knows more")

	src.Spec.ConfirmQuarantine = "yes"
	assert.True(t, blocksOn(compute(nil, src), 1, model, "default"), "a person")
	src.Spec.ConfirmQuarantine = ""
	cut.Status.Blamed[0].Evidence = v1alpha1.EvidenceDevice
	assert.True(t, blocksOn(compute(jobs(cut), src), 1, model, "gpu"), "its network came back with the old firmware")
}

func TestALiftIsOfWhatWasReportedBeforeIt(t *testing.T) {
	first, second := failing("j1", 1, model, 1), failing("j2", 1, model, 2)
	src, other := source("s", 1), source("other", 2)
	src.Spec.LiftQuarantine = "for the last one"
	record(&src, first)
	assert.True(t, blocks(compute(jobs(first), src), 1, model), "asked before the report")
	other.Spec.LiftQuarantine = "now"
	assert.True(t, blocks(compute(jobs(first), src, other), 1, model), "asked of a source without the image")
	twin := source("twin", 1)
	twin.Status.Quarantine, _ = compute(jobs(first), src, twin).Listed(&twin)
	twin.Spec.LiftQuarantine = "now"
	assert.False(t, blocks(compute(jobs(first), src, twin), 1, model), "asked of one of two sources")

	src.Spec.LiftQuarantine = "it was the switch"
	assert.False(t, blocks(compute(jobs(first), src), 1, model))
	assert.True(t, blocks(compute(jobs(first, second), src), 1, model), "what is reported at this moment was not meant")
	record(&src, first)
	assert.False(t, blocks(compute(jobs(first), src), 1, model))
	src.Spec.LiftQuarantine = ""
	assert.False(t, blocks(compute(jobs(first), src), 1, model), "removing the request imposes nothing again")
	e, is := compute(jobs(first, second), src).Blocks(digest(1), model, "default")
	require.True(t, is, "a later report")
	assert.Equal(t, "j2", e.Job)
	record(&src)
	assert.Empty(t, src.Status.Quarantine, "no job is left that could bring it back")
}

// The deprecated field holds a time, which is a text like any other: no clock of a person or a node matters.
func TestATimeLiftsLikeAText(t *testing.T) {
	for _, asked := range []metav1.Time{at(-24 * 3600), at(0), at(24 * 3600)} {
		j, src := failing("j1", 1, model, 1), source("s", 1)
		record(&src, j)
		src.Spec.LiftQuarantineRequestedAt = &asked
		assert.False(t, blocks(compute(jobs(j), src), 1, model))
		record(&src, j)
		record(&src, j, failing("j2", 1, model, 2))
		assert.True(t, blocks(compute(nil, src), 1, model), "it was acted on")
	}
}

// An entry that an earlier version wrote is for the fleet.
func TestAnEntryOfAnEarlierVersionStays(t *testing.T) {
	src := source("s", 1)
	src.Status.Quarantine = []v1alpha1.QuarantinedImage{{Digest: digest(1), Model: model, Version: "1", Since: at(1), NodeName: "n1", Job: "gone"}}
	record(&src)
	assert.True(t, blocksOn(compute(nil, src), 1, model, "any"))
	src.Spec.LiftQuarantine = "now"
	assert.True(t, compute(nil, src).Empty())
}

func TestASourceRemembersWhenItsJobIsGone(t *testing.T) {
	src := source("s", 1)
	record(&src, failing("j1", 1, model, 30))
	require.Len(t, src.Status.Quarantine, 1)
	assert.True(t, blocks(compute(nil, src), 1, model))
	src.Status.Images = nil
	again := compute(nil, src)
	assert.True(t, blocks(again, 1, model), "and when the image is gone from it")
	listed, _ := again.Listed(&src)
	assert.Equal(t, src.Status.Quarantine, listed)
	src.Spec.LiftQuarantine = "now"
	assert.True(t, compute(nil, src).Empty(), "it lifts what it remembers")
}

// The first failure stays what the entry is about, while others follow.
func TestTheFirstReportStaysTheEntry(t *testing.T) {
	src := source("s", 1)
	record(&src, failing("j1", 1, model, 30))
	record(&src, failing("j3", 1, model, 33), failing("j1", 1, model, 30), failing("j0", 1, model, 20))
	e := src.Status.Quarantine[0]
	assert.Equal(t, "j1", e.Job)
	assert.Len(t, e.Reports, 3)
}

// A fleet that fails together fits into the entry, and one lift is enough for it.
func TestOneLiftIsEnoughForMoreReportsThanAreListed(t *testing.T) {
	var all []*v1alpha1.FirmwareJob
	for i := range 40 {
		all = append(all, on(fmt.Sprint("n", i), failing(fmt.Sprintf("j%02d", i), 1, model, i)))
	}
	src := source("s", 1)
	record(&src, all...)
	assert.Len(t, src.Status.Quarantine[0].Reports, 16)
	src.Spec.LiftQuarantine = "now"
	record(&src, all...)
	assert.True(t, compute(all, src).Empty())
	assert.True(t, blocks(compute(append(all, failing("later", 1, model, 99)), src), 1, model))
}

func TestASourceListsWhatFitsAndSaysHowMuchDoesNot(t *testing.T) {
	src := source("s", 1)
	var all []*v1alpha1.FirmwareJob
	for i := range quarantine.MaxListed + 2 {
		all = append(all, failing(fmt.Sprintf("j%03d", i), 1, fmt.Sprintf("15b3:%04x", i), 1000-i))
	}
	all[129].Status.Blamed[0].Message = strings.Repeat("ä", 400)
	record(&src, all[129])
	assert.LessOrEqual(t, len(src.Status.Quarantine[0].Message), 512)
	set := compute(all, src)
	listed, more := set.Listed(&src)
	assert.Len(t, listed, quarantine.MaxListed)
	assert.Equal(t, 2, more)
	var models []string
	for _, e := range listed {
		models = append(models, e.Model)
	}
	assert.Contains(t, models, "15b3:0081", "what is listed already stays")
	assert.NotContains(t, models, "15b3:0080", "the last of the rest do not fit")
	assert.True(t, blocks(set, 1, "15b3:0080"), "and are blocked all the same while their job is there")
	assert.IsNonDecreasing(t, models)
}

// A job is deleted, and the cache of sources does not show yet what was written of it.
func TestAReporterIsRememberedUntilASourceListsItsImage(t *testing.T) {
	var w quarantine.Reporters
	j := failing("j1", 1, model, 30)
	j.UID = "uid-1"
	src := source("s", 1)
	all := func() []v1alpha1.FirmwareSource { return []v1alpha1.FirmwareSource{src} }
	require.Equal(t, jobs(j), w.Remember(jobs(j, &v1alpha1.FirmwareJob{}), all(), at(0).Time))
	require.Equal(t, jobs(j), w.Remember(nil, all(), at(0).Time), "the job is gone")
	assert.True(t, blocks(compute(w.Remember(nil, all(), at(0).Time), src), 1, model))
	record(&src, j)
	assert.Empty(t, w.Remember(nil, all(), at(0).Time))
	src.Status.Quarantine = nil
	assert.Empty(t, w.Remember(nil, all(), at(0).Time), "what was written down and lifted stays settled")
}

// Two controllers see a deletion and a lift each at its own time.
func TestALiftedQuarantineDoesNotComeBackWhenItsJobIsGone(t *testing.T) {
	var w quarantine.Reporters
	j, src := failing("j1", 1, model, 30), source("s", 1)
	j.UID = "uid-1"
	all := func() []v1alpha1.FirmwareSource { return []v1alpha1.FirmwareSource{src} }
	w.Remember(jobs(j), all(), at(0).Time)
	record(&src, j)
	src.Spec.LiftQuarantine = "it was the switch"
	record(&src, j)
	w.Remember(jobs(j), all(), at(0).Time)
	record(&src)
	require.Empty(t, src.Status.Quarantine)
	assert.Empty(t, w.Remember(nil, all(), at(0).Time))
}

// Between two passes of one controller another one records a report, a person lifts it, and the entry goes with the job. Nothing
// shows that to the first one, which must not hold on to the report until its process ends.
func TestALiftThatNobodySawEndsTheMemoryOfAJobInTime(t *testing.T) {
	var w quarantine.Reporters
	j, src := failing("j1", 1, model, 30), source("s", 1)
	j.UID = "uid-1"
	all := []v1alpha1.FirmwareSource{src}
	w.Remember(jobs(j), all, at(0).Time)
	w.Remember(jobs(j), all, at(600).Time)
	assert.NotEmpty(t, w.Remember(nil, all, at(601).Time), "perhaps the sources are seen late")
	assert.NotEmpty(t, w.Remember(nil, all, at(600+3599).Time))
	assert.Empty(t, w.Remember(nil, all, at(600+3600).Time))
	assert.Empty(t, w.Remember(nil, all, at(601).Time), "for good")
}

// A job that was recorded reports another image and is deleted before a source lists that one.
func TestALaterReportOfARecordedJobIsRemembered(t *testing.T) {
	var w quarantine.Reporters
	j, src := failing("j1", 1, model, 30), source("s", 1, 2)
	j.UID = "uid-1"
	record(&src, j)
	w.Remember(jobs(j), []v1alpha1.FirmwareSource{src}, at(0).Time)
	more, second := j.DeepCopy(), failing("j1", 2, model, 30)
	more.Spec.Task.Devices = append(more.Spec.Task.Devices, second.Spec.Task.Devices...)
	more.Status.Blamed = append(more.Status.Blamed, second.Status.Blamed...)
	w.Remember(jobs(more), []v1alpha1.FirmwareSource{src}, at(0).Time)
	assert.True(t, blocks(compute(w.Remember(nil, []v1alpha1.FirmwareSource{src}, at(0).Time), src), 2, model))
}

// One of two sources lifts, and the other cannot be written at once.
func TestALiftHoldsUntilEverySourceHasTakenItOver(t *testing.T) {
	a, b := source("a", 1), source("b", 1)
	s := compute(jobs(failing("j1", 1, model, 1)), a, b)
	a.Status.Quarantine, _ = s.Listed(&a)
	b.Status.Quarantine, _ = s.Listed(&b)
	a.Spec.LiftQuarantine = "it was the switch"
	for range 3 {
		s = compute(nil, a, b)
		require.False(t, blocks(s, 1, model), "only the first source is written")
		a.Status.Quarantine, _ = s.Listed(&a)
	}
	b.Status.Quarantine, _ = s.Listed(&b)
	s = compute(nil, a, b)
	a.Status.Quarantine, _ = s.Listed(&a)
	require.Empty(t, a.Status.Quarantine)
	assert.False(t, blocks(compute(nil, a, b), 1, model), "the second source forgets later")
	record(&b)
	assert.Empty(t, b.Status.Quarantine)
}

func TestAReportThatDecidesMoreFindsAPlaceInAFullList(t *testing.T) {
	var dead, again []*v1alpha1.FirmwareJob
	for i := range 16 {
		dead = append(dead, network(on(fmt.Sprintf("gpu/n%d", i), failing(fmt.Sprintf("j%02d", i), 1, model, i))))
		again = append(again, on("gpu/n0", failing(fmt.Sprintf("j%02d", i), 1, model, i)))
	}
	for name, full := range map[string][]*v1alpha1.FirmwareJob{"of nodes that missed their network": dead, "of one node": again} {
		src, late := source("s", 1), on("web/n1", failing("late", 1, model, 99))
		record(&src, full...)
		require.False(t, quarantine.Recorded(late, []v1alpha1.FirmwareSource{src}), name)
		record(&src, append(full, late)...)
		assert.Len(t, src.Status.Quarantine[0].Reports, 16)
		assert.True(t, quarantine.Recorded(late, []v1alpha1.FirmwareSource{src}), name)
		assert.True(t, blocksOn(compute(nil, src), 1, model, "web"), name)
	}
	src, late := source("s", 1), network(on("gpu/n99", failing("late", 1, model, 99)))
	record(&src, dead...)
	assert.True(t, quarantine.Recorded(late, []v1alpha1.FirmwareSource{src}), "one like the others keeps no job")
}

// However many jobs report, the list decides what all of them would, needs none of them, and stays as it is.
func TestAFullListDecidesWhatAllReportsWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 25).Draw(t, "nodes")
		var all []*v1alpha1.FirmwareJob
		src := source("s", 1)
		for i := range rapid.IntRange(1, 40).Draw(t, "jobs") {
			n := rapid.IntRange(0, nodes-1).Draw(t, "node")
			j := on(fmt.Sprintf("p%d/n%d", n%3, n), failing(fmt.Sprintf("j%02d", i), 1, model, i))
			if rapid.IntRange(0, 9).Draw(t, "evidence") > 0 {
				network(j)
			}
			all = append(all, j)
			if rapid.Bool().Draw(t, "written at once") {
				record(&src, all...)
			}
		}
		record(&src, all...)
		first := src.Status.Quarantine
		record(&src, all...)
		require.Equal(t, first, src.Status.Quarantine, "a second pass writes nothing")
		for _, j := range all {
			require.True(t, quarantine.Recorded(j, []v1alpha1.FirmwareSource{src}), j.Name)
		}
		for _, pool := range []string{"p0", "p1", "p2", "q"} {
			require.Equal(t, blocksOn(compute(all), 1, model, pool), blocksOn(compute(nil, src), 1, model, pool), pool)
		}
	})
}
