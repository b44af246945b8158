package sourcefile

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Of returns the files of a source, each with who must have signed it, if anybody. The spec may be of a file that no API server has validated.
// The error is an *artifact.Error with the reason InvalidSpec.
func Of(src *v1alpha1.FirmwareSource) ([]artifact.File, error) {
	who, err := trustOf(src.Spec.Verification)
	if err != nil {
		return nil, &artifact.Error{Reason: artifact.InvalidSpec, Err: fmt.Errorf("%w; nothing is fetched", err)}
	}
	files := make([]artifact.File, 0, len(src.Spec.Files))
	for _, f := range src.Spec.Files {
		var digest inventory.Digest
		if f.Digest != "" || !artifact.OCI(f.URL) {
			if digest, err = inventory.ParseDigest(string(f.Digest)); err != nil {
				return nil, &artifact.Error{Reason: artifact.InvalidSpec, Err: err}
			}
		}
		file := artifact.File{URL: f.URL, Digest: digest}
		if who != nil {
			file.Signature = &artifact.Signature{URL: f.SignatureURL, Trust: *who}
		}
		for _, i := range f.Images {
			file.Images = append(file.Images, artifact.Description{
				Path: i.Path, Class: inventory.Class(i.Class), Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs,
				Version: inventory.NormalizeVersion(i.Version),
			})
		}
		files = append(files, file)
	}
	return files, nil
}
