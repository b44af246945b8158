package lifetime_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/lifetime"
)

var read = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func drive(version string, hours *int64) *v1alpha1.NodeDevice {
	return &v1alpha1.NodeDevice{Status: v1alpha1.NodeDeviceStatus{
		Class: v1alpha1.ClassDisk, Model: "EO001920", Firmware: &v1alpha1.ObservedFirmware{Running: version}, PowerOnHours: hours, PowerOnHoursTime: &metav1.Time{Time: read},
	}}
}

func limits() lifetime.Limits {
	return lifetime.Of([]v1alpha1.FirmwareCatalog{{ObjectMeta: metav1.ObjectMeta{Name: "hpe.dl380"}, Status: v1alpha1.FirmwareCatalogStatus{
		Components: []v1alpha1.CatalogComponent{{Class: v1alpha1.ClassDisk, Model: "EO001920", Running: []v1alpha1.CatalogRunning{
			{Version: "HPD5", Limit: &v1alpha1.CatalogLimit{Issue: "a00092491", PowerOnHours: 32_768}}, {Version: "HPD8"},
			{Version: "HPD6", Limit: &v1alpha1.CatalogLimit{Issue: "a00092491", PowerOnHours: 32_768}},
			{Version: "HPD7", Limit: &v1alpha1.CatalogLimit{Issue: "a00097382", PowerOnHours: 40_000}},
		}}},
	}}})
}

func TestADeviceFailsWhenItReachesTheLimitOfItsVersion(t *testing.T) {
	machine := &v1alpha1.Machine{Vendor: "HPE", Model: "DL380"}
	end, fails := limits().End(machine, &drive("HPD5", new(int64(32_744))).Status)
	assert.True(t, fails)
	assert.Equal(t, lifetime.End{At: read.Add(24 * time.Hour), Issue: "a00092491"}, end)
	end, fails = limits().End(machine, &drive("HPD5", new(int64(40_000))).Status)
	assert.True(t, fails, "it has reached it")
	assert.True(t, end.At.Before(read))

	for name, d := range map[string]*v1alpha1.NodeDevice{"another version": drive("HPD8", new(int64(1))), "unknown hours": drive("HPD5", nil)} {
		_, fails = limits().End(machine, &d.Status)
		assert.False(t, fails, name)
	}
	for name, m := range map[string]*v1alpha1.Machine{"no machine": nil, "another one": {Vendor: "HPE", Model: "DL360"}, "one without a name": {}} {
		_, fails = limits().End(m, &drive("HPD5", new(int64(1))).Status)
		assert.False(t, fails, name)
	}
	assert.Nil(t, lifetime.Of([]v1alpha1.FirmwareCatalog{{}}), "without a limit nothing is looked for")
}

func TestAJobIsAsUrgentAsTheFirmwareThatItUpdates(t *testing.T) {
	devices := map[string]*v1alpha1.NodeDevice{"young": drive("HPD5", new(int64(0))), "old": drive("HPD5", new(int64(32_744))), "oldest": drive("HPD5", new(int64(32_767)))}
	device := func(name string) (*v1alpha1.NodeDevice, error) { return devices[name], nil }
	j := &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Devices: []v1alpha1.TaskDevice{
		{Name: "young", Version: "HPD8"}, {Name: "old", Version: "HPD8"}, {Name: "oldest", Configuration: "sha256:0"}, {Name: "gone", Version: "HPD8"},
	}}}}
	machine := &v1alpha1.Machine{Vendor: "HPE", Model: "DL380"}
	first, err := limits().First(j, machine, device)
	require.NoError(t, err)
	assert.Equal(t, read.Add(24*time.Hour), first, "the settings of the oldest help it nothing")
	for version, urgent := range map[string]bool{"HPD6": false, "HPD7": true} {
		to := &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Devices: []v1alpha1.TaskDevice{{Name: "old", Version: version}}}}}
		first, err = limits().First(to, machine, device)
		require.NoError(t, err)
		assert.Equal(t, urgent, !first.IsZero(), "%s fails as early, or later", version)
	}
	first, err = limits().First(j, &v1alpha1.Machine{Vendor: "HPE", Model: "DL20"}, func(string) (*v1alpha1.NodeDevice, error) {
		return nil, errors.New("a machine without limits needs no device read")
	})
	require.NoError(t, err)
	assert.Zero(t, first)
	_, err = limits().First(j, machine, func(string) (*v1alpha1.NodeDevice, error) { return nil, errors.New("the API server is away") })
	require.EqualError(t, err, "the API server is away")
}
