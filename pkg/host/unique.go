package host

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Unique ids are the best name the hardware has for itself; the place of a device is the last resort, and a name the
// kernel made up is never used.

// maxID bounds a unique id in bytes.
const maxID = 128

// normalizeID makes an id one word of bounded length.
func normalizeID(id string) string {
	id = strings.Join(strings.Fields(id), "-")
	if len(id) <= maxID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return strings.ToValidUTF8(id[:maxID-17], "") + "-" + hex.EncodeToString(sum[:8])
}

// WeakerID reports whether an id identifies a device less reliably than another: it belongs to the slot, or is only a placeholder until a
// driver reads the device. A device may fall back to such an id and recover.
func WeakerID(id, than string) bool { return strength(id) < strength(than) }

func strength(id string) int {
	kind, _, _ := strings.Cut(id, ".")
	switch kind {
	case "pci":
		return 0
	case "board", "devlink", "dsn", "nvme", "scsi", "virtio":
		return 1
	}
	return 2
}

// nicID is the lowest permanent MAC or else port GUID of a card, or else its PCI device serial number. Drivers replace
// it with the base address the card reports.
func (h *Host) nicID(c card) (string, error) {
	var macs, guids []string
	for _, n := range c.interfaces {
		address := n.PermanentAddress()
		switch octets := strings.Split(address, ":"); len(octets) {
		case 6:
			macs = append(macs, address)
		case 20: // IP over InfiniBand: flags, queue pair, subnet prefix, port GUID (RFC 4391)
			guids = append(guids, strings.Join(octets[12:], ""))
		}
	}
	switch {
	case len(macs) > 0:
		return slices.Min(macs), nil
	case len(guids) > 0:
		return slices.Min(guids), nil
	case len(c.functions) == 0:
		d := c.interfaces[0].Device
		return normalizeID(d.Subsystem + "." + path.Base(c.place)), nil
	}
	first := c.functions[0]
	serial, err := sysfs.PCISerialNumber(h.cfg.FS, first)
	if serial != "" {
		return "dsn." + serial, err
	}
	return "pci." + first.Vendor + "-" + first.Device + "." + first.Address.String(), err
}

// nvmeID is the id of the drive's first namespace that has one, or else the name of its subsystem. Ids that were given
// to a namespace when it was made ("uuid.") name the namespace and not the drive.
func nvmeID(c sysfs.NVMeController) string {
	if isRemote(c) && c.SubsystemNQN != "" {
		// Namespaces come some time after the connection, and their ids are often made up by who exports them.
		return normalizeID("nvme." + c.SubsystemNQN)
	}
	for _, n := range c.Namespaces {
		if strings.HasPrefix(n.WWID, "eui.") || strings.HasPrefix(n.WWID, "naa.") {
			return normalizeID(n.WWID)
		}
		if id := cmp.Or(digits(n.NGUID), digits(n.EUI)); id != "" {
			return "eui." + id
		}
	}
	vendor := ""
	if c.Device.Function != nil {
		vendor = c.Device.Function.Vendor
	}
	switch {
	case c.SubsystemNQN != "":
		return normalizeID("nvme." + c.SubsystemNQN)
	case c.Serial != "":
		return normalizeID("nvme." + vendor + "-" + c.Serial + "-" + c.Model)
	}
	return normalizeID("nvme." + nvmePlace(c))
}

// digits are the digits of an id that sysfs spells with blanks or dashes; empty when all are zero.
func digits(id string) string {
	id = strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(id))
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}

// scsiID is the name of the logical unit, or else what the INQUIRY says.
func scsiID(d sysfs.SCSIDisk) string {
	switch {
	case d.WWID != "":
		return normalizeID(d.WWID)
	case d.Serial != "":
		return normalizeID("scsi." + d.Vendor + "-" + d.Model + "-" + d.Serial)
	}
	return normalizeID("scsi." + placeOf(d.Device))
}

func virtioID(d sysfs.VirtioDisk) string {
	return normalizeID("virtio." + cmp.Or(d.Serial, placeOf(d.Device)))
}

// biosID is the UUID of the machine, or else the serial number and model of its main board. Root alone may read
// either, and some vendors forget to set them.
func biosID(d sysfs.DMI) string {
	switch {
	case IsSet(d.ProductUUID):
		return strings.ToLower(d.ProductUUID)
	case IsSet(d.BoardSerial):
		return normalizeID(d.BoardSerial + "-" + d.BoardName)
	}
	return "bios"
}

// IsSet is false for what vendors leave in tables they did not fill in.
func IsSet(s string) bool {
	switch strings.ToLower(s) {
	case "", "none", "not specified", "not settable", "default string", "to be filled by o.e.m.", "system serial number",
		"0123456789", "03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009": // the second UUID in the other byte order
		return false
	}
	return strings.Trim(s, "0-.") != "" && strings.Trim(strings.ToLower(s), "f-") != ""
}

// isRemote reports whether the drive is behind a network.
func isRemote(c sysfs.NVMeController) bool { return c.Transport != "" && c.Transport != pcie }

// nvmePlace is the PCI address, or how a drive behind a network is reached. The address this machine has itself there comes
// and goes with the connection.
func nvmePlace(c sysfs.NVMeController) string {
	if !isRemote(c) || c.Device.Function != nil {
		return placeOf(c.Device)
	}
	fields := slices.DeleteFunc(strings.Split(c.Address, ","), func(s string) bool { return strings.HasPrefix(s, "src_addr=") })
	return strings.Join(append([]string{c.Transport, c.SubsystemNQN}, fields...), ",")
}

// placeOf says where a device is plugged in: its PCI address, or else what carries it. Below a controller it is the way
// from there.
func placeOf(d sysfs.Device) string {
	if d.Function != nil {
		return d.Function.Address.String()
	}
	parts := strings.Split(parent(d), "/")
	for i := len(parts) - 1; i > 0; i-- {
		if _, err := inventory.ParsePCIAddress(parts[i]); err == nil {
			return strings.Join(parts[i:], "/")
		}
	}
	return path.Base(parent(d))
}
