// Package drain takes the pods off a node that kubectl drain would take off it, one round at a time.
package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"
)

// Options say which pods a drain takes away. Pods of a DaemonSet and those that the kubelet runs from files stay in any case.
type Options struct {
	// Force takes pods away that no controller replaces.
	Force bool
	// DeleteEmptyDir takes pods away whose emptyDir volumes are lost with them.
	DeleteEmptyDir bool
	// PodSelector takes away only the pods whose labels match it; empty for all.
	PodSelector string
	// Takes reports whether a pod that a drain would take away is taken away; nil for all of them.
	Takes func(pod *corev1.Pod) bool
}

// Left is what a round has left on the node.
type Left struct {
	// Pods are those that are being evicted or still have to be, as namespace/name.
	Pods []string
	// Refusal says why one of them, or a pod that the options do not let it take, cannot be evicted now; empty where none is refused.
	Refusal string
}

// Round evicts each pod once that is to be taken off the node and is not ending yet, and returns what is left. It waits for nothing:
// an eviction that a PodDisruptionBudget refuses is tried again by the next round. Where the context ends in the middle, the pods
// that were not evicted by then are left; only a node whose pods cannot be listed is an error. Why not the loop of kubectl: it sleeps
// without regard to its context, and does not say which pod it waits for.
func Round(ctx context.Context, c kubernetes.Interface, node string, o Options) (Left, error) {
	helper := &drain.Helper{
		Ctx: ctx, Client: c, Force: o.Force, DeleteEmptyDirData: o.DeleteEmptyDir, PodSelector: o.PodSelector,
		IgnoreAllDaemonSets: true, GracePeriodSeconds: -1, Out: io.Discard, ErrOut: io.Discard, ChunkSize: 500,
	}
	if o.Takes != nil {
		helper.AdditionalFilters = []drain.PodFilter{func(pod corev1.Pod) drain.PodDeleteStatus {
			if o.Takes(&pod) {
				return drain.MakePodDeleteStatusOkay()
			}
			return drain.MakePodDeleteStatusSkip()
		}}
	}
	list, errs := helper.GetPodsForDeletion(node)
	if list == nil {
		return Left{}, fmt.Errorf("list pods of node %s: %w", node, utilerrors.NewAggregate(errs))
	}
	return left(list.Pods(), evictAll(ctx, helper, list.Pods()), errs), nil
}

// atOnce bounds how many evictions run side by side: one that the API server keeps waiting holds up few others.
const atOnce = 16

// errOver is why a pod was not evicted that the round came to too late.
var errOver = errors.New("the round of evictions took too long and ended; the next one goes on")

// evictAll evicts the pods that are not ending yet, and returns the error of each.
func evictAll(ctx context.Context, helper *drain.Helper, pods []corev1.Pod) []error {
	out := make([]error, len(pods))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		group.Go(func() error {
			if ctx.Err() == nil {
				out[i] = evict(ctx, *helper, pod)
			}
			if ctx.Err() != nil && !apierrors.IsNotFound(out[i]) {
				out[i] = errOver
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in out
	return out
}

// left is what remains of the pods. A refusal of the API server says more than the end of the round.
func left(pods []corev1.Pod, evicted, unlisted []error) Left {
	var out Left
	for _, err := range unlisted {
		out.Refusal = cmp.Or(out.Refusal, err.Error())
	}
	over := ""
	for i, pod := range pods {
		name := pod.Namespace + "/" + pod.Name
		switch err := evicted[i]; {
		case apierrors.IsNotFound(err):
			continue
		case errors.Is(err, errOver):
			over = cmp.Or(over, fmt.Sprintf("%s: %v", name, err))
		case err != nil:
			out.Refusal = cmp.Or(out.Refusal, fmt.Sprintf("%s: %v", name, err))
		}
		out.Pods = append(out.Pods, name)
	}
	out.Refusal = cmp.Or(out.Refusal, over)
	return out
}

// evictLimit bounds one eviction. The client repeats by itself, for minutes, what the API server asks it to repeat later, such as an
// eviction under a PodDisruptionBudget that no controller has looked at yet.
const evictLimit = 5 * time.Second

func evict(ctx context.Context, helper drain.Helper, pod corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, evictLimit)
	defer cancel()
	helper.Ctx = ctx
	err := helper.EvictPod(pod, policyv1.SchemeGroupVersion)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the API server asks to try again later; look at the PodDisruptionBudgets of the pod: %w", err)
	}
	return err
}

// Done reports whether nothing is left that is to be taken off the node.
func (l Left) Done() bool { return len(l.Pods) == 0 && l.Refusal == "" }
