package kubectl

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func (s *session) rollbackCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "rollback NODE|DEVICE",
		Short: "Bring a device, or what the last job of a node has written, back to what it ran before",
		Long: "Bring a device, or all devices that the last job of a node has written, back to the last firmware that was good: a job of type Restore, which drains the node, " +
			"writes what its archive holds, and judges it, as an update does.",
		Example: "  kubectl firmware rollback gpu-017 -m 'links flap since 22.41'\n" +
			"  kubectl firmware rollback gpu-017-nic-b83fd2a1c4e0",
		Args:              wantOne("kubectl firmware rollback gpu-017"),
		ValidArgsFunction: s.completeNames("NodeFirmware", "NodeDevice"),
	}
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.onNodeOrDevices(c.Context(), w, args, func(f *nodeFacts, devices []*v1alpha1.NodeDevice) (*write, error) {
			if len(devices) == 0 {
				var err error
				if devices, err = f.lastWritten(); err != nil {
					return nil, err
				}
			}
			return f.restore(devices, v1alpha1.TaskDevice{})
		})
	}
	return c
}

// lastWritten are the devices that the job which holds the node has written, or else the newest job that has ended.
func (f *nodeFacts) lastWritten() ([]*v1alpha1.NodeDevice, error) {
	job := f.held()
	if job == nil && f.node.Status.HeldBy != "" {
		return nil, fmt.Errorf("node/%s is held by job %s, which is gone, so that it is not known what was written. Name devices: kubectl firmware get --node %[1]s", f.node.Name, f.node.Status.HeldBy)
	}
	for i := len(f.jobs) - 1; i >= 0 && job == nil; i-- {
		if j := &f.jobs[i]; j.Ended() && j.Spec.Task.Type != v1alpha1.JobTypeSteps && len(written(j)) > 0 { // no restore undoes steps
			job = j
		}
	}
	if job == nil {
		return nil, fmt.Errorf("no job that is kept has written to node/%s, so that there is nothing to go back to. To name a device: kubectl firmware get --node %[1]s", f.node.Name)
	}
	if !job.Held() && is(job.Status.Conditions, v1alpha1.ConditionRolledBack) {
		return nil, fmt.Errorf("job/%s has brought back what ran before already. To go further back: kubectl firmware restore DEVICE --version VERSION", job.Name)
	}
	var out []*v1alpha1.NodeDevice
	for _, d := range f.devices {
		if f.concerns(job, d.Name) || job.Held() && d.Status.IsUnhealthy() {
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("job %s has written to no device of node/%s. To return it to service as it is: kubectl firmware release %[2]s", job.Name, f.node.Name)
	}
	return out, nil
}

// written are the devices of a job that updates or restores at which a step has begun that may change them.
func written(j *v1alpha1.FirmwareJob) (out []string) {
	for _, s := range j.Status.Steps {
		if s.Device != "" && hasBegunToWrite(s) && !slices.Contains(out, s.Device) {
			out = append(out, s.Device)
		}
	}
	return out
}
