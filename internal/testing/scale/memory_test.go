package scale

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/trim"
)

// cached is what the operator's cache holds of some devices: each decoded from what the API server sends, and then transformed.
func cached(t *testing.T, devices int, transform func(any) (any, error)) []*v1alpha1.NodeDevice {
	t.Helper()
	var out []*v1alpha1.NodeDevice
	for i := range devices {
		name := deviceName(i/devicesPerNode, i%devicesPerNode)
		text, err := json.Marshal(&v1alpha1.NodeDevice{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID(fmt.Sprintf("%032d", i)), ResourceVersion: fmt.Sprint(i), Generation: 2, CreationTimestamp: metav1.Now(),
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "firmware-daemon", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:class":{},"f:firmware":{}}}`)}},
			},
			Spec: v1alpha1.NodeDeviceSpec{NodeName: nodeName(i / devicesPerNode), Firmware: &v1alpha1.DesiredFirmware{
				Version: target, Digest: v1alpha1.Digest(fmt.Sprintf("sha256:%064d", i%rulesPerTemplate)),
				Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
			}, Origin: []v1alpha1.Origin{
				{Kind: v1alpha1.OriginTemplate, Name: "template-1", UID: "7d0e1f8a-2a1b-4a56-9a63-0d2a4d0a8a11", Rule: "rule-1", Hash: "0123456789abcdef"},
				{Kind: v1alpha1.OriginSource, Name: sourceName, UID: "7d0e1f8a-2a1b-4a56-9a63-0d2a4d0a8a12", Hash: "0123456789abcdef"},
			}},
			Status: observed(name, i%devicesPerNode, 2, from),
		})
		require.NoError(t, err)
		d := &v1alpha1.NodeDevice{}
		require.NoError(t, json.Unmarshal(text, d))
		_, err = transform(d)
		require.NoError(t, err)
		out = append(out, d)
	}
	return out
}

// live is the memory in use after a collection, in bytes.
func live() float64 {
	runtime.GC()
	runtime.GC() // the first one leaves what finalizers and weak pointers hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// A device in the cache of the operator takes what the performance page says.
func TestADeviceInTheCacheIsSmall(t *testing.T) {
	const devices = 4000
	size := func(transform func(any) (any, error)) float64 {
		before := live()
		kept := cached(t, devices, transform)
		used := (live() - before) / devices
		runtime.KeepAlive(kept)
		return used
	}
	whole := size(func(o any) (any, error) { return o, nil })
	trimmed := size(trim.Object)
	page, err := os.ReadFile("../../../docs/contributing/performance.md")
	require.NoError(t, err)
	figures := regexp.MustCompile(`takes (\d\.\d) KB of the operator's cache, and would take (\d\.\d) KB`).FindSubmatch(page)
	require.NotNil(t, figures)
	for i, measured := range []float64{trimmed, whole} {
		promised, err := strconv.ParseFloat(string(figures[i+1]), 64)
		require.NoError(t, err)
		assert.InEpsilon(t, promised, measured/1000, 0.15)
	}
}
