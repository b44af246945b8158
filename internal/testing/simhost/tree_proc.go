package simhost

import (
	"fmt"
	"strings"
)

// renderProc adds what the daemon reads of /proc.
func renderProc(t tree, s *state) {
	t.attr("proc/sys/kernel/random", "boot_id", s.BootID)
	t.attrs("proc/sys/kernel", "hostname", s.Spec.Name, "osrelease", "6.12.57+deb13-amd64", "ostype", "Linux")
	t.attr("proc", "cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.12.57+deb13-amd64 root=UUID=6f4c3b7e ro quiet")
	renderKubelet(t)
	renderGateway(t, s)
	renderLockdown(t, s)
}

// renderLockdown adds the file of the kernel's lockdown, in which brackets mark the level. A kernel without lockdown has none.
func renderLockdown(t tree, s *state) {
	if s.Spec.Lockdown == "" {
		return
	}
	levels := strings.ReplaceAll("none integrity confidentiality", s.Spec.Lockdown, "["+s.Spec.Lockdown+"]")
	t.attr("sys/kernel/security", "lockdown", levels)
}

// Where the kubelet of the machine has its configuration and its access to the API server, as kubeadm puts them.
const (
	KubeletConfig     = "/var/lib/kubelet/config.yaml"
	KubeletKubeconfig = "/etc/kubernetes/kubelet.conf"
)

// renderKubelet adds the kubelet as a process that the first one started, and the root of the host as the first process has it.
// A kubelet has more fields and flags.
func renderKubelet(t tree) {
	const kubelet, argv = "proc/812", "/usr/bin/kubelet"
	t.link("proc/1/root", ".")
	t.attr("proc/1", "comm", "systemd")
	t.attr(kubelet, "comm", "kubelet")
	t.attr(kubelet, "stat", "812 (kubelet) S 1 812 812 0 -1 4194560 18563 0 91 0 412 208 0 0 20 0 17 0 1187 2128916480 24120")
	t.attr(kubelet, "status", "Name:\tkubelet\nUid:\t0\t0\t0\t0")
	args := []string{argv, "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--kubeconfig=" + KubeletKubeconfig,
		"--config=" + KubeletConfig, "--pod-infra-container-image=registry.k8s.io/pause:3.10"}
	t.file(kubelet, "cmdline", strings.Join(args, "\x00")+"\x00", 0o444)
}

// The machine's network is 10.20.0.0/24 and its gateway 10.20.0.1, as the kernel prints the bytes of an address in
// /proc/net/route on a little-endian machine.
const (
	gatewayAddress  = "10.20.0.1"
	gatewayHardware = "52:54:00:14:00:01"
	gatewayRoute    = 0x0100140A
	networkRoute    = 0x0000140A
	networkMask     = 0x00FFFFFF
)

// renderGateway adds the route table and the neighbours of the host's network namespace, in the formats of fib_route_seq_show
// and arp_seq_show of the kernel. Routes stay when a link goes down, and go with their interface. The neighbour entry of the
// gateway is complete while the link is up.
func renderGateway(t tree, s *state) {
	const namespace = "proc/1/net"
	routes := fmt.Sprintf("%-127s\n", "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT")
	neighbours := "IP address       HW type     Flags       HW address            Mask     Device\n"
	if nic := s.nic(s.Spec.Uplink); nic.Key != "" && s.present(nic.Key) && !s.NICs[nic.Key].Running.Recovery && s.NICs[nic.Key].isEthernet(0) {
		device := nic.Ports[0].NetDevice
		route := func(destination, gateway, flags, mask int) string {
			line := fmt.Sprintf("%s\t%08X\t%08X\t%04X\t0\t0\t100\t%08X\t0\t0\t0", device, destination, gateway, flags, mask)
			return line + strings.Repeat(" ", max(0, 127-len(line))) + "\n"
		}
		routes += route(0, gatewayRoute, 3, 0) + route(networkRoute, 0, 1, networkMask)
		flags, hardware := 0, "00:00:00:00:00:00"
		if s.uplinkUp() {
			flags, hardware = 2, gatewayHardware
		}
		neighbours += fmt.Sprintf("%-16s 0x%-10x0x%-10x%-17s     *        %s\n", gatewayAddress, 1, flags, hardware, device)
	}
	t.file(namespace, "route", routes, 0o444)
	t.file(namespace, "arp", neighbours, 0o444)
}

// uplinkUp reports whether the machine reaches its gateway: it has power, and the port that leads there has a link.
func (s *state) uplinkUp() bool {
	nic := s.nic(s.Spec.Uplink)
	return !s.Off && nic.Key != "" && s.present(nic.Key) && s.NICs[nic.Key].hasLink(0)
}
