package simhost

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// renderNVMe adds /sys/class/nvme, /sys/class/nvme-subsystem and the namespaces' block devices.
func renderNVMe(t tree, s *state) {
	for i, n := range s.Spec.NVMe {
		if !s.present(n.Key) {
			continue
		}
		pci := renderPCI(t, pciDevice{
			address: n.PCI, vendor: n.VendorID, device: n.DeviceID, subVendor: n.VendorID, subDevice: "a801",
			class: "010802", driver: "nvme",
		})
		dir := path.Join(pci, "nvme", n.Key)
		t.attrs(dir, "address", n.PCI, "cntlid", "6", "dev", fmt.Sprintf("241:%d", i), "numa_node", "0",
			"model", fmt.Sprintf("%-40s", n.Model), "serial", fmt.Sprintf("%-20s", n.Serial),
			"firmware_rev", fmt.Sprintf("%-8s", s.NVMe[n.Key].SysfsVersion), "subsysnqn", n.nqn(), "state", "live",
			"transport", "pcie", "queue_count", "9", "sqsize", "1023",
			"uevent", fmt.Sprintf("MAJOR=241\nMINOR=%d\nDEVNAME=%s\nNVME_TRTYPE=pcie", i, n.Key))
		t.link(path.Join(dir, "device"), pci)
		t.link(path.Join(dir, "subsystem"), "sys/class/nvme")
		t.link(path.Join("sys/class/nvme", n.Key), dir)

		subsystem := fmt.Sprintf("nvme-subsys%d", i)
		sub := path.Join("sys/devices/virtual/nvme-subsystem", subsystem)
		t.attrs(sub, "subsysnqn", n.nqn(), "model", n.Model, "serial", n.Serial,
			"firmware_rev", s.NVMe[n.Key].SysfsVersion, "subsystype", "nvm")
		t.link(path.Join("sys/class/nvme-subsystem", subsystem), sub)
		t.link(path.Join(sub, n.Key), dir)

		namespace := n.Key + "n1"
		disk := path.Join(dir, namespace)
		blockDevice(t, disk, namespace, n.Sectors, false)
		t.attrs(disk, "nsid", "1", "eui", spaced(n.EUI), "wwid", "eui."+n.EUI)
		t.link(path.Join(disk, "device"), dir)
	}
}

// nqn is the subsystem name Linux makes up for controllers before NVMe 1.2.1, and what most later ones report alike.
func (n NVMe) nqn() string {
	return fmt.Sprintf("nqn.2014.08.org.nvmexpress:%s%s%-20s%-40s", n.VendorID, n.VendorID, n.Serial, n.Model)
}

func blockDevice(t tree, dir, name string, sectors int64, rotational bool) {
	t.attrs(dir, "size", strconv.FormatInt(sectors, 10), "removable", "0", "ro", "0", "hidden", "0")
	t.attrs(path.Join(dir, "queue"), "rotational", map[bool]string{true: "1", false: "0"}[rotational],
		"logical_block_size", "512", "physical_block_size", "4096")
	t.link(path.Join(dir, "subsystem"), "sys/class/block")
	t.link(path.Join("sys/class/block", name), dir)
	t.link(path.Join("sys/block", name), dir)
}

// spaced spells an EUI-64 as sysfs does: bytes between blanks.
func spaced(digits string) string {
	var parts []string
	for i := 0; i+1 < len(digits); i += 2 {
		parts = append(parts, digits[i:i+2])
	}
	return strings.Join(parts, " ")
}
