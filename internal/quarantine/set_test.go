package quarantine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// failing is a job that was admitted at the begin and whose verification of image n failed on a device of the model.
func failing(name string, n int, model string, failed int) *v1alpha1.FirmwareJob {
	finish := at(failed)
	return &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at(0)},
		Spec: v1alpha1.FirmwareJobSpec{NodeName: "n1", Type: v1alpha1.JobTypeUpdate, Updates: []v1alpha1.DeviceUpdate{
			{Device: "n1-nic", Version: fmt.Sprint(n), Digest: digest(n)},
		}},
		Status: v1alpha1.FirmwareJobStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, LastTransitionTime: at(0)}},
			Steps:      []v1alpha1.JobStep{{Name: "verify", Device: "n1-nic", State: v1alpha1.StepFailed, FinishTime: &finish}},
			BadImages:  []v1alpha1.BadImage{{Device: "n1-nic", Digest: digest(n), Model: model, Message: "gone after the reset"}},
		},
	}
}

// source holds the images of these numbers; lift is when it lifts, negative for never.
func source(name string, lift int, images ...int) v1alpha1.FirmwareSource {
	s := v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, n := range images {
		s.Status.Images = append(s.Status.Images, v1alpha1.StoredImage{Version: fmt.Sprint(n), Digest: digest(n)})
	}
	if lift >= 0 {
		l := at(lift)
		s.Spec.LiftQuarantineRequestedAt = &l
	}
	return s
}

func jobs(js ...*v1alpha1.FirmwareJob) []*v1alpha1.FirmwareJob { return js }

func blocks(s quarantine.Set, n int, model string) bool {
	_, is := s.Blocks(digest(n), model)
	return is
}

// I5: a report counts at once, for every device of the model and no other.
func TestAnImageAJobReportsIsBlockedForItsModel(t *testing.T) {
	s := quarantine.Compute(jobs(failing("j1", 1, model, 30)), []v1alpha1.FirmwareSource{source("s", -1, 1)})
	e, is := s.Blocks(digest(1), model)
	require.True(t, is)
	assert.Equal(t, v1alpha1.QuarantinedImage{
		Digest: digest(1), Model: model, Version: "1", Since: at(30), NodeName: "n1", Job: "j1", Message: "gone after the reset",
	}, e)
	assert.False(t, blocks(s, 1, "15b3:1017"), "another model")
	assert.False(t, blocks(s, 2, model), "another image")
	assert.True(t, s.Holds(digest(1)))
	assert.False(t, s.Empty())
	assert.True(t, quarantine.Set{}.Empty())
	assert.False(t, blocks(quarantine.Set{}, 1, model))
}

func TestAnUnknownModelMayBeTheOneThatFailed(t *testing.T) {
	s := quarantine.Compute(jobs(failing("j1", 1, model, 30)), nil)
	assert.True(t, blocks(s, 1, ""))
	assert.True(t, blocks(s, 1, v1alpha1.AnyModel))
	s = quarantine.Compute(jobs(failing("j1", 1, v1alpha1.AnyModel, 30)), nil)
	assert.True(t, blocks(s, 1, "1b96:2400"), "and an unknown one stands for every model")
}

func TestAJobCanReportOnlyWhatItWasToFlash(t *testing.T) {
	otherDevice, otherImage, noModel := failing("a", 1, model, 1), failing("b", 2, model, 1), failing("c", 3, model, 1)
	otherDevice.Status.BadImages[0].Device = "n2-nic"
	otherImage.Status.BadImages[0].Digest = digest(9)
	noModel.Status.BadImages[0].Model = ""
	assert.True(t, quarantine.Compute(jobs(otherDevice, otherImage, noModel), nil).Empty())
}

