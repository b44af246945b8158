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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// Two images share the digits in a name, which nobody brings about by accident: the second one is refused, and the first one stays.
func TestOneRefusedWriteStopsNoOther(t *testing.T) {
	scheme, err := apitest.Scheme()
	require.NoError(t, err)
	refused := errors.New("refused")
	first, twin := digest(1), digest(1)[:len(digest(1))-1]+"1"
	report := func(name string, d v1alpha1.Digest) *v1alpha1.FirmwareJob {
		return &v1alpha1.FirmwareJob{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       v1alpha1.FirmwareJobSpec{NodeName: name, Task: v1alpha1.JobTask{Devices: []v1alpha1.TaskDevice{{Name: nic, Version: "1", Digest: d, Model: model}}}},
			Status: v1alpha1.FirmwareJobStatus{
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue}},
				Blamed:     []v1alpha1.BlamedDevice{{Device: nic}},
			},
		}
	}
	stored := &v1alpha1.FirmwareQuarantine{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(first, model), UID: "1"}, Spec: v1alpha1.FirmwareQuarantineSpec{Digest: first, Model: model},
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithTypeConverters(apitest.TypeConverter(t)).WithStatusSubresource(&v1alpha1.FirmwareQuarantine{}).
		WithIndex(&v1alpha1.FirmwareJob{}, index.Blamed, index.ByBlamed).
		WithObjects(stored, report("j1", first), report("j2", twin)).
		WithInterceptorFuncs(interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return refused
		}}).Build()
	_, err = New(c, events.NewFakeRecorder(10), time.Now).Reconcile(t.Context(), pass)
	require.ErrorIs(t, err, refused, "it is tried again")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored))
	require.Len(t, stored.Status.Reports, 1)
	assert.Equal(t, "j1", stored.Status.Reports[0].Job)
}
