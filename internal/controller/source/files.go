package source

import (
	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

func stored(images []artifact.Image) []v1alpha1.StoredImage {
	out := make([]v1alpha1.StoredImage, 0, len(images))
	for _, i := range images {
		out = append(out, v1alpha1.StoredImage{
			Version: string(i.Version), Class: v1alpha1.DeviceClass(i.Class), Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs,
			Digest: v1alpha1.Digest(i.Digest.String()),
		})
	}
	return out
}
