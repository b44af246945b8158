package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// pool is a pool of nodes, of which two go at once, each for ten minutes.
func (w *world) pool(nodes int) []string {
	w.create(newPolicy("default", intstr.FromInt32(2), nil))
	var jobs []string
	for i := range nodes {
		n := fmt.Sprintf("n%d", i)
		w.nodes(n)
		jobs = append(jobs, w.queue("job-"+n, n).Name)
	}
	return jobs
}

func (w *world) progress() *v1alpha1.RolloutProgress { return w.policy("default").Status.Progress }

func TestProgressCountsEachJobOnceAndEstimatesTheEndWhenItCanBeKnown(t *testing.T) {
	w := newWorld(t)
	jobs := w.pool(8)
	began := w.clock
	o := w.operator()
	o.pass()
	p := w.progress()
	require.NotNil(t, p)
	assert.True(t, p.StartTime.Time.Equal(began))
	assert.Nil(t, p.SecondsPerNode)
	assert.Nil(t, p.EstimatedCompletionTime)
	assert.Equal(t, []v1alpha1.WaitingNodes{{Reason: v1alpha1.ReasonBudgetExhausted, Nodes: 6, Node: "n2"}}, w.policy("default").Status.Waiting)
	assert.False(t, meta.IsStatusConditionTrue(w.policy("default").Status.Conditions, v1alpha1.ConditionComplete))

	for done := 0; done < 8; done += 2 {
		w.clock = w.clock.Add(10 * time.Minute)
		w.complete(jobs[done])
		w.complete(jobs[done+1])
		o = w.operator() // another operator every time: what is counted is in the policy
		o.pass()
		p = w.progress()
		assert.Equal(t, int32(done+2), p.Succeeded)
		assert.Equal(t, int32(300), *p.SecondsPerNode)
		switch left := 8 - p.Succeeded; left {
		case 6:
			assert.Nil(t, p.EstimatedCompletionTime, "two jobs say too little")
		case 0:
			assert.Nil(t, p.EstimatedCompletionTime)
			assert.True(t, p.CompletionTime.Time.Equal(w.clock))
		default:
			require.NotNil(t, p.EstimatedCompletionTime)
			assert.True(t, p.EstimatedCompletionTime.Time.Equal(began.Add(40*time.Minute)), p.EstimatedCompletionTime)
		}
	}
	assert.True(t, meta.IsStatusConditionTrue(w.policy("default").Status.Conditions, v1alpha1.ConditionComplete))
	assert.Empty(t, w.policy("default").Status.Waiting)

	w.clock = w.clock.Add(time.Hour)
	w.queue("next", "n1")
	o.pass()
	p = w.progress()
	assert.True(t, p.StartTime.Time.Equal(w.clock), "the next rollout")
	assert.Zero(t, p.Succeeded)
	assert.Nil(t, p.CompletionTime)
}

func TestTheMerePassingOfTimeWritesNothing(t *testing.T) {
	w := newWorld(t)
	jobs := w.pool(8)
	o := w.operator()
	o.pass()
	for i := range 4 {
		w.clock = w.clock.Add(7 * time.Minute)
		w.complete(jobs[i])
		o.pass()
	}
	require.NotNil(t, w.progress().EstimatedCompletionTime)
	before := w.versions()
	for range 20 {
		w.clock = w.clock.Add(time.Minute)
		o.pass()
	}
	assert.Equal(t, before, w.versions())
}

func TestNoEndIsEstimatedWhileAPersonIsNeeded(t *testing.T) {
	w := newWorld(t)
	jobs := w.pool(10)
	o := w.operator()
	o.pass()
	for i := range 4 {
		w.clock = w.clock.Add(7 * time.Minute)
		w.complete(jobs[i])
		o.pass()
	}
	require.NotNil(t, w.progress().EstimatedCompletionTime)
	w.hold(jobs[4])
	o.pass()
	assert.Nil(t, w.progress().EstimatedCompletionTime, "a held node has no known end")
	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutPaused })
	o.pass()
	s := w.policy("default").Status
	assert.Equal(t, v1alpha1.ReasonPolicyPaused, s.Waiting[0].Reason)
	assert.Equal(t, int32(4), s.Progress.Succeeded)
	assert.Zero(t, s.Progress.Failed, "the held job still has its place")

	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutActive })
	w.clock = w.clock.Add(time.Minute)
	w.queue("again", "n4")
	o.pass()
	assert.Equal(t, int32(1), w.progress().Failed, "its place was taken over")
}
