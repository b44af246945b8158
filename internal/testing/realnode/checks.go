package realnode

import (
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

type check = trial.Check[*scene]

// checks run in this order on one machine. All build on those of the first group.
var checks = trial.Checks[*scene]{
	trial.New("install", "the machine boots and its kubelet is Ready", booted),
	trial.New("install", "the product is installed by its manifests and its pods are Ready", installed),
	trial.New("install", "the devices are discovered from inside the pod", discovered),
	trial.New("access", "logs are read through the kubelet", logged),
	trial.New("access", "the daemon's token is bound to its node, and the policy refuses a write to another one", confined),
	trial.New("memory", "the daemon at rest has less than 40 MiB resident, and its container takes less than it requests", atRest),
	trial.New("update", "a device is updated by its vendor's tool from inside the pod", updated),
	trial.New("update", "a node that a person cordoned is left alone until they let it be updated, and stays cordoned", cordoned),
	trial.New("devices", "a SCSI disk is updated by WRITE BUFFER from inside the pod", kernelDevice{"scsi", "0001", "0002", vm.SCSIDisk(), module("scsi_debug"), false}.run),
	trial.New("devices", "an NVMe drive is updated and reset from inside the pod", kernelDevice{"nvme", "WARM1", "WARM2", vm.NVMeDrive(), drives, false}.run),
	trial.New("devices", "a devlink adapter is updated from inside the pod, and the node reboots", kernelDevice{"devlink", "1.0.0", "1.1.0", vm.DevlinkAdapter(), module("netdevsim"), true}.run),
	trial.New("daemon", "the daemon's pod is deleted by force during the write", disturbance{"1.2.0", 1, forceDeleted}.run),
	trial.New("daemon", "the daemon is killed for want of memory during the write", disturbance{"1.3.0", 1, outOfMemory}.run),
	trial.New("daemon", "the DaemonSet changes during the write, and nothing is replaced", disturbance{"1.4.0", 1, onDelete}.run),
	trial.New("daemon", "the DaemonSet replaces its pods during the write", disturbance{"1.5.0", 1, rollingUpdate}.run),
	trial.New("host", "the kubelet restarts during the write", disturbance{"1.6.0", 1, restarted("kubelet")}.run),
	trial.New("host", "containerd restarts during the write", disturbance{"1.7.0", 1, restarted("containerd")}.run),
	trial.New("host", "somebody reboots the host during the write", disturbance{"1.8.0", 1, rebooted}.run),
	trial.New("cgroups", "containerd makes groups without systemd, and the daemon's pod is deleted during the write", withoutSystemdGroups),
	trial.New("host", "the power is cut during the write", disturbance{"1.9.0", 2, powerCut}.run),
	trial.New("reboot", "the job reboots the node by itself, and a guard is there meanwhile", ownReboot),
	trial.New("reboot", "the node boots without the API server, and the kubelet starts the guard", silentReboot),
	trial.New("strategy", "a pod of the job updates a device", executedByPod),
	trial.New("uninstall", "the product is uninstalled and leaves the node clean", uninstalled),
}

// Groups are the names of the groups of checks.
func Groups() []string { return checks.Groups() }
