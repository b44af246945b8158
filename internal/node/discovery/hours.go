package discovery

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// powerOn sets for how long the device was on. What follows from the last count and the time since then stays, if it is less than a day off.
// Nothing new is set where the clock of the node is behind what the API server wrote: the device would seem to have failed long ago. Another
// driver keeps nothing: it may be one that counts no hours.
func powerOn(out *v1alpha1.NodeDeviceStatus, read *int64, old v1alpha1.NodeDeviceStatus, created, now time.Time) {
	if now.Before(created) || old.PowerOnHoursTime != nil && now.Before(old.PowerOnHoursTime.Time) {
		read = nil
	}
	if old.UniqueID == out.UniqueID && driverOf(&old) == driverOf(out) && old.PowerOnHoursTime != nil && old.PowerOnHours != nil {
		follows := *old.PowerOnHours + int64(now.Sub(old.PowerOnHoursTime.Time)/time.Hour)
		if read == nil || *read-follows < 24 && follows-*read < 24 {
			out.PowerOnHours, out.PowerOnHoursTime = old.PowerOnHours, old.PowerOnHoursTime
			return
		}
	}
	if read != nil {
		out.PowerOnHours, out.PowerOnHoursTime = read, &metav1.Time{Time: now.Truncate(time.Second)}
	}
}

func driverOf(s *v1alpha1.NodeDeviceStatus) string {
	if s.Firmware == nil {
		return ""
	}
	return s.Firmware.Driver
}
