package realnode

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// executedByPod changes the installation to the strategy pod, as docs/concepts/strategies.md says, and has a pod of the job
// update the disk.
func executedByPod(ctx context.Context, s *scene) (string, error) {
	if err := s.hurry(ctx); err != nil {
		return "", err
	}
	if err := s.reinstall(ctx, variant{pods: true, quick: true}); err != nil {
		return "", err
	}
	w := toolTarget(disk, "3.0.0", writeTime)
	before, err := s.node.flash(ctx, w.key)
	if err != nil {
		return "", err
	}
	if err := s.Declare(ctx, w.Target); err != nil {
		return "", err
	}
	if _, err := s.writing(ctx); err != nil {
		return "", err
	}
	pod, err := s.jobPod(ctx)
	if err != nil {
		return "", err
	}
	if pod.Status.Phase != corev1.PodRunning || pod.Spec.Containers[0].Image != s.daemonImage.String() {
		return "", fmt.Errorf("the tool writes, and the job's pod is %s with image %s", pod.Status.Phase, pod.Spec.Containers[0].Image)
	}
	if err := s.completed(ctx, w, writes{1, 1}, before); err != nil {
		return "", err
	}
	return pod.Name, s.Until(ctx, "the job's pod has succeeded", func(ctx context.Context) (bool, error) {
		p, err := s.jobPod(ctx)
		return err == nil && p.Status.Phase == corev1.PodSucceeded, err
	})
}

// jobPod is the pod that executes the newest job.
func (s *scene) jobPod(ctx context.Context) (*corev1.Pod, error) {
	job, err := s.Job(ctx)
	if err != nil || job == nil {
		return nil, errors.Join(errors.New("there is no job"), err)
	}
	var list corev1.PodList
	if err := s.API.List(ctx, &list, client.InNamespace(cluster.Namespace), client.MatchingLabels{v1alpha1.JobPodLabel: string(job.UID)}); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("the job has %d pods instead of one", len(list.Items))
	}
	return &list.Items[0], nil
}
