package source

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// jobEnded passes the end of a job, and its deletion.
var jobEnded = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, wasJob := e.ObjectOld.(*v1alpha1.FirmwareJob)
		is, isJob := e.ObjectNew.(*v1alpha1.FirmwareJob)
		return wasJob && isJob && !was.Ended() && is.Ended()
	},
}

// users names the templates, nodes and unfinished jobs that refer to the source, read past the cache.
func (r *Reconciler) users(ctx context.Context, source *v1alpha1.FirmwareSource) ([]string, error) {
	var out []string
	var templates v1alpha1.FirmwareTemplateList
	if err := r.Reader.List(ctx, &templates); err != nil {
		return nil, fmt.Errorf("list templates: %w", err)
	}
	for _, t := range templates.Items {
		if slices.ContainsFunc(t.Spec.Rules, func(d v1alpha1.FirmwareRule) bool { return d.SourceRef.Name == source.Name }) {
			out = append(out, "FirmwareTemplate/"+t.Name)
		}
	}
	var nodes v1alpha1.NodeFirmwareList
	if err := r.Reader.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list node firmware: %w", err)
	}
	for _, n := range nodes.Items {
		if slices.ContainsFunc(n.Spec.Pins, func(p v1alpha1.FirmwareRule) bool { return p.SourceRef.Name == source.Name }) {
			out = append(out, "NodeFirmware/"+n.Name)
		}
	}
	var jobs v1alpha1.FirmwareJobList
	if err := r.Reader.List(ctx, &jobs); err != nil {
		return nil, fmt.Errorf("list firmware jobs: %w", err)
	}
	for i := range jobs.Items {
		if j := &jobs.Items[i]; !j.Ended() && needs(j, source) {
			out = append(out, "FirmwareJob/"+j.Name)
		}
	}
	return out, nil
}

// needs reports whether the job flashes or rolls back to an image that the source lists.
func needs(j *v1alpha1.FirmwareJob, source *v1alpha1.FirmwareSource) bool {
	return slices.ContainsFunc(j.Spec.Task.Devices, func(u v1alpha1.TaskDevice) bool {
		return slices.ContainsFunc(source.Status.Images, func(i v1alpha1.StoredImage) bool {
			return i.Digest == u.RollbackDigest || i.Digest == u.Digest
		})
	})
}

// collect deletes the images that nobody needs: no source, no unfinished job, and no device that is to run one.
func (r *Reconciler) collect(ctx context.Context) error {
	return r.Store.Collect(func() ([]inventory.Digest, error) {
		var jobs v1alpha1.FirmwareJobList
		if err := r.Reader.List(ctx, &jobs); err != nil {
			return nil, fmt.Errorf("list firmware jobs: %w", err)
		}
		var out []inventory.Digest
		for i := range jobs.Items {
			if !jobs.Items[i].Ended() {
				out = append(out, imagesOf(&jobs.Items[i])...)
			}
		}
		// A device keeps its assignment for a while after the source was edited, and a job may come of it. Its copy in the cache
		// is good enough, because an image stays for an hour.
		var devices v1alpha1.NodeDeviceList
		if err := r.Client.List(ctx, &devices, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
		for i := range devices.Items {
			if desired := devices.Items[i].Spec.Firmware; desired != nil {
				if digest, err := inventory.ParseDigest(string(desired.Digest)); err == nil {
					out = append(out, digest)
				}
			}
		}
		return out, nil
	})
}

// collectRegularly deletes what sources leave behind that do not exist any more, when nobody else comes to do it.
func (r *Reconciler) collectRegularly(ctx context.Context) error {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := r.collect(ctx); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "Could not delete images that nobody needs")
			}
		}
	}
}

// imagesOf lists the images that a job flashes or rolls back to.
func imagesOf(j *v1alpha1.FirmwareJob) []inventory.Digest {
	var out []inventory.Digest
	for _, u := range j.Spec.Task.Devices {
		for _, d := range []v1alpha1.Digest{u.Digest, u.RollbackDigest} {
			if digest, err := inventory.ParseDigest(string(d)); err == nil {
				out = append(out, digest)
			}
		}
	}
	return out
}
