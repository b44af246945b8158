package runner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
)

// gather reads the node and its objects from the cache.
func (r *Reconciler) gather(ctx context.Context, node string) (facts, error) {
	f := facts{node: node, handlers: r.handlers, now: r.now()}
	var firmware v1alpha1.NodeFirmware
	switch err := r.client.Get(ctx, client.ObjectKey{Name: node}, &firmware); {
	case apierrors.IsNotFound(err):
		r.seen.Note(node, nil, f.now)
		return f, nil
	case err != nil:
		return f, fmt.Errorf("get node firmware %s: %w", node, err)
	}
	f.firmware = &firmware
	switch err := r.client.Get(ctx, client.ObjectKey{Name: node}, &corev1.Node{}); {
	case apierrors.IsNotFound(err):
		f.nodeGone = true
	case err != nil:
		return f, fmt.Errorf("get node %s: %w", node, err)
	}
	var jobs v1alpha1.FirmwareJobList
	if err := r.client.List(ctx, &jobs, client.MatchingFields{index.NodeName: node}); err != nil {
		return f, fmt.Errorf("list firmware jobs of node %s: %w", node, err)
	}
	f.jobs = jobs.Items
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(r.namespace), client.MatchingFields{index.NodeName: node},
		client.HasLabels{v1alpha1.JobPodLabel}); err != nil {
		return f, fmt.Errorf("list job pods of node %s: %w", node, err)
	}
	f.pods = pods.Items
	var noted []types.UID
	for i := range f.pods {
		noted = append(noted, f.pods[i].UID)
	}
	for i := range f.jobs {
		if f.jobs[i].Ended() {
			noted = append(noted, f.jobs[i].UID)
		}
	}
	f.seen = r.seen.Note(node, noted, f.now)
	return f, nil
}
