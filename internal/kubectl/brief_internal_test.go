package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
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
		Items:    []v1alpha1.NodeDevice{whole, bare},
	})

	all, err := devicesOf(t.Context(), api, eachDevice)
	require.NoError(t, err)
	brief, err := devicesOf(t.Context(), api, eachBrief)
	require.NoError(t, err)
	require.Len(t, all, 2)
	var page v1alpha1.NodeDeviceList
	require.NoError(t, api.List(t.Context(), &page))
	assert.Equal(t, all, page.Items)
	require.Len(t, brief, 2)
	want := whole.DeepCopy()
	want.ManagedFields = nil
	assert.True(t, want.Status.PowerOnHoursTime.Equal(all[0].Status.PowerOnHoursTime))
	want.Status.PowerOnHoursTime = all[0].Status.PowerOnHoursTime
	assert.Equal(t, *want, all[0])

	f := getOptions{outOfDate: true, model: "connectx", names: []string{"gpu-1-nic"}}
	for i := range all {
		a, b := &all[i], &brief[i]
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
	_, err := devicesOf(t.Context(), api, eachBrief)
	assert.True(t, apierrors.IsForbidden(err))
	assert.ErrorContains(t, err, "nodedevices is forbidden")
}

// A proxy that wants somebody to log in may answer 200 with something else, which is no fleet without devices.
func TestAnotherAnswerIsNoEmptyFleet(t *testing.T) {
	for _, answer := range []any{nil, map[string]string{"error": "log in"}, &v1alpha1.NodeFirmwareList{TypeMeta: metav1.TypeMeta{Kind: "NodeFirmwareList"}}} {
		api := deviceServer(t, http.StatusOK, answer)
		assert.ErrorContains(t, api.List(t.Context(), &v1alpha1.NodeDeviceList{}), "want NodeDeviceList")
		for _, each := range []eachFunc{eachDevice, eachBrief} {
			_, err := devicesOf(t.Context(), api, each)
			assert.ErrorContains(t, err, "want NodeDeviceList")
		}
	}
}

// pageOf is an answer with the devices from first to last, of which the next page is asked for with more.
func pageOf(first, last int, more string) map[string]any {
	var items []map[string]any
	for i := first; i <= last; i++ {
		items = append(items, map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("d-%04d", i)}, "status": map[string]any{"model": `],"metadata":{"continue":"model"}`}})
	}
	return map[string]any{"kind": "NodeDeviceList", "items": items, "metadata": map[string]any{"continue": more}}
}

// Pages of any size, which are decoded side by side, come in the order of the API server, wherever it writes what the next one is asked for with.
func TestDevicesOfPagesKeepTheirOrder(t *testing.T) {
	compact := func(page any) string {
		text, err := json.Marshal(page)
		require.NoError(t, err)
		return string(text)
	}
	for name, written := range map[string]func(map[string]any) string{
		"alphabetical": func(page map[string]any) string { return compact(page) },
		"of a type": func(page map[string]any) string {
			return fmt.Sprintf(`{"kind":"NodeDeviceList","metadata":%s,"items":%s}`, compact(page["metadata"]), compact(page["items"]))
		},
		"for people": func(page map[string]any) string {
			text, err := json.MarshalIndent(page, "", "  ")
			require.NoError(t, err)
			return string(text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			api := deviceClient(t, func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				asked = append(asked, q.Get("continue")+" "+q.Get("limit")+" "+q.Get("fieldSelector"))
				pages := map[string]map[string]any{"": pageOf(0, 499, "b"), "b": pageOf(500, 500, "c"), "c": pageOf(501, 500, "d"), "d": pageOf(501, 999, "e"), "e": pageOf(1000, 1001, "")}
				_, err := io.WriteString(w, written(pages[q.Get("continue")]))
				assert.NoError(t, err)
			})
			for _, each := range []eachFunc{eachDevice, eachBrief} {
				asked = nil
				devices, err := devicesOf(t.Context(), api, each)
				require.NoError(t, err)
				require.Len(t, devices, 1002)
				for i := range devices {
					require.Equal(t, fmt.Sprintf("d-%04d", i), devices[i].Name)
				}
				chosen := " 500 spec.nodeName=gpu-1"
				assert.Equal(t, []string{chosen, "b" + chosen, "c" + chosen, "d" + chosen, "e" + chosen}, asked)
			}
		})
	}
}

// What a verb is told of a list that breaks off: the devices until then, and why.
func TestAListOfDevicesThatBreaksOff(t *testing.T) {
	endsWith := func(second http.HandlerFunc) client.Reader {
		return deviceClient(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("continue") {
				second(w, r)
				return
			}
			assert.NoError(t, json.NewEncoder(w).Encode(pageOf(0, 499, "b")))
		})
	}
	t.Run("as it has expired", func(t *testing.T) {
		gone := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired}
		devices, err := devicesOf(t.Context(), endsWith(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusGone)
			assert.NoError(t, json.NewEncoder(w).Encode(gone))
		}), eachBrief)
		assert.True(t, apierrors.IsResourceExpired(err), err)
		assert.Len(t, devices, 500)
	})
	t.Run("in the middle of a page", func(t *testing.T) {
		devices, err := devicesOf(t.Context(), endsWith(func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, `{"items":[{"metadata":{"name":"d-0500"}},{"meta`)
			assert.NoError(t, err)
		}), eachBrief)
		assert.ErrorContains(t, err, "read NodeDevices: ")
		assert.Len(t, devices, 500)
	})
	t.Run("as the verb has seen enough", func(t *testing.T) {
		api := endsWith(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(pageOf(500, 999, "b")) }) // nobody may read on
		enough, seen := errors.New("enough"), 0
		err := eachBrief(t.Context(), api, nil, func(*v1alpha1.NodeDevice) error {
			if seen++; seen == 1700 {
				return enough
			}
			return nil
		})
		assert.Equal(t, enough, err)
		assert.Equal(t, 1700, seen)
	})
	t.Run("as a person interrupts it", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		_, err := devicesOf(ctx, endsWith(func(_ http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
		}), eachBrief)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

type eachFunc = func(context.Context, client.Reader, fields.Set, func(*v1alpha1.NodeDevice) error) error

func devicesOf(ctx context.Context, api client.Reader, each eachFunc) (out []v1alpha1.NodeDevice, err error) {
	err = each(ctx, api, fields.Set{"spec.nodeName": "gpu-1"}, func(d *v1alpha1.NodeDevice) error {
		out = append(out, *d.DeepCopy())
		return nil
	})
	return out, err
}

// deviceServer is a client of an API server that answers so.
func deviceServer(t *testing.T, code int, answer any) client.Reader {
	return deviceClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	})
}

func deviceClient(t *testing.T, answer http.HandlerFunc) client.Reader {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	api, err := newDeviceReader(nil, &rest.Config{Host: server.URL})
	require.NoError(t, err)
	return api
}
