package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (s *session) restoreCommand() *cobra.Command {
	var which v1alpha1.TaskDevice
	digest := ""
	c := &cobra.Command{
		Use:   "restore DEVICE --version VERSION",
		Short: "Write firmware back that the archive of the node holds",
		Long: "Write firmware back that the archive of the node holds: a job of type Restore. What is there says firmware-daemon archive list on the node. Without a version " +
			"and a digest it is what kubectl firmware rollback restores.",
		Example:           "  kubectl firmware restore gpu-017-nic-b83fd2a1c4e0 --version 22.39.2048",
		Args:              wantOne("kubectl firmware restore gpu-017-nic-b83fd2a1c4e0 --version 22.39.2048"),
		ValidArgsFunction: s.completeNames("NodeDevice"),
	}
	c.Flags().StringVar(&which.Version, "version", "", "the newest archived image of this version")
	c.Flags().StringVar(&digest, "digest", "", "the archived image with this digest")
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		which.Digest = v1alpha1.Digest(digest)
		return s.onNodeOrDevices(c.Context(), w, args, func(f *nodeFacts, devices []*v1alpha1.NodeDevice) (*write, error) {
			if len(devices) == 0 {
				return nil, fmt.Errorf("node/%s is no device. To restore what its last job has written: kubectl firmware rollback %[1]s", f.node.Name)
			}
			return f.restore(devices, which)
		})
	}
	return c
}

// onNodeOrDevices makes a job on one node: for the node, without devices, or for devices of it.
func (s *session) onNodeOrDevices(ctx context.Context, w *writing, names []string, decide func(*nodeFacts, []*v1alpha1.NodeDevice) (*write, error)) error {
	api, by, err := s.begin(ctx, w)
	if err != nil {
		return err
	}
	return s.do(ctx, w, by, []decision{func(ctx context.Context) (*write, error) {
		f, devices, err := gatherDevices(ctx, api, names)
		if err != nil {
			return nil, err
		}
		return decide(f, devices)
	}})
}

// gatherDevices finds a node by its name, or the devices of one node by theirs.
func gatherDevices(ctx context.Context, api client.Reader, names []string) (*nodeFacts, []*v1alpha1.NodeDevice, error) {
	node := ""
	var devices []*v1alpha1.NodeDevice
	for _, name := range names {
		o, err := lookUp(ctx, api, name)
		if err != nil {
			return nil, nil, err
		}
		d, is := o.(*v1alpha1.NodeDevice)
		if n, isNode := o.(*v1alpha1.NodeFirmware); isNode && len(names) == 1 {
			f, err := gatherNode(ctx, api, "node/"+n.Name)
			return f, nil, err
		}
		if !is {
			return nil, nil, fmt.Errorf("%s is no device. Name one node, or devices of one node", named(o))
		}
		if slices.ContainsFunc(devices, func(o *v1alpha1.NodeDevice) bool { return o.Name == d.Name }) {
			continue
		}
		if node != "" && node != d.Spec.NodeName {
			return nil, nil, fmt.Errorf("name devices of one node: %s is in node %s, and not in %s", d.Name, d.Spec.NodeName, node)
		}
		node, devices = d.Spec.NodeName, append(devices, d)
	}
	f, err := gatherNode(ctx, api, "node/"+node)
	return f, devices, err
}

// restore decides a job of type Restore.
func (f *nodeFacts) restore(devices []*v1alpha1.NodeDevice, which v1alpha1.TaskDevice) (*write, error) {
	task := v1alpha1.JobTask{Type: v1alpha1.JobTypeRestore}
	for _, d := range devices {
		if o := d.Status.Firmware; o == nil || o.Access == v1alpha1.AccessReadOnly {
			return nil, fmt.Errorf("device/%s cannot be written. To see why: kubectl firmware why device/%[1]s", d.Name)
		}
		task.Devices = append(task.Devices, v1alpha1.TaskDevice{Name: d.Name, UniqueID: d.Status.UniqueID, Version: which.Version, Digest: which.Digest})
	}
	names := namesOfDevices(devices)
	if err := f.leavesBehind(names); err != nil {
		return nil, err
	}
	what := "what ran before and was good"
	if which.Version != "" || which.Digest != "" {
		what = strings.TrimSpace(which.Version + " " + string(which.Digest))
	}
	will := fmt.Sprintf("A job takes node %s out of service, writes %s back to %s from the archive of the node, judges it, and returns the node. What a template or pin wants there "+
		"instead is not flashed again before a retry.", f.node.Name, what, text.Some(names, 5))
	return f.make(task, will, "Restore", v1alpha1.ReasonRestored)
}