func TestALiftIsOfWhatFailedBeforeIt(t *testing.T) {
	for name, c := range map[string]struct {
		sources []v1alpha1.FirmwareSource
		blocked bool
	}{
		"nobody asked":                        {[]v1alpha1.FirmwareSource{source("s", -1, 1)}, true},
		"asked before the failure":            {[]v1alpha1.FirmwareSource{source("s", 29, 1)}, true},
		"asked in the second of the failure":  {[]v1alpha1.FirmwareSource{source("s", 30, 1)}, false},
		"asked later":                         {[]v1alpha1.FirmwareSource{source("s", 31, 1)}, false},
		"asked of a source without the image": {[]v1alpha1.FirmwareSource{source("s", -1, 1), source("other", 31, 2)}, true},
		"asked of one of two sources":         {[]v1alpha1.FirmwareSource{source("a", -1, 1), source("b", 31, 1)}, false},
		"asked of two, once too early":        {[]v1alpha1.FirmwareSource{source("a", 3, 1), source("b", 31, 1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.blocked, blocks(quarantine.Compute(jobs(failing("j1", 1, model, 30)), c.sources), 1, model))
		})
	}
}

func TestAFailureAfterALiftQuarantinesAgain(t *testing.T) {
	src := []v1alpha1.FirmwareSource{source("s", 40, 1)}
	e, is := quarantine.Compute(jobs(failing("j1", 1, model, 30), failing("j2", 1, model, 50)), src).Blocks(digest(1), model)
	require.True(t, is)
	assert.Equal(t, "j2", e.Job)
}

func TestASourceRemembersWhenItsJobIsGone(t *testing.T) {
	src := source("s", -1, 1)
	before := quarantine.Compute(jobs(failing("j1", 1, model, 30)), []v1alpha1.FirmwareSource{src})
	src.Status.Quarantine, _ = before.Listed(&src)
	require.Len(t, src.Status.Quarantine, 1)
	assert.Equal(t, before, quarantine.Compute(nil, []v1alpha1.FirmwareSource{src}))
	src.Status.Images = nil
	again := quarantine.Compute(nil, []v1alpha1.FirmwareSource{src})
	assert.Equal(t, before, again, "and when the image is gone from it")
	listed, _ := again.Listed(&src)
	assert.Len(t, listed, 1)
	src.Spec.LiftQuarantineRequestedAt = new(at(30))
	assert.True(t, quarantine.Compute(nil, []v1alpha1.FirmwareSource{src}).Empty(), "it lifts what it remembers")
}

// The first failure stays the entry while others follow, so that a fleet that fails together makes one write.
func TestTheFirstFailureStaysTheEntry(t *testing.T) {
	src := source("s", -1, 1)
	src.Status.Quarantine, _ = quarantine.Compute(jobs(failing("j1", 1, model, 30)), []v1alpha1.FirmwareSource{src}).Listed(&src)
	all := jobs(failing("j3", 1, model, 33), failing("j1", 1, model, 30), failing("j2", 1, model, 31))
	listed, more := quarantine.Compute(all, []v1alpha1.FirmwareSource{src}).Listed(&src)
	assert.Equal(t, src.Status.Quarantine, listed)
	assert.Zero(t, more)
}

func TestTheTimeOfAFailureDoesNotMoveWhileTheJobGoesOn(t *testing.T) {
	j := failing("j1", 1, model, 30)
	first, _ := quarantine.Compute(jobs(j), nil).Blocks(digest(1), model)
	later := at(90)
	j.Status.Steps = append(j.Status.Steps, v1alpha1.JobStep{
		Name: "health", Phase: v1alpha1.StepPhaseRollback, State: v1alpha1.StepFailed, FinishTime: new(at(10)),
	})
	j.Status.CompletionTime = &later
	j.Status.Conditions = append(j.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, LastTransitionTime: later})
	last, _ := quarantine.Compute(jobs(j), nil).Blocks(digest(1), model)
	assert.Equal(t, first, last)

	j.Status.Steps = nil
	e, _ := quarantine.Compute(jobs(j), nil).Blocks(digest(1), model)
	assert.Equal(t, later, e.Since, "where no step says when, the conditions do")
}

