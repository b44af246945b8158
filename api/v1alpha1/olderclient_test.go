package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// olderJob and olderNode are FirmwareJob and NodeFirmware as a client was built with that knows nothing of steps.
type olderJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		NodeName string `json:"nodeName,omitempty"`
		Priority *int32 `json:"priority,omitempty"`
		Task     struct {
			Type    string        `json:"type,omitempty"`
			Devices []olderDevice `json:"devices,omitempty"`
		} `json:"task,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitempty"`
}

type olderDevice struct {
	Name     string `json:"name,omitempty"`
	UniqueID string `json:"uniqueID,omitempty"`
	Version  string `json:"version,omitempty"`
	Digest   string `json:"digest,omitempty"`
}

type olderNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Requests struct {
			Retry string `json:"retry,omitempty"`
		} `json:"requests,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		HeldBy string `json:"heldBy,omitempty"`
	} `json:"status,omitempty"`
}

func (o *olderJob) DeepCopyObject() runtime.Object { out := *o; return &out }

func (o *olderNode) DeepCopyObject() runtime.Object { out := *o; return &out }

func olderClient(t *testing.T, env *apitest.Env) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(v1alpha1.GroupVersion.WithKind("FirmwareJob"), &olderJob{})
	scheme.AddKnownTypeWithName(v1alpha1.GroupVersion.WithKind("NodeFirmware"), &olderNode{})
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	c, err := client.New(env.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// R003-54: a client that knows nothing of steps makes updates, reads every object, and takes no step from one that it writes. Where it
// would by writing a whole job, it is refused.
func TestAClientThatKnowsNoStepsKeepsThem(t *testing.T) {
	env := apitest.New(t)
	older := olderClient(t, env)

	update := &olderJob{ObjectMeta: metav1.ObjectMeta{Name: "gpu-017-update"}}
	update.Spec.NodeName, update.Spec.Task.Type = "gpu-017", "Update"
	update.Spec.Task.Devices = []olderDevice{{Name: "gpu-017-nic-b83fd2a1c4e0", UniqueID: "b83fd2a1c4e0", Version: "22.41.1000", Digest: string(digest)}}
	require.NoError(t, older.Create(t.Context(), update))
	steps := validStepsJob()
	require.NoError(t, env.Client.Create(t.Context(), steps))
	for _, name := range []string{update.Name, steps.Name} {
		var now v1alpha1.FirmwareJob
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: name}, &now))
		now.Status.Conditions = ready(metav1.ConditionFalse, v1alpha1.ReasonProgressing, "Step flash runs.")
		now.Status.Steps = []v1alpha1.JobStep{{Name: "flash", State: v1alpha1.StepRunning}}
		require.NoError(t, env.Client.Status().Update(t.Context(), &now))

		var seen olderJob
		require.NoError(t, older.Get(t.Context(), client.ObjectKey{Name: name}, &seen))
		assert.Equal(t, "Step flash runs.", seen.Status.Conditions[0].Message)
		before := client.MergeFrom(seen.DeepCopyObject().(client.Object))
		seen.Spec.Priority = new(int32(5))
		require.NoError(t, older.Patch(t.Context(), &seen, before))
		var after v1alpha1.FirmwareJob
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: name}, &after))
		assert.Equal(t, int32(5), *after.Spec.Priority)
		assert.Equal(t, now.Spec.Task, after.Spec.Task)
		assert.Equal(t, now.Status.Steps, after.Status.Steps)

		seen.Spec.Priority = new(int32(6))
		err := older.Update(t.Context(), &seen)
		if name == update.Name {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, "task is immutable; create a new job")
		}
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: name}, &after))
		assert.Equal(t, now.Spec.Task, after.Spec.Task)
		assert.Equal(t, now.Status.Steps, after.Status.Steps)
	}

	n := validNodeFirmware()
	require.NoError(t, env.Client.Create(t.Context(), n))
	n.Status = v1alpha1.NodeFirmwareStatus{HeldBy: "gpu-017-update", Steps: []v1alpha1.EnabledStep{{Name: "flash", Interface: "NIC", Priority: 820}}}
	require.NoError(t, env.Client.Status().Update(t.Context(), n))
	var seen olderNode
	require.NoError(t, older.Get(t.Context(), client.ObjectKeyFromObject(n), &seen))
	assert.Equal(t, "gpu-017-update", seen.Status.HeldBy)
	before := client.MergeFrom(seen.DeepCopyObject().(client.Object))
	seen.Spec.Requests.Retry = "reseated"
	require.NoError(t, older.Patch(t.Context(), &seen, before))
	var after v1alpha1.NodeFirmware
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(n), &after))
	assert.Equal(t, "reseated", after.Spec.Requests.Retry)
	assert.Equal(t, n.Spec.Pins, after.Spec.Pins)
	assert.Equal(t, n.Status.Steps, after.Status.Steps)
}
