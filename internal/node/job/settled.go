package job

import (
	"context"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
)

// Settled reports whether nothing is left to do for the job that Only names, and for the other jobs in the journal: all have
// ended, and the API server has the end of each one whose object still exists. Call it once the cache is filled.
func (r *Reconciler) Settled(ctx context.Context) (bool, error) {
	view, err := r.Journal.View()
	if err != nil {
		return false, err
	}
	for i := range view.Jobs {
		if view.Jobs[i].Record.Outcome == "" {
			return false, nil
		}
	}
	f, err := r.gather(ctx, r.Only)
	if err != nil {
		return false, err
	}
	if v := decide(f); v != leave && v != follow {
		return false, nil
	}
	return r.allReported(ctx, view)
}

// allReported reports whether the objects of all jobs that ended say so.
func (r *Reconciler) allReported(ctx context.Context, view journal.View) (bool, error) {
	var objects v1alpha1.FirmwareJobList
	if err := r.Client.List(ctx, &objects); err != nil {
		return false, fmt.Errorf("list jobs: %w", err)
	}
	for i := range objects.Items {
		if known := view.Job(string(objects.Items[i].UID)); known != nil && !known.Reported {
			return false, nil
		}
	}
	return true, nil
}
