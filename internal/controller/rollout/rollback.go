package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// unlisted is the first update of a job that a person made whose rollback image no source lists for the device; nil where each is
// listed. A vendor's tool may take any file for a rollback, because the images of some devices do not say what they are for. The
// planner takes its rollback images from the sources, and they stay in store for the job when a source is edited afterwards.
func (r *Reconciler) unlisted(ctx context.Context, j *v1alpha1.FirmwareJob, sources []v1alpha1.FirmwareSource) (*schedule.UnlistedRollback, error) {
	if j.Labels[v1alpha1.ManagedByLabel] == v1alpha1.FieldOwnerOperator {
		return nil, nil
	}
	for _, u := range j.Spec.Task.Devices {
		if u.RollbackDigest == "" {
			continue
		}
		d := &v1alpha1.NodeDevice{}
		switch err := r.client.Get(ctx, types.NamespacedName{Name: u.Name}, d); {
		case apierrors.IsNotFound(err): // its daemon refuses the job
			continue
		case err != nil:
			return nil, fmt.Errorf("read node device %s: %w", u.Name, err)
		}
		version := cmp.Or(u.FromVersion, running(d))
		if !slices.ContainsFunc(sources, func(src v1alpha1.FirmwareSource) bool { return lists(&src, u.RollbackDigest, d, version) }) {
			return &schedule.UnlistedRollback{Device: u.Name, Version: version, Digest: string(u.RollbackDigest)}, nil
		}
	}
	return nil, nil
}

// lists reports whether a source says that the image brings the device to the version. What names neither model nor board is
// believed only of the source that is assigned to the device, as the planner does.
func lists(src *v1alpha1.FirmwareSource, digest v1alpha1.Digest, d *v1alpha1.NodeDevice, version string) bool {
	own := sourceOf(d) == src.Name
	return slices.ContainsFunc(src.Status.Images, func(i v1alpha1.StoredImage) bool {
		return i.Digest == digest && (own || len(i.Models)+len(i.BoardIDs) > 0) &&
			match.NewImage(i).For(match.DeviceOf(d), inventory.NormalizeVersion(version))
	})
}
