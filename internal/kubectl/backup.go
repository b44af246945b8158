package kubectl

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (s *session) backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backup NODE|DEVICE...",
		Short: "Read what devices run into the archive of their node",
		Long: "Read what the devices of a node run into its archive, or what the named ones do: a job of type Backup. The node stays in service, and no budget, window or " +
			"paused policy keeps it waiting.",
		Example: "  kubectl firmware backup gpu-017\n" +
			"  kubectl firmware backup gpu-017-nic-b83fd2a1c4e0",
		Args:              wantSome("kubectl firmware backup gpu-017"),
		ValidArgsFunction: s.completeNames("NodeFirmware", "NodeDevice"),
	}
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.onNodeOrDevices(c.Context(), w, args, (*nodeFacts).backup)
	}
	return c
}

// backup decides a job of type Backup, if it can read an image.
func (f *nodeFacts) backup(devices []*v1alpha1.NodeDevice) (*write, error) {
	task := v1alpha1.JobTask{Type: v1alpha1.JobTypeBackup}
	for _, d := range devices {
		if !canBeRead(d) {
			return nil, fmt.Errorf("the image of device/%s cannot be read from it, so that there is nothing to archive. Which can: docs/kinds/firmwarejob.md#backup-and-restore", d.Name)
		}
		task.Devices = append(task.Devices, v1alpha1.TaskDevice{Name: d.Name, UniqueID: d.Status.UniqueID})
	}
	read := devices
	if len(devices) == 0 {
		read = slices.DeleteFunc(slices.Clone(f.devices), func(d *v1alpha1.NodeDevice) bool { return !canBeRead(d) })
	}
	if len(read) == 0 {
		return nil, fmt.Errorf("the image of no device of node/%s can be read from it, so that there is nothing to archive. Which can: docs/kinds/firmwarejob.md#backup-and-restore", f.node.Name)
	}
	will := fmt.Sprintf("A job reads what %s run into the archive of node %s, which stays in service.", text.Some(namesOfDevices(read), 5), f.node.Name)
	return f.make(task, will, "Backup", v1alpha1.ReasonPending)
}

// canBeRead reports whether the driver of the device reads its image.
func canBeRead(d *v1alpha1.NodeDevice) bool {
	return d.Status.Firmware != nil && d.Status.Firmware.Rollback == v1alpha1.RollbackReadBack
}
