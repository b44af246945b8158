package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// scene is the environment of the checks.
type scene struct {
	*trial.Node
	node *node
	base base
	// options are those of the run.
	options Options
}

func newScene(l *lab.Lab, n *node, b base, o Options) *scene {
	return &scene{
		Node: &trial.Node{
			API: l.Admin(), Name: nodeName, Machine: func() trial.Machine { return n.machine },
			Publish: func(name string, content []byte) (string, error) {
				return publish(filepath.Join(l.ImageDir(), name), content)
			},
		},
		node: n, base: b, options: o,
	}
}

// agent asks the machine.
func (s *scene) agent() *guest.Client { return s.node.machine.agent }

// publish puts an image where the operator fetches it.
func publish(path string, content []byte) (url string, err error) {
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return "", fmt.Errorf("write image: %w", err)
	}
	return "file://" + path, nil
}

// complete waits until the job has brought the targets and the node is back in service, and returns the job.
func (s *scene) complete(ctx context.Context, targets ...trial.Target) (*v1alpha1.FirmwareJob, error) {
	job, err := s.Complete(ctx, targets...)
	if err != nil {
		return job, err
	}
	return job, s.released(ctx)
}

// failed waits until the job has failed, and returns it.
func (s *scene) failed(ctx context.Context) (*v1alpha1.FirmwareJob, error) {
	job, err := s.Ended(ctx)
	if err == nil && !job.Failed() {
		err = fmt.Errorf("the job did not fail: %s", trial.Describe(job))
	}
	return job, err
}

// reason says why a job failed.
func reason(job *v1alpha1.FirmwareJob) string {
	c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionFailed)
	if c == nil {
		return ""
	}
	return c.Reason + ", " + c.Message
}

// released waits until the node holds no maintenance and takes pods.
func (s *scene) released(ctx context.Context) error {
	err := s.Until(ctx, "the node holds no maintenance", func(ctx context.Context) (bool, error) {
		var maintenances maintenancev1alpha1.NodeMaintenanceList
		err := s.API.List(ctx, &maintenances)
		return len(maintenances.Items) == 0, err
	})
	if err != nil {
		return err
	}
	return s.InService(ctx)
}
