package fieldset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// ProtectJob gives the job the finalizer in the version that was read, and returns its version then. A job that is to be admitted
// must have it before: from then on its node may begin it at any time, and a job that is deleted must stay to be counted,
// cancelled and reported. It does nothing where the job has the finalizer, and where the job is being deleted: no finalizer
// can be added then, and the node begins no such job.
func ProtectJob(ctx context.Context, c client.Client, j *v1alpha1.FirmwareJob, version string) (string, error) {
	if j.DeletionTimestamp != nil || controllerutil.ContainsFinalizer(j, v1alpha1.JobFinalizer) {
		return version, nil
	}
	return writeFinalizers(ctx, c, j, version, append(slices.Clone(j.Finalizers), v1alpha1.JobFinalizer))
}

// ReleaseJob takes the finalizer of a job away in the version that was read.
func ReleaseJob(ctx context.Context, c client.Client, j *v1alpha1.FirmwareJob) error {
	ours := func(f string) bool { return f == v1alpha1.JobFinalizer }
	_, err := writeFinalizers(ctx, c, j, j.ResourceVersion, slices.DeleteFunc(slices.Clone(j.Finalizers), ours))
	return err
}

func writeFinalizers(ctx context.Context, c client.Client, j *v1alpha1.FirmwareJob, version string, finalizers []string) (string, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": j.UID, "resourceVersion": version, "finalizers": finalizers,
	}})
	if err != nil {
		return "", fmt.Errorf("encode finalizers: %w", err)
	}
	patched := &v1alpha1.FirmwareJob{}
	patched.Name = j.Name
	patch := client.RawPatch(types.MergePatchType, body)
	if err := c.Patch(ctx, patched, patch, client.FieldOwner(v1alpha1.FieldOwnerOperator)); err != nil {
		return "", fmt.Errorf("write finalizers of firmware job %s: %w", j.Name, err)
	}
	return patched.ResourceVersion, nil
}
