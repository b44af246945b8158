package quarantine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func TestASourceThatCannotBeWrittenKeepsNoOtherFromItsQuarantine(t *testing.T) {
	scheme, err := apitest.Scheme()
	require.NoError(t, err)
	refused := errors.New("refused")
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.FirmwareSource{}).
		WithIndex(&v1alpha1.FirmwareJob{}, index.Blamed, index.ByBlamed).
		WithObjects(holder("a"), holder("b"), &v1alpha1.FirmwareJob{
			ObjectMeta: metav1.ObjectMeta{Name: "j1", UID: "j1"},
			Spec:       v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Devices: []v1alpha1.TaskDevice{{Name: nic, Version: "1", Digest: digest(1), Model: model}}}},
			Status: v1alpha1.FirmwareJobStatus{
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue}},
				Blamed:     []v1alpha1.BlamedDevice{{Device: nic}},
			},
		}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration,
			opts ...client.SubResourceApplyOption,
		) error {
			if src, ok := o.(client.Object); ok && src.GetName() == "a" {
				return refused
			}
			return c.SubResource(sub).Apply(ctx, o, opts...)
		}}).Build()
	_, err = New(c, events.NewFakeRecorder(10), time.Now).Reconcile(t.Context(), pass)
	require.ErrorIs(t, err, refused, "it is tried again")
	src := &v1alpha1.FirmwareSource{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "b"}, src))
	assert.Len(t, src.Status.Quarantine, 1)
}

func holder(name string) *v1alpha1.FirmwareSource {
	return &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     v1alpha1.FirmwareSourceStatus{Images: []v1alpha1.StoredImage{{Version: "1", Class: v1alpha1.ClassNIC, Digest: digest(1)}}},
	}
}
