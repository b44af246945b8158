package realnode

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
)

// nodeName is the name of the Node.
const nodeName = "node-1"

// pauseImage is the container that keeps the namespaces of a pod.
const pauseImage = "localhost/node-firmware-lab/pause:1"

// moduleDir has the kernel modules of emulated devices.
const moduleDir = "/usr/lib/lab/modules"

// toolDir has the vendor's tool of the devices that this lab emulates.
const toolDir = "/opt/lab"

// machineFiles is the configuration of the machine, the same in every run. Paths are those that kubeadm and Debian use.
var machineFiles = []file{
	{"etc/hostname", 0o644, nodeName + "\n"},
	{"etc/hosts", 0o644, "127.0.0.1 localhost\n" + nodeAddress + " " + nodeName + "\n"},
	{"etc/machine-id", 0o444, "6e6f64652d6669726d776172652d3031\n"},
	{"etc/fstab", 0o644, "/dev/vda / ext4 defaults 0 1\n"},
	{"etc/resolv.conf", 0o644, "nameserver " + dnsAddress + "\n"},
	{"etc/systemd/network/10-lab.network", 0o644, fmt.Sprintf(
		"[Match]\nName=eth0\n[Network]\nAddress=%s/24\nGateway=%s\nLinkLocalAddressing=no\nIPv6AcceptRA=no\nKeepConfiguration=static\n", nodeAddress, hostAddress)},
	{"etc/modules-load.d/lab.conf", 0o644, "overlay\nbr_netfilter\n"},
	{"etc/sysctl.d/90-lab.conf", 0o644, "net.ipv4.ip_forward=1\nnet.bridge.bridge-nf-call-iptables=1\n"},
	{"etc/cni/net.d/10-lab.conflist", 0o644, fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`, podRange)},
	{"etc/containerd/config.toml", 0o644, `version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '` + pauseImage + `'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    SystemdCgroup = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['/usr/lib/cni']
  conf_dir = '/etc/cni/net.d'
`},
	{"var/lib/kubelet/config.yaml", 0o644, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
clusterDNS: [` + dnsAddress + `]
clusterDomain: cluster.local
failSwapOn: false
staticPodPath: /etc/kubernetes/manifests
evictionHard: {memory.available: 1%, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
`},
	unit("lab-seed.service", "The access of this run", "DefaultDependencies=no\nAfter=local-fs.target\nBefore=basic.target shutdown.target\nConflicts=shutdown.target",
		"Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/mount -o ro /dev/vdb /mnt\nExecStart=/bin/cp -a /mnt/etc /\nExecStart=/bin/umount /mnt", "sysinit.target"),
	unit("containerd.service", "containerd", "After=network.target dbus.service", "ExecStart=/usr/bin/containerd\nType=notify\nDelegate=yes\n"+
		"KillMode=process\nRestart=always\nRestartSec=5\nLimitNOFILE=1048576\nTasksMax=infinity\nOOMScoreAdjust=-999", "multi-user.target"),
	unit("kubelet.service", "kubelet", "After=containerd.service lab-seed.service\nWants=containerd.service",
		"ExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf --hostname-override="+nodeName+
			" --node-ip="+nodeAddress+"\nRestart=always\nRestartSec=10", "multi-user.target"),
	// The agent emulates devices, which have power until the machine has none: no shutdown stops it before everything else.
	unit("lab-agent.service", "The lab's agent", "DefaultDependencies=no\nAfter=sysinit.target network.target", "ExecStart=/usr/lib/lab/firmware-lab-guest agent\n"+
		"Restart=always\nKillMode=none\nSendSIGKILL=no", "multi-user.target"),
}

// unit is a unit of systemd, with the target that starts it.
func unit(name, description, section, service, target string) file {
	return file{"etc/systemd/system/" + name, 0o644, fmt.Sprintf("[Unit]\nDescription=%s\n%s\n[Service]\n%s\n[Install]\nWantedBy=%s\n", description, section, service, target)}
}

// enabled are the units that start at a boot, with their targets; masked ones never do.
var (
	enabled = map[string]string{
		"lab-seed.service": "sysinit.target", "containerd.service": "multi-user.target", "kubelet.service": "multi-user.target", "lab-agent.service": "multi-user.target",
	}
	masked = []string{
		"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer", "getty.target", "serial-getty@ttyS0.service",
		"systemd-timesyncd.service",
	}
)

// directories exist before anything runs.
var directories = []string{"etc/kubernetes/manifests", "etc/kubernetes/pki", "mnt", guest.StateDir[1:], "boot", "opt/lab", "var/lib/cni", moduleDir[1:]}