// F4: a node whose clock is a day behind reports a failure from before a lift that was meant for another one.
func TestAFailureIsNotBeforeTheAdmissionWhateverTheNodeSays(t *testing.T) {
	j := failing("j1", 1, model, -24*3600)
	j.Status.Conditions[0].LastTransitionTime = at(100)
	src := []v1alpha1.FirmwareSource{source("s", 99, 1)}
	e, is := quarantine.Compute(jobs(j), src).Blocks(digest(1), model)
	require.True(t, is)
	assert.Equal(t, at(100), e.Since)
}

// F4: what a clock that is behind measures is right all the same, so a lift while the job ran is not one of its failure.
func TestAFailureAfterALiftCountsThoughTheClockOfTheNodeIsBehind(t *testing.T) {
	j := failing("j1", 1, model, 60-24*3600)
	j.Status.StartTime = new(at(-24 * 3600))
	j.Status.Conditions[0].LastTransitionTime = at(100)
	e, is := quarantine.Compute(jobs(j), []v1alpha1.FirmwareSource{source("s", 110, 1)}).Blocks(digest(1), model)
	require.True(t, is)
	assert.Equal(t, at(160), e.Since)
	j.Status.StartTime = new(at(0)) // the clock was set back while the job ran
	e, is = quarantine.Compute(jobs(j), nil).Blocks(digest(1), model)
	require.True(t, is)
	assert.Equal(t, at(100), e.Since)
}

func TestASourceListsWhatFitsAndSaysHowMuchDoesNot(t *testing.T) {
	src := source("s", -1, 1)
	var all []*v1alpha1.FirmwareJob
	for i := range quarantine.MaxListed + 2 {
		all = append(all, failing(fmt.Sprintf("j%03d", i), 1, fmt.Sprintf("15b3:%04x", i), 1000-i))
	}
	all[0].Status.BadImages[0].Message = strings.Repeat("ä", 400)
	set := quarantine.Compute(all, []v1alpha1.FirmwareSource{src})
	src.Status.Quarantine, _ = quarantine.Compute(all[:1], []v1alpha1.FirmwareSource{src}).Listed(&src)
	assert.LessOrEqual(t, len(src.Status.Quarantine[0].Message), 512)
	listed, more := set.Listed(&src)
	assert.Len(t, listed, quarantine.MaxListed)
	assert.Equal(t, 2, more)
	var models []string
	for _, e := range listed {
		models = append(models, e.Model)
	}
	assert.Contains(t, models, "15b3:0000", "what is listed already stays, young as it is")
	assert.NotContains(t, models, "15b3:0001")
	assert.NotContains(t, models, "15b3:0002", "the youngest of the rest do not fit")
	assert.True(t, blocks(set, 1, "15b3:0001"), "and are blocked all the same while their job is there")
	assert.IsNonDecreasing(t, models)
}

// A job is deleted, and the cache of sources does not show yet what was written of it.
func TestAReporterIsRememberedUntilASourceListsItsImage(t *testing.T) {
	var w quarantine.Reporters
	j := failing("j1", 1, model, 30)
	j.UID = "uid-1"
	src := source("s", -1, 1)
	all := func() []v1alpha1.FirmwareSource { return []v1alpha1.FirmwareSource{src} }
	require.Equal(t, jobs(j), w.Remember(jobs(j, &v1alpha1.FirmwareJob{}), all()))
	require.Equal(t, jobs(j), w.Remember(nil, all()), "the job is gone")
	assert.True(t, blocks(quarantine.Compute(w.Remember(nil, all()), all()), 1, model))
	src.Status.Quarantine, _ = quarantine.Compute(jobs(j), all()).Listed(&src)
	assert.Empty(t, w.Remember(nil, all()))
	src.Status.Quarantine = nil
	assert.Empty(t, w.Remember(nil, all()), "what was written down and lifted stays settled")

	w.Remember(jobs(j), all())
	src.Spec.LiftQuarantineRequestedAt = new(at(30))
	assert.Empty(t, w.Remember(nil, all()), "and so is what was lifted before it was written down")
}
