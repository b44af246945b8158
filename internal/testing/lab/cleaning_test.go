package lab

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// clean is the condition Clean of the node; nil where it has none.
func (s *scene) clean() *metav1.Condition {
	s.t.Helper()
	n := &v1alpha1.NodeFirmware{}
	require.NoError(s.t, s.lab.admin.Get(s.t.Context(), client.ObjectKey{Name: s.node.Name}, n))
	return meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionClean)
}

// is says what a condition is, such as "True Succeeded"; empty for none.
func is(c *metav1.Condition) string {
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// R003-2, R003-24, R003-37, R003-53: a node that is new is brought to its target and proven before it loses its taint; when it leaves service
// it is drained whatever its steps find, waits for a person where one fails, and is clean when they succeed.
func TestANodeIsProvenAndLeavesClean(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1)
	s := l.scene(t, 0)
	clean := func() string { return is(s.clean()) }
	tainted := func(key string) bool {
		return slices.ContainsFunc(s.kubeNode().Spec.Taints, func(is corev1.Taint) bool { return is.Key == key })
	}
	p := &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.CleaningPolicySpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/hostname": s.node.Name}},
		When:         []v1alpha1.CleaningTime{v1alpha1.CleaningNewNode, v1alpha1.CleaningOutOfService},
		Steps:        []v1alpha1.CleaningStep{{Name: "verify-firmware", Priority: ptr.To[int32](20)}, {Name: "reset-bios-settings", Priority: ptr.To[int32](10)}},
	}}
	require.NoError(t, l.admin.Create(t.Context(), p))
	require.NoError(t, s.node.Machine.SetBIOSSetting("SecureBoot", "Disabled"))
	s.want("bios")
	n := s.kubeNode()
	require.NoError(t, l.edit(t.Context(), n, func() {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.UnverifiedTaint, Effect: corev1.TaintEffectNoSchedule})
	}))
	eventually(t, "the new node is proven", func() bool { return !tainted(v1alpha1.UnverifiedTaint) && clean() == "" })
	var jobs v1alpha1.FirmwareJobList
	require.NoError(t, l.admin.List(t.Context(), &jobs, client.MatchingFields{"spec.nodeName": s.node.Name}))
	byType := map[v1alpha1.JobType]*v1alpha1.FirmwareJob{}
	for i := range jobs.Items {
		byType[jobs.Items[i].Spec.Task.Type] = &jobs.Items[i]
	}
	require.Len(t, byType, 2, "an update, and the steps")
	assert.False(t, byType[v1alpha1.JobTypeSteps].CreationTimestamp.Time.Before(byType[v1alpha1.JobTypeUpdate].Status.CompletionTime.Time), "the target comes first")
	settings, err := s.node.Machine.BIOSSettings()
	require.NoError(t, err)
	assert.Equal(t, "Enabled", settings["SecureBoot"])
	assert.False(t, s.kubeNode().Spec.Unschedulable)

	expect := func(nics int32) {
		t.Helper()
		require.NoError(t, l.edit(t.Context(), p, func() {
			p.Spec.Steps = []v1alpha1.CleaningStep{{Name: "verify-inventory", Priority: ptr.To[int32](30), Expect: []v1alpha1.ExpectedDevices{
				{Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: v1alpha1.AnyVendor}, Count: &nics},
			}}}
		}))
	}
	var devices v1alpha1.NodeDeviceList
	require.NoError(t, l.admin.List(t.Context(), &devices, client.MatchingFields{"spec.nodeName": s.node.Name}))
	nics := int32(0)
	for _, d := range devices.Items {
		if d.Status.Class == v1alpha1.ClassNIC {
			nics++
		}
	}
	expect(nics + 1)
	reboots := s.node.Reboots()
	s.patchNode(func(n *v1alpha1.NodeFirmware) { n.Spec.Service = v1alpha1.NodeOutOfService })
	eventually(t, "the step fails", func() bool { return clean() == "False "+v1alpha1.ReasonStepFailed })
	assert.True(t, tainted(v1alpha1.OutOfServiceTaint))
	assert.True(t, s.kubeNode().Spec.Unschedulable, "the node is held, and its workload has left")
	s.node.KillDaemon()
	require.NoError(t, s.node.StartDaemon())
	expect(nics) // the job of the new steps takes the node over
	eventually(t, "the node is clean", func() bool { return clean() == "True "+v1alpha1.ReasonSucceeded })
	assert.Equal(t, reboots, s.node.Reboots(), "nothing needed a reboot")
	assert.True(t, tainted(v1alpha1.OutOfServiceTaint))
	assert.False(t, s.kubeNode().Spec.Unschedulable)
	s.patchNode(func(n *v1alpha1.NodeFirmware) { n.Spec.Service = v1alpha1.NodeInService })
	eventually(t, "the node is in service", func() bool { return !tainted(v1alpha1.OutOfServiceTaint) && clean() == "" })
}
