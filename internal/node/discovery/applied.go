package discovery

import (
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// atTarget is where the firmware of a device came from that was found to run what is desired. Where nothing is recorded, or somebody
// else put it there, it is what desires it now, without an image. What a job put there stays, and so does its image; the objects that
// desire it now take the place of those that did. Where the desired image is another one of the same version, nothing changes: that
// one is not in the device. Where its settings came from is left as it is.
func atTarget(was *v1alpha1.AppliedFirmware, job *journal.Applied, want v1alpha1.NodeDeviceSpec, running inventory.Version, bootID string, now time.Time,
) *v1alpha1.AppliedFirmware {
	wanted, _ := v1alpha1.SplitOrigin(want.Origin)
	if len(wanted) == 0 || want.Firmware == nil {
		return was
	}
	var had, settings []v1alpha1.Origin
	if was != nil {
		had, settings = v1alpha1.SplitOrigin(was.Origin)
	}
	origin := slices.Concat(wanted, settings)
	switch {
	case was == nil || job != nil && string(was.Digest) == job.Digest && inventory.NormalizeVersion(job.Version) != inventory.NormalizeVersion(string(running)):
		return &v1alpha1.AppliedFirmware{Origin: origin, BootID: text.Clip(bootID, 64), Time: moment(now)}
	case was.Digest != "" && was.Digest != want.Firmware.Digest, slices.Equal(had, wanted):
		return was
	}
	out := was.DeepCopy()
	out.Origin = origin
	return out
}

// configured is where the firmware and the settings of a device came from whose settings were found in force: those come from what desires
// them now.
func configured(was *v1alpha1.AppliedFirmware, want v1alpha1.NodeDeviceSpec, bootID string, now time.Time) *v1alpha1.AppliedFirmware {
	_, wanted := v1alpha1.SplitOrigin(want.Origin)
	if len(wanted) == 0 {
		return was
	}
	if was == nil {
		return &v1alpha1.AppliedFirmware{Origin: wanted, BootID: text.Clip(bootID, 64), Time: moment(now)}
	}
	firmware, had := v1alpha1.SplitOrigin(was.Origin)
	if slices.Equal(had, wanted) {
		return was
	}
	out := was.DeepCopy()
	out.Origin = slices.Concat(firmware, wanted)
	return out
}
