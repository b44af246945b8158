package simhost

import (
	"encoding/binary"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// pciDevice is one function in /sys/bus/pci/devices.
type pciDevice struct {
	address              string
	vendor, device       string
	subVendor, subDevice string
	class                string
	// driver is empty where the kernel has none.
	driver string
	vpd    []byte
}

// renderPCI adds a function behind a root port of its own and returns the path of its directory. A root port is a
// device too: one per bus.
func renderPCI(t tree, d pciDevice) string {
	domain, rest, _ := strings.Cut(d.address, ":")
	busHex, _, _ := strings.Cut(rest, ":")
	bus, _ := strconv.ParseUint(busHex, 16, 8)
	rootBus := fmt.Sprintf("%02x", (bus-1)&0xff)
	port := fmt.Sprintf("%s:%s:02.0", domain, rootBus)
	portDir := path.Join("sys/devices", "pci"+domain+":"+rootBus, port)
	pciFunction(t, portDir, pciDevice{
		address: port, vendor: "8086", device: "347a", subVendor: "8086", subDevice: "0000", class: "060400", driver: "pcieport",
	})
	dir := path.Join(portDir, d.address)
	pciFunction(t, dir, d)
	return dir
}

func pciFunction(t tree, dir string, d pciDevice) {
	modalias := fmt.Sprintf("pci:v0000%sd0000%ssv0000%ssd0000%sbc%ssc%si%s", upper(d.vendor), upper(d.device),
		upper(d.subVendor), upper(d.subDevice), d.class[:2], d.class[2:4], d.class[4:])
	bound := ""
	if d.driver != "" {
		bound = "DRIVER=" + d.driver + "\n"
	}
	t.attrs(dir,
		"vendor", "0x"+d.vendor, "device", "0x"+d.device,
		"subsystem_vendor", "0x"+d.subVendor, "subsystem_device", "0x"+d.subDevice,
		"class", "0x"+d.class, "revision", "0x00", "modalias", modalias, "numa_node", "0", "enable", "1",
		"current_link_speed", "16.0 GT/s PCIe", "current_link_width", "16",
		"uevent", fmt.Sprintf("%sPCI_CLASS=%s\nPCI_ID=%s:%s\nPCI_SUBSYS_ID=%s:%s\nPCI_SLOT_NAME=%s\nMODALIAS=%s",
			bound, strings.TrimLeft(upper(d.class), "0"), upper(d.vendor), upper(d.device), upper(d.subVendor),
			upper(d.subDevice), d.address, modalias),
	)
	t.file(dir, "config", string(pciConfig(d)), 0o644)
	if d.vpd != nil {
		t.file(dir, "vpd", string(d.vpd), 0o600)
	}
	t.link(path.Join("sys/bus/pci/devices", d.address), dir)
	t.link(path.Join(dir, "subsystem"), "sys/bus/pci")
	if d.driver == "" {
		return
	}
	driver := path.Join("sys/bus/pci/drivers", d.driver)
	t.link(path.Join(dir, "driver"), driver)
	t.link(path.Join(driver, d.address), dir)
}

// pciConfig is the first 64 bytes of the configuration space.
func pciConfig(d pciDevice) []byte {
	c := make([]byte, 64)
	le := binary.LittleEndian
	le.PutUint16(c[0:], hex16(d.vendor))
	le.PutUint16(c[2:], hex16(d.device))
	le.PutUint16(c[4:], 0x0546)
	c[9], c[10], c[11] = byte(hex16(d.class[4:])), byte(hex16(d.class[2:4])), byte(hex16(d.class[:2]))
	le.PutUint16(c[44:], hex16(d.subVendor))
	le.PutUint16(c[46:], hex16(d.subDevice))
	return c
}

// vpd is the vital product data of a card (PCI Local Bus Specification 3.0, appendix I).
func vpd(product, partNumber, serial string) []byte {
	item := func(key, value string) []byte { return append([]byte{key[0], key[1], byte(len(value))}, value...) }
	large := func(tag byte, body []byte) []byte {
		return append([]byte{tag, byte(len(body)), byte(len(body) >> 8)}, body...)
	}
	out := large(0x82, []byte(product))
	body := append(item("PN", partNumber), item("EC", "A9")...)
	body = append(body, item("SN", serial)...)
	body = append(body, item("V0", "PCIeGen4 x16")...)
	head := []byte{0x90, byte(len(body) + 4), byte((len(body) + 4) >> 8)}
	var checksum byte
	for _, b := range append(append(append([]byte{}, out...), head...), append(append([]byte{}, body...), 'R', 'V', 1)...) {
		checksum -= b
	}
	body = append(body, 'R', 'V', 1, checksum)
	return append(append(out, large(0x90, body)...), 0x78)
}

func hex16(s string) uint16 {
	n, _ := strconv.ParseUint(s, 16, 16)
	return uint16(n)
}

func upper(s string) string { return strings.ToUpper(s) }
