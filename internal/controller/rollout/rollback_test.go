package rollout_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Some devices take any image for a rollback. In the job of a person it must be one that a source lists for the device.
func TestAJobOfAPersonWithARollbackImageThatNoSourceListsWaits(t *testing.T) {
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromString("100%"), nil))
	w.holding("cx6", 2)
	src := &v1alpha1.FirmwareSource{}
	require.NoError(t, w.Get(t.Context(), types.NamespacedName{Name: "cx6"}, src))
	for n, image := range map[int]v1alpha1.StoredImage{
		11: {Version: "1", Models: []string{"101d"}},
		12: {Version: "1", Models: []string{"1021"}},
		13: {Version: "9", Models: []string{"101d"}},
		14: {Version: "1"},
	} {
		image.Class, image.Digest = v1alpha1.ClassNIC, digest(n)
		src.Status.Images = append(src.Status.Images, image)
	}
	require.NoError(t, w.Status().Update(t.Context(), src))
	cases := map[string]struct {
		rollback int
		planned  bool
		reason   string
	}{
		"listed":                    {11, false, v1alpha1.ReasonAdmitted},
		"for-another-model":         {12, false, v1alpha1.ReasonImageNotFound},
		"of-another-version":        {13, false, v1alpha1.ReasonImageNotFound},
		"for-whatever-model":        {14, false, v1alpha1.ReasonImageNotFound},
		"in-another-source":         {11, false, v1alpha1.ReasonImageNotFound},
		"listed-nowhere":            {15, false, v1alpha1.ReasonImageNotFound},
		"planned-and-no-more-there": {15, true, v1alpha1.ReasonAdmitted},
	}
	for name, c := range cases {
		w.machine(name, connectX6)
		j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "job-" + name}, Spec: v1alpha1.FirmwareJobSpec{
			NodeName: name, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
				Name: name + "-nic", UniqueID: "nic", FromVersion: "1", Version: "2", Digest: digest(2), RollbackDigest: digest(c.rollback), RollbackSource: "cx6",
			}}},
		}}
		if name == "in-another-source" {
			j.Spec.Task.Devices[0].RollbackSource = "another"
		}
		if c.planned {
			j.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldOwnerOperator}
		}
		w.create(j)
	}
	w.operator().pass()
	for name, c := range cases {
		assert.Equal(t, c.reason, w.reason("job-"+name), name)
	}
	assert.Contains(t, w.message("job-listed-nowhere"), fmt.Sprintf("Neither the source in rollbackSource nor that of the device lists the rollbackDigest of device listed-nowhere-nic (%s)", digest(15)))

	src.Status.Images = append(src.Status.Images, v1alpha1.StoredImage{Version: "1", Class: v1alpha1.ClassNIC, BoardIDs: nil, Models: []string{"15b3:101d", "101d"}, Digest: digest(15)})
	require.NoError(t, w.Status().Update(t.Context(), src))
	w.operator().pass()
	assert.Equal(t, v1alpha1.ReasonAdmitted, w.reason("job-listed-nowhere"))
}

// A selector that chooses nothing may be on purpose, and may be misspelt.
func TestPolicyWithoutNodesSaysSo(t *testing.T) {
	w := newWorld(t)
	w.nodes("n1")
	w.create(newPolicy("gpu", intstr.FromInt32(1), map[string]string{"pool": "gup"}))
	o := w.operator()
	o.pass()
	ready := w.ready("gpu")
	assert.Equal(t, metav1.ConditionTrue, ready.Status, "nothing has to be done")
	assert.Equal(t, v1alpha1.ReasonNoMatch, ready.Reason)
	assert.Contains(t, ready.Message, "spec.nodeSelector selects no node")
	assert.Contains(t, <-o.events.Events, "Warning NoMatch spec.nodeSelector selects no node")
	o.pass()
	assert.Empty(t, o.events.Events, "once")
	w.create(newNode("n2", map[string]string{"pool": "gup"}))
	o.pass()
	assert.Equal(t, v1alpha1.ReasonSucceeded, w.ready("gpu").Reason)
}
