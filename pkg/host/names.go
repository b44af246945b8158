package host

import "github.com/nodefirmware/node-firmware-operator/pkg/sysfs"

// vendorName names the vendors of most adapters and drives as the PCI id database does, so that a rule that selects by
// name does not depend on which database, if any, a host has.
func vendorName(id string) string {
	switch id {
	case "1000":
		return "Broadcom / LSI"
	case "1022":
		return "Advanced Micro Devices, Inc. [AMD]"
	case "1077":
		return "QLogic Corp."
	case "10ec":
		return "Realtek Semiconductor Co., Ltd."
	case "1179":
		return "Toshiba Corporation"
	case "1344":
		return "Micron Technology Inc"
	case "1414":
		return "Microsoft Corporation"
	case "1425":
		return "Chelsio Communications Inc"
	case "144d":
		return "Samsung Electronics Co Ltd"
	case "14e4":
		return "Broadcom Inc. and subsidiaries"
	case "15ad":
		return "VMware"
	case "15b3":
		return "Mellanox Technologies"
	case "15b7":
		return "Sandisk Corp"
	case "1924":
		return "Solarflare Communications"
	case "1987":
		return "Phison Electronics Corporation"
	case "19e5":
		return "Huawei Technologies Co., Ltd."
	case "1ae0":
		return "Google, Inc."
	case "1af4":
		return "Red Hat, Inc."
	case "1b36":
		return "Red Hat, Inc."
	case "1b96":
		return "Western Digital"
	case "1bb1":
		return "Seagate Technology PLC"
	case "1c5c":
		return "SK hynix"
	case "1d0f":
		return "Amazon.com, Inc."
	case "1dd8":
		return "AMD Pensando Systems"
	case "1e0f":
		return "KIOXIA Corporation"
	case "025e":
		return "Solidigm"
	case "8086":
		return "Intel Corporation"
	}
	return ""
}

// learnNames looks up in the host's database what is not known yet of the functions' ids. A host without one, or with
// one that cannot be read, leaves names empty: they are for people.
func (h *Host) learnNames(functions []sysfs.PCIFunction) {
	h.naming.Lock()
	defer h.naming.Unlock()
	wanted := map[sysfs.PCIID]bool{}
	for _, f := range functions {
		for _, id := range []sysfs.PCIID{{Vendor: f.Vendor}, {Vendor: f.Vendor, Device: f.Device}} {
			if _, known := h.names[id]; !known {
				wanted[id] = true
			}
		}
	}
	if len(wanted) == 0 {
		return
	}
	found, err := sysfs.PCINames(h.cfg.FS, wanted)
	if err != nil {
		return
	}
	for id := range wanted {
		h.names[id] = found[id]
	}
}

// nameOf is the name of a vendor, or of a vendor's device; empty when it is unknown.
func (h *Host) nameOf(vendor, device string) string {
	if name := vendorName(vendor); device == "" && name != "" {
		return name
	}
	h.naming.Lock()
	defer h.naming.Unlock()
	return h.names[sysfs.PCIID{Vendor: vendor, Device: device}]
}
