package discovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// A drive that stays on is written once: what it counts follows from the first count. One that was off, or was replaced, is written again.
func TestPowerOnHoursAreWrittenWhereTheyDoNotFollow(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	was := v1alpha1.NodeDeviceStatus{UniqueID: "a", PowerOnHours: new(int64(1000)), PowerOnHoursTime: &metav1.Time{Time: at}}
	later, hours := at.Add(1000*time.Hour), func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		id   string
		read *int64
		old  v1alpha1.NodeDeviceStatus
		want *int64
		time time.Time
	}{
		"it stayed on":            {"a", hours(2000), was, hours(1000), at},
		"it was off for 23 hours": {"a", hours(1977), was, hours(1000), at},
		"it was off for a day":    {"a", hours(1976), was, hours(1976), later},
		"it counts too fast":      {"a", hours(2024), was, hours(2024), later},
		"it was not read":         {"a", nil, was, hours(1000), at},
		"it is another drive":     {"b", hours(2000), was, hours(2000), later},
		"another is not read":     {"b", nil, was, nil, time.Time{}},
		"it is new":               {"a", hours(0), v1alpha1.NodeDeviceStatus{}, hours(0), later},
		"it has no count":         {"a", nil, v1alpha1.NodeDeviceStatus{UniqueID: "a"}, nil, time.Time{}},
	} {
		out := v1alpha1.NodeDeviceStatus{UniqueID: c.id}
		powerOn(&out, c.read, c.old, at, later)
		assert.Equal(t, c.want, out.PowerOnHours, name)
		if c.want != nil {
			assert.Equal(t, c.time, out.PowerOnHoursTime.Time, name)
		}
	}
}

// A machine whose clock was lost starts in 1970: what it reads then would be said to fail decades ago.
func TestAClockThatIsBehindDatesNoPowerOnHours(t *testing.T) {
	created := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var fresh v1alpha1.NodeDeviceStatus
	powerOn(&fresh, new(int64(30_000)), v1alpha1.NodeDeviceStatus{}, created, time.Unix(60, 0))
	assert.Nil(t, fresh.PowerOnHours)
	was := v1alpha1.NodeDeviceStatus{PowerOnHours: new(int64(1000)), PowerOnHoursTime: &metav1.Time{Time: created.Add(time.Hour)}}
	kept := v1alpha1.NodeDeviceStatus{}
	powerOn(&kept, new(int64(1200)), was, created, time.Unix(60, 0))
	assert.Equal(t, was, kept)
}

func TestAnotherDriverKeepsNoPowerOnHours(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	was := v1alpha1.NodeDeviceStatus{Firmware: &v1alpha1.ObservedFirmware{Driver: "nvme"}, PowerOnHours: new(int64(1000)), PowerOnHoursTime: &metav1.Time{Time: at}}
	out := v1alpha1.NodeDeviceStatus{Firmware: &v1alpha1.ObservedFirmware{Driver: "acme-nvme"}}
	powerOn(&out, nil, was, at, at.Add(time.Hour))
	assert.Nil(t, out.PowerOnHours)
	assert.Nil(t, out.PowerOnHoursTime)
}
