package rollout

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// A pass that sees the next version of a job while it is told by the one before finds it told later, and not never.
func TestNobodyIsForgotten(t *testing.T) {
	jobAt := func(version string) *v1alpha1.FirmwareJob {
		return &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "job", UID: "uid", ResourceVersion: version}}
	}
	admit := status.JobAdmitted(schedule.Admission{Policy: "gpu"}, "")
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	var told []string
	var teller *teller
	teller = newTeller(func(_ context.Context, w telling) (outcome, error) {
		told = append(told, w.job.ResourceVersion)
		if w.job.ResourceVersion == "1" { // the daemon wrote, and a pass has seen it, before this write is refused
			teller.tell([]telling{{jobAt("2"), admit}})
			return outdated, nil
		}
		return written, nil
	}, func() {})
	teller.open(q)
	teller.tell([]telling{{jobAt("1"), admit}})
	for range 2 {
		require.Equal(t, 1, q.Len())
		request, _ := q.Get()
		_, err := teller.Reconcile(t.Context(), request)
		require.NoError(t, err)
		q.Done(request)
	}
	assert.Equal(t, []string{"1", "2"}, told)
	assert.Zero(t, q.Len())
	assert.Empty(t, teller.wants)
}
