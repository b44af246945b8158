package realnode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm"
)

// check is one thing the lab proves.
type check struct {
	group, name string
	// run returns details for the output.
	run func(ctx context.Context, s *scene) (string, error)
}

// checks run in this order on one machine. All build on those of the first group.
var checks = []check{
	{installGroup, "the machine boots and its kubelet is Ready", booted},
	{installGroup, "the product is installed by its manifests and its pods are Ready", installed},
	{installGroup, "the devices are discovered from inside the pod", discovered},
	{"access", "logs are read through the kubelet", logged},
	{"access", "the daemon's token is bound to its node, and the policy refuses a write to another one", confined},
	{"update", "a device is updated by its vendor's tool from inside the pod", updated},
	{"devices", "a SCSI disk is updated by WRITE BUFFER from inside the pod", kernelDevice{"scsi", "0001", "0002", vm.SCSIDisk(), module("scsi_debug"), false}.run},
	{"devices", "an NVMe drive is updated and reset from inside the pod", kernelDevice{"nvme", "WARM1", "WARM2", vm.NVMeDrive(), drives, false}.run},
	{"devices", "a devlink adapter is updated from inside the pod, and the node reboots", kernelDevice{"devlink", "1.0.0", "1.1.0", vm.DevlinkAdapter(), module("netdevsim"), true}.run},
	{"daemon", "the daemon's pod is deleted by force during the write", disturbance{"1.2.0", 1, forceDeleted}.run},
	{"daemon", "the daemon is killed for want of memory during the write", disturbance{"1.3.0", 1, outOfMemory}.run},
	{"daemon", "the DaemonSet changes during the write, and nothing is replaced", disturbance{"1.4.0", 1, onDelete}.run},
	{"daemon", "the DaemonSet replaces its pods during the write", disturbance{"1.5.0", 1, rollingUpdate}.run},
	{"host", "the kubelet restarts during the write", disturbance{"1.6.0", 1, restarted("kubelet")}.run},
	{"host", "containerd restarts during the write", disturbance{"1.7.0", 1, restarted("containerd")}.run},
	{"host", "somebody reboots the host during the write", disturbance{"1.8.0", 1, rebooted}.run},
	{"host", "the power is cut during the write", disturbance{"1.9.0", 2, powerCut}.run},
	{"reboot", "the job reboots the node by itself, and a guard is there meanwhile", ownReboot},
	{"reboot", "the node boots without the API server, and the kubelet starts the guard", silentReboot},
	{"strategy", "a pod of the job updates a device", executedByPod},
	{"uninstall", "the product is uninstalled and leaves the node clean", uninstalled},
}

// installGroup is what all checks build on.
const installGroup = "install"

// chosen are the checks of the groups, or all.
func chosen(groups []string) ([]check, error) {
	for _, g := range groups {
		if !slices.Contains(Groups(), g) {
			return nil, fmt.Errorf("there are no checks %q: %s", g, strings.Join(Groups(), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(checks), func(c check) bool {
		return len(groups) > 0 && c.group != installGroup && !slices.Contains(groups, c.group)
	}), nil
}

// Groups are the names of the groups of checks.
func Groups() []string {
	var out []string
	for _, c := range checks {
		if !slices.Contains(out, c.group) {
			out = append(out, c.group)
		}
	}
	return out
}
