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
// one is not in the device.
func atTarget(was *v1alpha1.AppliedFirmware, job *journal.Applied, want v1alpha1.NodeDeviceSpec, running inventory.Version, bootID string, now time.Time,
) *v1alpha1.AppliedFirmware {
	switch {
	case len(want.Origin) == 0 || want.Firmware == nil:
		return was
	case was == nil || job != nil && string(was.Digest) == job.Digest && inventory.NormalizeVersion(job.Version) != inventory.NormalizeVersion(string(running)):
		return &v1alpha1.AppliedFirmware{Origin: want.Origin, BootID: text.Clip(bootID, 64), Time: moment(now)}
	case was.Digest != "" && was.Digest != want.Firmware.Digest, slices.Equal(was.Origin, want.Origin):
		return was
	}
	out := was.DeepCopy()
	out.Origin = want.Origin
	return out
}
