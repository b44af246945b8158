package explain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
)

var at = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func is(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func gathering(t *testing.T, all ...client.Object) *explain.Gathering {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	byNode := func(o client.Object) []string {
		switch o := o.(type) {
		case *v1alpha1.FirmwareJob:
			return []string{o.Spec.NodeName}
		case *v1alpha1.NodeDevice:
			return []string{o.Spec.NodeName}
		}
		return nil
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).
		WithIndex(&v1alpha1.FirmwareJob{}, "spec.nodeName", byNode).WithIndex(&v1alpha1.NodeDevice{}, "spec.nodeName", byNode).Build()
	return &explain.Gathering{Ctx: t.Context(), API: api}
}

func jobOn(name string, begun bool, age time.Duration, task v1alpha1.JobType) *v1alpha1.FirmwareJob {
	j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(at.Add(-age))}}
	j.Spec = v1alpha1.FirmwareJobSpec{NodeName: "n1", Task: v1alpha1.JobTask{Type: task, Devices: []v1alpha1.TaskDevice{{Name: "n1-nic"}}}}
	admitted := is(v1alpha1.ConditionAdmitted, metav1.ConditionFalse, v1alpha1.ReasonOutsideWindow, "No window is open.")
	if begun {
		admitted = is(v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, "It may begin.")
		j.Status.StartTime = new(metav1.NewTime(at))
	}
	j.Status.Conditions = []metav1.Condition{admitted, is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending, "It is at work.")}
	return j
}

// What needs a person goes before what goes on by itself, as in the list of what needs one.
func TestAConcernIsTheHeadlineOfANodeWhoseJobWaits(t *testing.T) {
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1alpha1.NodeFirmwareStatus{Conditions: []metav1.Condition{
		is(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonConflict, "Two templates want n1-disk. To correct it: kubectl edit fwt lab"),
		is(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonConflict, "Two templates want n1-disk."),
	}}}
	g := gathering(t, jobOn("j", false, time.Hour, v1alpha1.JobTypeUpdate))
	e := g.Explain(n)
	require.NoError(t, g.Err)
	assert.Equal(t, v1alpha1.ReasonConflict, e.Reason)
	require.Len(t, e.Next, 1)
	assert.Equal(t, "kubectl edit fwt lab", e.Next[0].Command)
	assert.Equal(t, "job/j", e.Chain[len(e.Chain)-1].Of)

	n.Status.Conditions = n.Status.Conditions[1:]
	assert.Equal(t, v1alpha1.ReasonOutsideWindow, g.Explain(n).Reason, "without one what the job waits for is why")
}

func TestADeviceIsExplainedByTheJobThatIsAtWork(t *testing.T) {
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n1-nic"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n1"}}
	g := gathering(t, jobOn("update", true, time.Hour, v1alpha1.JobTypeUpdate), jobOn("later", false, time.Minute, v1alpha1.JobTypeUpdate))
	e := g.Explain(d)
	require.NoError(t, g.Err)
	require.NotEmpty(t, e.Chain)
	assert.Equal(t, "job/update", e.Chain[len(e.Chain)-1].Of)
}