// leavesBehind refuses a restore that the daemon would refuse on a held node: it would return the node to service with a device that nothing
// restored or judged, or is about none for which the node is held.
func (f *nodeFacts) leavesBehind(names []string) error {
	held := f.held()
	if held == nil {
		return nil
	}
	if held.FailureReason() == v1alpha1.ReasonJobRejected {
		return fmt.Errorf("nobody knows what job %s has done, which holds node/%s, and a restore would return the node to service. Look at the node, then: kubectl firmware release %[2]s",
			held.Name, f.node.Name)
	}
	for _, d := range f.devices {
		unhealthy := d.Status.IsUnhealthy() && !desired.Retry(f.node).Clears(&d.Status.Failure.Request)
		if !slices.Contains(names, d.Name) && (unhealthy || f.touched(held, d.Name) && !isVerified(held, d.Name)) {
			return fmt.Errorf("job %s, which holds node/%s, left device %s unhealthy or unfinished too, and a restore without it would be refused. To restore all of them: kubectl firmware rollback %[2]s",
				held.Name, f.node.Name, d.Name)
		}
	}
	if !slices.ContainsFunc(names, func(name string) bool { return f.concerns(held, name) }) {
		return fmt.Errorf("job %s holds node/%s for something other than these devices, and a restore would return the node to service. First: kubectl firmware release %[2]s", held.Name, f.node.Name)
	}
	return nil
}

// touched reports whether a job has begun to change the device, or has its node from a job that may have: what a restore has to bring back.
func (f *nodeFacts) touched(j *v1alpha1.FirmwareJob, device string) bool {
	return slices.Contains(written(j), device) || f.tookOver(j) && desired.UpdateFor(j, device) != nil
}

// concerns reports whether a job holds its node because of the device: it failed at it, or touched it. Steps that a person requested are not
// repeated by a restore, so that only the one that failed counts.
func (f *nodeFacts) concerns(j *v1alpha1.FirmwareJob, device string) bool {
	return j.Spec.Task.Type != v1alpha1.JobTypeSteps && f.touched(j, device) ||
		slices.ContainsFunc(j.Status.Steps, func(s v1alpha1.JobStep) bool { return s.State == v1alpha1.StepFailed && s.Device == device })
}

// isVerified reports whether the job read back what the device was to run.
func isVerified(j *v1alpha1.FirmwareJob, device string) bool {
	return slices.ContainsFunc(j.Status.Steps, func(s v1alpha1.JobStep) bool {
		return plan.Kind(s.Name) == plan.Verify && s.Device == device && s.State == v1alpha1.StepSucceeded
	})
}

// does reports whether a job with one task does all that one with the other is for: the same to the same devices, or a backup of all there are.
func does(one, other *v1alpha1.JobTask) bool {
	switch {
	case one.Type != other.Type:
		return false
	case len(one.Devices) == 0 || len(other.Devices) == 0:
		return len(one.Devices) == 0
	}
	return !slices.ContainsFunc(other.Devices, func(d v1alpha1.TaskDevice) bool {
		return !slices.ContainsFunc(one.Devices, func(o v1alpha1.TaskDevice) bool {
			return o.Name == d.Name && (o.UniqueID == "" || o.UniqueID == d.UniqueID) && o.Digest == d.Digest &&
				inventory.NormalizeVersion(o.Version) == inventory.NormalizeVersion(d.Version)
		})
	})
}

// make is a job of a person on the node.
func (f *nodeFacts) make(task v1alpha1.JobTask, will, action, reason string) (*write, error) {
	for _, j := range f.jobs {
		if !j.Ended() && j.Spec.Cancel == nil && j.DeletionTimestamp.IsZero() && does(&j.Spec.Task, &task) {
			return nil, fmt.Errorf("job/%s does that already. How far it is: kubectl firmware wait %[1]s", j.Name)
		}
	}
	if j := f.next(); j != nil {
		will += fmt.Sprintf(" It waits for job %s.", j.Name)
	}
	if task.Type != v1alpha1.JobTypeBackup {
		will += f.limits()
	}
	job := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{GenerateName: f.node.Name + "-" + strings.ToLower(string(task.Type)) + "-"},
		Spec:       v1alpha1.FirmwareJobSpec{NodeName: f.node.Name, Task: task},
	}
	return &write{changed: job, will: will + silent(f.node), did: "created", action: action, reason: reason}, nil
}
