package source

import (
	"encoding/json"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

const (
	// maxImages bounds status.images, as the API does.
	maxImages = 512
	// maxSize bounds what a source describes, in bytes of JSON: its spec, the copy of it that kubectl keeps in an annotation, and the
	// list of its images. With its quarantine the object stays under 256 KiB then.
	maxSize = 128 << 10
	// fileFields is what the API server notes of one file beside its URL: which fields of it who wrote.
	fileFields = 200
)

// tooLarge is why the source cannot list the images; nil when it can.
func tooLarge(src *v1alpha1.FirmwareSource, images []artifact.Image) error {
	size := sizeOf(src.Spec) + sizeOf(src.Annotations) + sizeOf(stored(images))
	for _, f := range src.Spec.Files {
		size += len(f.URL) + fileFields
	}
	var err error
	switch {
	case len(images) > maxImages:
		err = fmt.Errorf("the source lists %d images, the limit is %d; split it", len(images), maxImages)
	case size > maxSize:
		err = fmt.Errorf("the source and the list of its %d images take %d KiB, the limit is %d KiB; split it, or leave models and boardIDs "+
			"out that no device here has", len(images), (size+1023)>>10, maxSize>>10)
	default:
		return nil
	}
	return &artifact.Error{Reason: artifact.InvalidSpec, Err: err}
}

func sizeOf(of any) int {
	out, _ := json.Marshal(of) // it holds nothing that cannot be written
	return len(out)
}

// known are the images that the source listed before.
func known(src *v1alpha1.FirmwareSource, images []artifact.Image) []artifact.Image {
	listed := map[string]bool{}
	for _, i := range src.Status.Images {
		listed[string(i.Digest)] = true
	}
	var out []artifact.Image
	for _, i := range images {
		if listed[i.Digest.String()] {
			out = append(out, i)
		}
	}
	return out
}
