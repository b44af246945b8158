package rollout_test

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// A restore that the node rejects leaves the failed job holding it: one place, and one failure.
func TestARejectedRestoreLeavesOneFailure(t *testing.T) {
	w := newWorld(t)
	p := newPolicy("default", intstr.FromInt32(1), nil)
	p.Spec.Halt = &v1alpha1.RolloutHalt{MaxHeld: 2, MaxFailures: ptr.To(intstr.FromInt32(2))}
	w.create(p, &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	w.nodes("n1")
	w.scanned("n1", "", w.clock)
	w.queue("job-1", "n1")
	o := w.operator()
	o.pass()
	w.hold("job-1")
	w.reportHeld("n1", "job-1")
	o.pass()
	require.EqualValues(t, 1, w.policy("default").Status.Rollouts[0].Failed)

	w.create(&v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "restore"}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: "n1", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeRestore, Devices: []v1alpha1.TaskDevice{{Name: "n1-bios"}}},
	}})
	o.pass()
	require.Equal(t, []string{"restore"}, w.ledger("default"))
	w.report("restore", map[string]bool{v1alpha1.ConditionReady: false, v1alpha1.ConditionFailed: true, v1alpha1.ConditionStalled: true})
	o.pass()
	assert.Equal(t, []string{"job-1"}, w.ledger("default"))
	got := w.policy("default").Status
	assert.EqualValues(t, 1, got.Rollouts[0].Failed)
	assert.Nil(t, got.Rollouts[0].HaltedTime)
	assert.Equal(t, v1alpha1.VerdictFailed, got.Admitted[0].Verdict)
	w.requireStatus(o, "default", status.FailedStatus)
}
