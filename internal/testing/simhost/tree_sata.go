package simhost

import (
	"fmt"
	"path"
	"strings"
)

// ahci is the controller of a machine's SATA drives.
var ahci = pciDevice{
	address: "0000:14:00.0", vendor: "8086", device: "a182", subVendor: "8086", subDevice: "a182", class: "010601", driver: "ahci",
}

// renderSATA adds the AHCI controller and its drives, as SCSI disks of the vendor "ATA".
func renderSATA(t tree, s *state) {
	if len(s.Spec.SATA) == 0 {
		return
	}
	pci := renderPCI(t, ahci)
	for i, d := range s.Spec.SATA {
		number, _, _ := strings.Cut(d.Address, ":")
		name := "host" + number
		host := path.Join(pci, fmt.Sprintf("ata%d", i+1), name)
		t.attrs(path.Join(host, "scsi_host", name), "proc_name", "ahci", "unique_id", number, "state", "running")
		t.link(path.Join("sys/class/scsi_host", name), path.Join(host, "scsi_host", name))
		if s.present(d.Key) {
			renderSATADisk(t, host, d, s.SATA[d.Key])
		}
	}
}

func renderSATADisk(t tree, host string, d SATA, fw *scsiState) {
	lun := path.Join(host, "target"+d.Address[:strings.LastIndex(d.Address, ":")], d.Address)
	t.attrs(lun, "vendor", "ATA     ", "model", fmt.Sprintf("%-16.16s", d.Model), "rev", satRevision(fw.SysfsRevision), "type", "0",
		"scsi_level", "6", "state", "running", "wwid", "naa."+d.WWN, "queue_depth", "32", "modalias", "scsi:t-0x00")
	t.file(lun, "vpd_pg80", string(vpdPage(0x80, []byte(fmt.Sprintf("%20s", d.Serial)))), 0o444)
	t.file(lun, "vpd_pg83", string(vpdPage(0x83, naa(d.WWN))), 0o444)
	linkDisk(t, lun, d.Address, d.Generic)
	t.attr(path.Join(lun, "scsi_generic", d.Generic), "dev", "21:"+strings.TrimPrefix(d.Generic, "sg"))
	disk := path.Join(lun, "block", d.Key)
	blockDevice(t, disk, d.Key, d.Sectors, false)
	t.link(path.Join(disk, "device"), lun)
}

// satRevision is the translation layer's form of a version: its last four characters, or the first when it has no more.
func satRevision(version string) string {
	padded := fmt.Sprintf("%-8.8s", version)
	if padded[4] == ' ' {
		return padded[:4]
	}
	return padded[4:]
}
