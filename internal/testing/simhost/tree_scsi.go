package simhost

import (
	"fmt"
	"path"
	"strings"
)

// sasPorts are the ports of the chipset, to which the disks of a machine without a controller are connected. They have
// no firmware.
var sasPorts = pciDevice{
	address: "0000:18:00.0", vendor: "8086", device: "1d6b", subVendor: "8086", subDevice: "0000", class: "010700",
	driver: "isci",
}

// renderSCSI adds the SAS controller and /sys/class/{scsi_host,scsi_device,scsi_disk,scsi_generic,sas_device}.
func renderSCSI(t tree, s *state) {
	function, attributes := sasPorts, []string{}
	switch c := s.Spec.Controller; {
	case c != nil:
		function, attributes = c.function(), c.attributes()
	case len(s.Spec.SCSI) == 0:
		return
	}
	host := path.Join(renderPCI(t, function), "host0")
	t.attrs(path.Join(host, "scsi_host/host0"), append(attributes, "proc_name", function.driver, "unique_id", "0", "state", "running")...)
	t.link("sys/class/scsi_host/host0", path.Join(host, "scsi_host/host0"))
	t.link(path.Join(host, "scsi_host/host0/device"), host)
	for i, d := range s.Spec.SCSI {
		if s.present(d.Key) {
			renderDisk(t, host, d, s.SCSI[d.Key], i)
		}
	}
}

func (c Controller) function() pciDevice {
	f := pciDevice{
		address: c.PCI, vendor: "1000", device: c.DeviceID, subVendor: "1000", subDevice: "4050", class: "010700", driver: "mpt3sas",
	}
	if c.RAID {
		f.class, f.driver = "010400", "megaraid_sas"
	}
	return f
}

// attributes are those the driver gives its host: megaraid_sas gives none.
func (c Controller) attributes() []string {
	if c.RAID {
		return nil
	}
	return []string{
		"host_sas_address", "0x" + c.SASAddress, "board_name", c.Model, "board_assembly", c.PartNumber, "board_tracer", c.Serial,
	}
}

func renderDisk(t tree, host string, d SCSI, fw *scsiState, i int) {
	endDevice := fmt.Sprintf("end_device-0:%d", i)
	port := path.Join(host, fmt.Sprintf("port-0:%d", i), endDevice)
	sas := path.Join(port, "sas_device", endDevice)
	t.attrs(sas, "sas_address", "0x"+d.WWN, "device_type", "end device", "phy_identifier", "0",
		"initiator_port_protocols", "none", "target_port_protocols", "ssp")
	t.link(path.Join("sys/class/sas_device", endDevice), sas)

	target := d.Address[:strings.LastIndex(d.Address, ":")]
	lun := path.Join(port, "target"+target, d.Address)
	t.attrs(lun, "vendor", fmt.Sprintf("%-8s", d.Vendor), "model", fmt.Sprintf("%-16s", d.Model),
		"rev", fmt.Sprintf("%-4s", fw.SysfsRevision), "type", "0", "scsi_level", "8", "state", "running",
		"wwid", "naa."+d.WWN, "sas_address", "0x"+d.WWN, "device_blocked", "0", "queue_depth", "254",
		"modalias", "scsi:t-0x00")
	t.file(lun, "vpd_pg80", string(vpdPage(0x80, []byte(d.Serial))), 0o444)
	t.file(lun, "vpd_pg83", string(vpdPage(0x83, naa(d.WWN))), 0o444)
	t.file(lun, "inquiry", string(d.inquiry(fw.SysfsRevision)), 0o444)
	linkDisk(t, lun, d.Address, d.Generic)
	t.attr(path.Join(lun, "scsi_generic", d.Generic), "dev", fmt.Sprintf("21:%d", i))
	disk := path.Join(lun, "block", d.Key)
	blockDevice(t, disk, d.Key, d.Sectors, true)
	t.link(path.Join(disk, "device"), lun)
}

// linkDisk adds the links by which the bus and the classes lead to a logical unit that the driver sd has.
func linkDisk(t tree, lun, address, generic string) {
	t.link(path.Join("sys/bus/scsi/devices", address), lun)
	t.link(path.Join(lun, "subsystem"), "sys/bus/scsi")
	t.link(path.Join(lun, "driver"), "sys/bus/scsi/drivers/sd")
	t.link(path.Join("sys/bus/scsi/drivers/sd", address), lun)
	t.link(path.Join(lun, "generic"), path.Join(lun, "scsi_generic", generic))
	for class, name := range map[string]string{"scsi_device": address, "scsi_disk": address, "scsi_generic": generic} {
		dir := path.Join(lun, class, name)
		t.link(path.Join(dir, "device"), lun)
		t.link(path.Join(dir, "subsystem"), path.Join("sys/class", class))
		t.link(path.Join("sys/class", class, name), dir)
	}
}

// inquiry is the standard INQUIRY data (SPC-5).
func (d SCSI) inquiry(revision string) []byte {
	head := []byte{0, 0, 6, 0x12, 0x8b, 0x01, 0x10, 0x02}
	data := append(head, fmt.Sprintf("%-8.8s%-16.16s%-4.4s", d.Vendor, d.Model, revision)...)
	return append(data, make([]byte, 144-len(data))...)
}

// vpdPage is a page of vital product data.
func vpdPage(page byte, body []byte) []byte {
	return append([]byte{0, page, byte(len(body) >> 8), byte(len(body))}, body...)
}

// naa is a designation descriptor of the logical unit with a binary NAA identifier.
func naa(wwn string) []byte {
	out := []byte{1, 3, 0, 8}
	for i := 0; i+1 < len(wwn); i += 2 {
		out = append(out, byte(hex16(wwn[i:i+2])))
	}
	return out
}
