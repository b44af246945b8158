package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func (w *world) estimate() *metav1.Time { return w.policy("default").Status.EstimatedCompletionTime }

func TestEstimatesKnowableEnd(t *testing.T) {
	w := newWorld(t)
	jobs := w.pool(8)
	began := w.clock
	o := w.operator()
	o.pass()
	assert.True(t, w.policy("default").Status.StartTime.Time.Equal(began))
	assert.Nil(t, w.estimate())
	assert.Equal(t, []v1alpha1.WaitingNodes{{Reason: v1alpha1.ReasonBudgetExhausted, Nodes: 6}}, w.policy("default").Status.Waiting)
	assert.False(t, meta.IsStatusConditionTrue(w.policy("default").Status.Conditions, v1alpha1.ConditionComplete))

	for done := 0; done < 8; done += 2 {
		w.clock = w.clock.Add(10 * time.Minute)
		w.complete(jobs[done])
		w.complete(jobs[done+1])
		o.pass()
		switch left := 8 - done - 2; left {
		case 6, 0:
			assert.Nil(t, w.estimate(), "two jobs say too little, and after the end there is none")
		default:
			require.NotNil(t, w.estimate())
			assert.True(t, w.estimate().Time.Equal(began.Add(40*time.Minute)), w.estimate())
		}
	}
	assert.True(t, meta.IsStatusConditionTrue(w.policy("default").Status.Conditions, v1alpha1.ConditionComplete))
	assert.True(t, w.policy("default").Status.StartTime.Time.Equal(began), "of the last rollout")
	assert.Empty(t, w.policy("default").Status.Waiting)

	w.clock = w.clock.Add(time.Hour)
	w.queue("next", "n1")
	o.pass()
	assert.True(t, w.policy("default").Status.StartTime.Time.Equal(w.clock), "the next rollout")
}

func TestPassingTimeWritesNothing(t *testing.T) {
	w := newWorld(t)
	jobs := w.pool(8)
	o := w.operator()
	o.pass()
	for i := range 4 {
		w.clock = w.clock.Add(7 * time.Minute)
		w.complete(jobs[i])
		o.pass()
	}
	require.NotNil(t, w.estimate())
	before := w.versions()
	for range 20 {
		w.clock = w.clock.Add(time.Minute)
		o.pass()
	}
	assert.Equal(t, before, w.versions())
}

func TestNoEstimateIfPersonNeeded(t *testing.T) {
	w := newWorld(t)
	jobs := w.pool(10)
	o := w.operator()
	o.pass()
	for i := range 4 {
		w.clock = w.clock.Add(7 * time.Minute)
		w.complete(jobs[i])
		o.pass()
	}
	require.NotNil(t, w.estimate())
	w.hold(jobs[4])
	o.pass()
	assert.Nil(t, w.estimate(), "a held node has no known end")
	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutPaused })
	o.pass()
	s := w.policy("default").Status
	assert.Equal(t, v1alpha1.ReasonPaused, s.Waiting[0].Reason)
}
