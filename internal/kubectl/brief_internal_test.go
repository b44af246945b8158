package kubectl

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// TestDevicesReadBrieflyPrintTheSame: what the verbs make of a device that was read briefly is what they make of the whole one.
func TestDevicesReadBrieflyPrintTheSame(t *testing.T) {
	conditions := []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPending, Message: "22.41.1000 is \"to be\" flashed: <é\u2028>."},
		{Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConflict, Message: "Two templates."},
	}
	whole := v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-1-nic", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "firmware-daemon"}}},
		Spec:       v1alpha1.NodeDeviceSpec{NodeName: "gpu-1", Firmware: &v1alpha1.DesiredFirmware{Version: "22.41.1000"}},
		Status: v1alpha1.NodeDeviceStatus{
			Class: v1alpha1.ClassNIC, UniqueID: "b83fd2a1c4e0", Vendor: "Mellanox", Model: "ConnectX-6 Dx", PCIID: "15b3:101d", SubsystemID: "15b3:0016", BoardID: "MT_0000000359",
			SerialNumber: "MT2137X01234", PCIAddress: "0000:3b:00.0", Firmware: &v1alpha1.ObservedFirmware{Running: "22.39.2048", Stored: "22.41.1000"}, Conditions: conditions,
			PowerOnHours: new(int64(9000)), PowerOnHoursTime: &metav1.Time{Time: time.Unix(1_800_000_000, 0)},
		},
	}
	bare := v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1-disk"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "gpu-1"}}
	api := deviceServer(t, http.StatusOK, &v1alpha1.NodeDeviceList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeDeviceList"},
		ListMeta: metav1.ListMeta{Continue: "more", ResourceVersion: "7"}, Items: []v1alpha1.NodeDevice{whole, bare},
	})

	var all, brief v1alpha1.NodeDeviceList
	require.NoError(t, api.List(t.Context(), &all))
	require.NoError(t, api.List(t.Context(), &brief, briefly{}))
	require.Len(t, all.Items, 2)
	require.Len(t, brief.Items, 2)
	want := whole.DeepCopy()
	want.ManagedFields = nil
	assert.True(t, want.Status.PowerOnHoursTime.Equal(all.Items[0].Status.PowerOnHoursTime))
	want.Status.PowerOnHoursTime = all.Items[0].Status.PowerOnHoursTime
	assert.Equal(t, *want, all.Items[0])
	assert.Equal(t, all.ListMeta, brief.ListMeta)
	assert.Equal(t, "more", brief.Continue)

	f := getOptions{outOfDate: true, model: "connectx", names: []string{"gpu-1-nic"}}
	for i := range all.Items {
		a, b := &all.Items[i], &brief.Items[i]
		assert.Equal(t, foundOf(a, "newest", false), foundOf(b, "newest", false))
		assert.Equal(t, f.chooses(a, nil), f.chooses(b, nil))
		assert.Equal(t, a.Status.Component(), b.Status.Component())
		assert.Equal(t, a.Status.ModelKey(), b.Status.ModelKey())
		assert.Equal(t, rowOf(a), rowOf(b))
		was, known := a.Status.Reaches(10_000)
		is, alsoKnown := b.Status.Reaches(10_000)
		assert.Equal(t, known, alsoKnown)
		assert.True(t, was.Equal(is))
	}
}

func TestARefusalOfDevicesSaysWhy(t *testing.T) {
	api := deviceServer(t, http.StatusForbidden, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 403,
		Reason: metav1.StatusReasonForbidden, Message: "nodedevices is forbidden"})
	err := api.List(t.Context(), &v1alpha1.NodeDeviceList{}, briefly{})
	assert.True(t, apierrors.IsForbidden(err))
	assert.ErrorContains(t, err, "nodedevices is forbidden")
}

// A proxy that wants somebody to log in may answer 200 with something else, which is no fleet without devices.
func TestAnotherAnswerIsNoEmptyFleet(t *testing.T) {
	for _, answer := range []any{nil, map[string]string{"error": "log in"}, &v1alpha1.NodeFirmwareList{TypeMeta: metav1.TypeMeta{Kind: "NodeFirmwareList"}}} {
		for _, options := range [][]client.ListOption{nil, {briefly{}}} {
			err := deviceServer(t, http.StatusOK, answer).List(t.Context(), &v1alpha1.NodeDeviceList{}, options...)
			assert.ErrorContains(t, err, "want NodeDeviceList")
		}
	}
}

// deviceServer is a client of an API server that answers so.
func deviceServer(t *testing.T, code int, answer any) client.Reader {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(server.Close)
	api, err := newDeviceReader(nil, &rest.Config{Host: server.URL})
	require.NoError(t, err)
	return api
}
