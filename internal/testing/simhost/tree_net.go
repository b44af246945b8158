package simhost

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// renderNet adds /sys/class/net and /sys/class/infiniband: the ports of the cards, and interfaces without hardware.
func renderNet(t tree, s *state) {
	virtualNetDevice(t, "lo", 1, "00:00:00:00:00:00", "772")
	virtualNetDevice(t, "cni0", 2, "0a:58:0a:f4:00:01", "1")
	index := 3
	for i, n := range s.Spec.NICs {
		if s.present(n.Key) && s.NICs[n.Key].Running.Recovery {
			renderRecovery(t, n)
			index += len(n.functions())
			continue
		}
		for at, f := range n.functions() {
			index++
			if s.present(n.Key) {
				renderPort(t, n, s.NICs[n.Key], f, at, index, i*8+at)
			}
		}
	}
}

// renderRecovery shows a card whose firmware did not start: one function without a kernel driver.
func renderRecovery(t tree, n NIC) {
	renderPCI(t, pciDevice{
		address: n.Slot + ".0", vendor: "15b3", device: recoveryID(n), subVendor: "15b3", subDevice: recoveryID(n), class: "058000",
	})
}

// recoveryID is the PCI device id of a card in flash recovery.
func recoveryID(n NIC) string {
	return defaultTo(map[string]string{"101d": "0212", "1021": "0218"}[n.DeviceID], "020f")
}

// function is a PCI function of a card, with the port behind it.
type function struct {
	// Address is the PCI address.
	Address string
	// Number of the port in its half.
	Number int
	Port
}

// functions are those of both halves of a card, in order of address within a half.
func (n NIC) functions() []function {
	var out []function
	halves := []Half{{n.Slot, n.Ports}}
	if n.Second != nil {
		halves = append(halves, *n.Second)
	}
	for _, h := range halves {
		for i, p := range h.Ports {
			out = append(out, function{fmt.Sprintf("%s.%d", h.Slot, i), i, p})
		}
	}
	return out
}

// driverOf is the kernel driver that has a function of a card.
func (n NIC) driverOf(address string) string {
	if n.Foreign != "" && address == n.Slot+".1" {
		return n.Foreign
	}
	return "mlx5_core"
}

// renderPort adds function number port of a card, counted over both halves.
func renderPort(t tree, n NIC, fw *nicState, p function, port, ifindex, rdma int) {
	class, layer := "020000", "Ethernet"
	if !fw.isEthernet(p.Number) {
		class, layer = "020700", "InfiniBand"
	}
	dir := renderPCI(t, pciDevice{
		address: p.Address, vendor: "15b3", device: n.DeviceID, subVendor: "15b3", subDevice: n.SubsystemID,
		class: class, driver: n.driverOf(p.Address), vpd: vpd(n.Model, n.PartNumber, n.Serial),
	})
	vfs := 0
	if port == 0 {
		vfs = fw.VFs
	}
	t.attrs(dir, "sriov_numvfs", strconv.Itoa(vfs), "sriov_totalvfs", "16")
	if n.driverOf(p.Address) != "mlx5_core" {
		return
	}
	mac := n.BaseMAC + uint64(port)
	guid := n.BaseGUID + uint64(port)
	operstate, carrier, speed, state := "up", "1", "100000", "4: ACTIVE"
	if !fw.hasLink(p.Number) {
		operstate, carrier, speed, state = "down", "0", "-1", "1: DOWN"
	}
	if fw.isEthernet(p.Number) { // the kernel has no interface for InfiniBand unless somebody loads ib_ipoib
		net := path.Join(dir, "net", p.NetDevice)
		netDevice(t, net, p.NetDevice, ifindex, colons(mac, 6), "1", operstate, carrier)
		t.attrs(net, "broadcast", "ff:ff:ff:ff:ff:ff", "dev_port", "0", "phys_port_name", "p"+strconv.Itoa(port),
			"phys_switch_id", fmt.Sprintf("%016x", n.BaseGUID), "speed", speed, "duplex", "full", "addr_assign_type", "0")
		t.link(path.Join(net, "device"), dir)
	}

	name := fmt.Sprintf("mlx5_%d", rdma)
	ib := path.Join(dir, "infiniband", name)
	t.attrs(ib, "fw_ver", fw.Running.Version, "board_id", n.PSID, "hca_type", "MT"+strconv.Itoa(int(hex16(n.DeviceID))),
		"node_type", "1: CA", "node_guid", words(guid), "sys_image_guid", words(n.BaseGUID))
	t.attrs(path.Join(ib, "ports/1"), "state", state, "link_layer", layer)
	t.link(path.Join(ib, "device"), dir)
	t.link(path.Join("sys/class/infiniband", name), ib)
}

func virtualNetDevice(t tree, name string, index int, mac, linkType string) {
	netDevice(t, path.Join("sys/devices/virtual/net", name), name, index, mac, linkType, "unknown", "1")
}

func netDevice(t tree, dir, name string, index int, mac, linkType, operstate, carrier string) {
	t.attrs(dir, "address", mac, "addr_len", strconv.Itoa(strings.Count(mac, ":")+1), "type", linkType,
		"operstate", operstate, "carrier", carrier, "ifindex", strconv.Itoa(index), "iflink", strconv.Itoa(index),
		"mtu", "1500", "flags", "0x1003", "dev_id", "0x0", "uevent", fmt.Sprintf("INTERFACE=%s\nIFINDEX=%d", name, index))
	t.link(path.Join(dir, "subsystem"), "sys/class/net")
	t.link(path.Join("sys/class/net", name), dir)
}

func colons(v uint64, bytes int) string {
	parts := make([]string, bytes)
	for i := range parts {
		parts[i] = fmt.Sprintf("%02x", byte(v>>(8*(bytes-1-i))))
	}
	return strings.Join(parts, ":")
}

// words spells a GUID as the RDMA subsystem does.
func words(guid uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", guid>>48, guid>>32&0xffff, guid>>16&0xffff, guid&0xffff)
}
