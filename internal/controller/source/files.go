package source

import (
	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Files are the files of a FirmwareSource in the terms of package artifact.
func Files(src *v1alpha1.FirmwareSource) ([]artifact.File, error) {
	who, err := trusted(src.Spec.Verification)
	if err != nil {
		return nil, err
	}
	files := make([]artifact.File, 0, len(src.Spec.Files))
	for _, f := range src.Spec.Files {
		var digest inventory.Digest
		if f.SHA256 != "" || !artifact.OCI(f.URL) {
			if digest, err = inventory.ParseDigest("sha256:" + f.SHA256); err != nil {
				return nil, &artifact.Error{Reason: artifact.InvalidSpec, Err: err}
			}
		}
		file := artifact.File{URL: f.URL, Digest: digest, Format: artifact.Format(f.Format)}
		if f.Format == "" {
			file.Format = artifact.FormatImage
		}
		if who != nil {
			file.Signature = &artifact.Signature{URL: f.SignatureURL, Trust: *who}
		}
		for _, i := range f.Images {
			file.Images = append(file.Images, artifact.Description{
				Path: i.Path, Class: inventory.Class(i.Class), Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs,
				Version: inventory.Version(i.Version),
			})
		}
		files = append(files, file)
	}
	return files, nil
}

func stored(images []artifact.Image) []v1alpha1.StoredImage {
	out := make([]v1alpha1.StoredImage, 0, len(images))
	for _, i := range images {
		out = append(out, v1alpha1.StoredImage{
			Version: string(i.Version), Class: v1alpha1.DeviceClass(i.Class), Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs,
			Digest: v1alpha1.Digest(i.Digest.String()), SizeBytes: i.Size,
		})
	}
	return out
}
