package match

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// waitingFor makes a job with an update of each of the templates.
func waitingFor(name string, minute int, reason string, templates ...*v1alpha1.FirmwareTemplate) *v1alpha1.FirmwareJob {
	j := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 5, 9, minute, 0, 0, time.UTC))},
		Spec:       v1alpha1.FirmwareJobSpec{NodeName: "n0"},
	}
	for _, t := range templates {
		j.Spec.Updates = append(j.Spec.Updates, v1alpha1.DeviceUpdate{Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: t.Name, UID: string(t.UID)}}})
	}
	j.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: reason}}
	return j
}

func TestATemplateNamesItsOldestWaitingJobAndWhyItWaits(t *testing.T) {
	p := newPool(t, 1)
	of := p.templates["t"]
	oldest := func() *v1alpha1.WaitingJob {
		tally, ok := p.ix.Tally("t")
		require.True(t, ok)
		return tally.OldestWaiting
	}
	assert.Nil(t, oldest())
	first := waitingFor("b", 1, "BudgetExhausted", of)
	assert.Equal(t, []string{"t"}, p.ix.SetJob(first).Templates)
	p.ix.SetJob(waitingFor("a", 2, "WaveNotOpen", of))
	assert.Equal(t, &v1alpha1.WaitingJob{Job: "b", Node: "n0", Policy: "default", Reason: "BudgetExhausted", Since: first.CreationTimestamp}, oldest())

	p.ix.SetPolicy(&v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Generation: 1}})
	assert.Equal(t, "gpu", oldest().Policy)
	assert.Equal(t, []string{"t"}, p.ix.SetNode("n0", map[string]string{"pool": "gpu", "rack": "r1"}).Templates, "another policy may choose it now")

	next := waitingFor("b", 1, "RolloutHalted", of)
	assert.Equal(t, []string{"t"}, p.ix.SetJob(next).Templates)
	assert.Equal(t, "RolloutHalted", oldest().Reason)
	assert.Empty(t, p.ix.SetJob(next).Templates, "nothing changed")

	next = next.DeepCopy()
	next.Status.Conditions[0].Status = metav1.ConditionTrue
	p.ix.SetJob(next)
	assert.Equal(t, "a", oldest().Job, "an admitted job waits no more")
	p.ix.DeleteJob("a")
	assert.Nil(t, oldest())
}

// A template that was deleted and made again has no part in the jobs of its predecessor.
func TestAJobOfAnotherTemplateOfTheSameNameIsNotCounted(t *testing.T) {
	p := newPool(t, 1)
	other := p.templates["t"].DeepCopy()
	other.UID = "another"
	p.ix.SetJob(waitingFor("a", 1, "BudgetExhausted", other))
	tally, _ := p.ix.Tally("t")
	assert.Nil(t, tally.OldestWaiting)
}

// The oldest waiting job is the right one after any sequence of events.
func TestTheOldestWaitingJobDoesNotDependOnTheOrderOfEvents(t *testing.T) {
	for seed := range uint64(50) {
		dice := rand.New(rand.NewPCG(seed, 0))
		p := newPool(t, 1)
		p.template("u", "1.0")
		templates := []*v1alpha1.FirmwareTemplate{p.templates["t"], p.templates["u"]}
		jobs := map[string]*v1alpha1.FirmwareJob{}
		for range 300 {
			name := fmt.Sprint("job-", dice.IntN(150))
			if dice.IntN(3) == 0 {
				delete(jobs, name)
				p.ix.DeleteJob(name)
				continue
			}
			j := waitingFor(name, dice.IntN(60), "BudgetExhausted", templates[:1+dice.IntN(2)]...)
			switch dice.IntN(4) {
			case 0:
				j.Status.Conditions[0].Status = metav1.ConditionTrue
			case 1:
				j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue})
			}
			jobs[name] = j
			p.ix.SetJob(j)
			for _, of := range templates {
				tally, _ := p.ix.Tally(of.Name)
				require.Equal(t, oldestOf(jobs, of), tally.OldestWaiting, "seed %d", seed)
			}
		}
	}
}

func oldestOf(jobs map[string]*v1alpha1.FirmwareJob, of *v1alpha1.FirmwareTemplate) *v1alpha1.WaitingJob {
	waits := slices.DeleteFunc(slices.Collect(maps.Values(jobs)), func(j *v1alpha1.FirmwareJob) bool {
		mine := slices.ContainsFunc(j.Spec.Updates, func(u v1alpha1.DeviceUpdate) bool { return u.Origin[0].Name == of.Name })
		return !mine || j.Admitted() || j.Ended()
	})
	if len(waits) == 0 {
		return nil
	}
	j := slices.MinFunc(waits, func(a, b *v1alpha1.FirmwareJob) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &v1alpha1.WaitingJob{Job: j.Name, Node: "n0", Policy: "default", Reason: "BudgetExhausted", Since: j.CreationTimestamp}
}
