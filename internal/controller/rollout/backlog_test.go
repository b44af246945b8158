package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// A template queues jobs for a whole fleet. While they come, few are told why they wait, so that the API server has time to create
// the others. Then each is told.
func TestFewJobsAreToldWhyTheyWaitWhileAFleetIsQueued(t *testing.T) {
	const few = 5
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromInt32(0), nil))
	nodes := 0
	queue := func(n int) {
		for range n {
			name := fmt.Sprintf("n%03d", nodes)
			w.nodes(name)
			w.queue("job-"+name, name)
			nodes++
		}
	}
	told := func() int {
		var jobs v1alpha1.FirmwareJobList
		require.NoError(t, w.List(t.Context(), &jobs))
		require.Len(t, jobs.Items, nodes)
		n := 0
		for _, j := range jobs.Items {
			if meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted) != nil {
				n++
			}
		}
		return n
	}
	o := w.operator()
	once := func() {
		result, err := o.Reconcile(t.Context(), ctrl.Request{})
		require.NoError(t, err)
		assert.Positive(t, result.RequeueAfter)
		assert.Less(t, result.RequeueAfter, time.Second, "the others are told soon")
	}
	queue(120)
	once()
	assert.Equal(t, few, told())
	queue(30)
	once()
	assert.Equal(t, 2*few, told())
	assert.EqualValues(t, 1, o.view.most.Load(), "writes side by side")
	once()
	assert.Equal(t, 2*few+100, told(), "no job was queued since")
	o.pass()
	assert.Equal(t, nodes, told())
}
