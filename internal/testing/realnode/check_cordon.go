package realnode

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// cordoned has a person cordon the node: nothing is done to it until they let it be updated, and it stays cordoned afterwards.
func cordoned(ctx context.Context, s *scene) (_ string, err error) {
	if err := s.hurry(ctx); err != nil {
		return "", err
	}
	w := toolTarget(disk, "1.1.1", 1)
	before, err := s.node.flash(ctx, w.key)
	if err != nil {
		return "", err
	}
	if _, err := s.kubectl.run(ctx, "cordon", nodeName); err != nil {
		return "", err
	}
	uncordoned := func() error {
		_, letting := s.kubectl.run(ctx, "annotate", "node", nodeName, v1alpha1.UpdateWhileCordonedAnnotation+"-")
		_, cordon := s.kubectl.run(ctx, "uncordon", nodeName)
		return errors.Join(letting, cordon)
	}
	defer func() {
		if err != nil { // the checks that follow need the node
			err = errors.Join(err, uncordoned())
		}
	}()
	if err := s.Declare(ctx, w.Target); err != nil {
		return "", err
	}
	err = s.Until(ctx, "the job waits for who cordoned the node", func(ctx context.Context) (bool, error) {
		job, err := s.Job(ctx)
		if err != nil || job == nil {
			return false, err
		}
		if job.Admitted() {
			return false, trial.Fatalf("the job was admitted: %s", trial.Describe(job))
		}
		c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionAdmitted)
		return c != nil && c.Reason == v1alpha1.ReasonNodeNotReady, nil
	})
	if err != nil {
		return "", err
	}
	if _, err := s.kubectl.run(ctx, "annotate", "node", nodeName, v1alpha1.UpdateWhileCordonedAnnotation+"=true"); err != nil {
		return "", err
	}
	if _, err := s.Ended(ctx); err != nil {
		return "", err
	}
	var n corev1.Node
	if err := s.API.Get(ctx, client.ObjectKey{Name: nodeName}, &n); err != nil {
		return "", err
	}
	if !n.Spec.Unschedulable {
		return "", errors.New("the cordon of the person did not outlast the job")
	}
	if err := uncordoned(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s to %s, cordoned before and after", before.Running, w.Version), s.completed(ctx, w, writes{1, 1}, before)
}
