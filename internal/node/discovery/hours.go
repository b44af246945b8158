package discovery

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// powerOn sets for how long the device was on. What follows from the last count and the time since then stays, if it is less than a day off.
func powerOn(out *v1alpha1.NodeDeviceStatus, read *int64, old v1alpha1.NodeDeviceStatus, now time.Time) {
	if old.UniqueID == out.UniqueID && old.PowerOnHoursTime != nil && old.PowerOnHours != nil {
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
