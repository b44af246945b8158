package job

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// scans lets one reading of the hardware answer every job of type Scan that was requested before it began. It is for a
// controller with one worker.
type scans struct {
	// answered are the jobs that the last reading answered.
	answered map[types.UID]bool
}

// run reads the hardware for the job, unless a reading that began after the job was requested has ended.
func (s *scans) run(ctx context.Context, c client.Reader, results Results, object *v1alpha1.FirmwareJob) error {
	if s.answered[object.UID] {
		return nil
	}
	var jobs v1alpha1.FirmwareJobList
	if err := c.List(ctx, &jobs); err != nil {
		return fmt.Errorf("list scans of the node: %w", err)
	}
	requested := map[types.UID]bool{object.UID: true}
	for _, j := range jobs.Items {
		if j.Spec.NodeName == object.Spec.NodeName && j.Spec.Type == v1alpha1.JobTypeScan && !j.Ended() {
			requested[j.UID] = true
		}
	}
	if err := results.Refresh(ctx); err != nil {
		return fmt.Errorf("scan for job %s: %w", object.Name, err)
	}
	s.answered = requested
	return nil
}
