package simhost

import (
	"crypto/sha1"
	"fmt"
	"slices"
	"time"
)

// Spec describes the hardware of a machine. The zero value of a list means there is no such part.
type Spec struct {
	// Name is the host name.
	Name   string
	System System
	BIOS   BIOS
	// ESPs are the EFI system partitions that are mounted. The machine booted from the first, and looks for capsules there.
	ESPs []ESP `json:",omitempty"`
	NICs []NIC
	NVMe []NVMe
	SCSI []SCSI
	SATA []SATA
	// Virtual is a virtual machine: lscpu names its hypervisor, and some tools refuse their work.
	Virtual bool `json:",omitempty"`
	// SecureBoot is a machine whose firmware verifies what it boots.
	SecureBoot bool `json:",omitempty"`
	// Lockdown is the level of the kernel's lockdown, "integrity" or "confidentiality": programs cannot write to PCI
	// configuration spaces then. Empty for a kernel without it.
	Lockdown string `json:",omitempty"`
	// Uplink is the key of the NIC whose first port leads to the machine's default gateway; empty for a machine without one.
	Uplink string `json:",omitempty"`
	// Controller has the SCSI disks behind it; nil for the ports of the chipset.
	Controller *Controller `json:",omitempty"`
	// WriteTime is how long writing one image takes, and ResetTime how long a reset of one device takes.
	WriteTime, ResetTime time.Duration
}

// System is the content of the machine's DMI tables.
type System struct {
	Vendor, Product, Serial, UUID string
}

// Activation is what a stored image of a part needs before it runs.
type Activation string

// The kinds of activation a part can have. DeviceReset parts are activated by reboots too, and Reboot parts by
// power-cycles.
const (
	DeviceReset Activation = "DeviceReset"
	Reboot      Activation = "Reboot"
	PowerCycle  Activation = "PowerCycle"
)

// NIC is an NVIDIA network adapter. Every port is a PCI function of its own.
type NIC struct {
	// Key names the card in this package, such as "nic0".
	Key string
	// Slot is the PCI address without function, such as "0000:3b:00".
	Slot                  string
	DeviceID, SubsystemID string
	Model, PartNumber     string
	PSID, Serial          string
	BaseGUID, BaseMAC     uint64
	Ports                 []Port
	Version               string
	Activation            Activation
	// Secure firmware does not allow its image to be read, and accepts no other while one waits for activation.
	Secure bool `json:",omitempty"`
	// LivePatch says that the stored image can be loaded while the links stay up.
	LivePatch bool `json:",omitempty"`
	// VFs is the number of virtual functions of the first port that the machine makes when it boots.
	VFs int `json:",omitempty"`
	// Second is the other half of a Socket-Direct card: functions of the same card on a second root of the machine.
	Second *Half `json:",omitempty"`
	// MultiHost cards are reset only when all their hosts ask for it.
	MultiHost bool `json:",omitempty"`
	// Mode is that of a BlueField when the machine is made, NextMode the one after the next reset or boot; both are empty for
	// other cards.
	Mode, NextMode Mode `json:",omitempty"`
	// FlashResets says that other firmware begins with the defaults of all settings. ColdSettings are loaded by a power cycle alone: the
	// firmware cannot be told to load them with a warm boot.
	FlashResets  bool `json:",omitempty"`
	ColdSettings bool `json:",omitempty"`
	// Foreign is a kernel driver that has the card's second function instead of its own, such as "vfio-pci".
	Foreign string `json:",omitempty"`
}

// Half is a part of a Socket-Direct card.
type Half struct {
	// Slot is the PCI address without function.
	Slot  string
	Ports []Port
}

// Mode says who owns the adapter of a BlueField: the processors on the card, or the host.
type Mode string

// The modes of a BlueField.
const (
	DPUMode Mode = "DPU"
	NICMode Mode = "NIC"
)

// Port is one port of a NIC.
type Port struct {
	NetDevice string
}

// NVMe is an NVMe drive with one controller and one namespace.
type NVMe struct {
	// Key is also the kernel's name of the controller, such as "nvme0".
	Key, PCI           string
	VendorID, DeviceID string
	Vendor             string
	Model, Serial      string
	// EUI is the namespace's EUI-64, 16 hexadecimal digits.
	EUI string
	// Slots is the number of firmware slots, 1 to 7; Slot1ReadOnly protects the first.
	Slots         int
	Slot1ReadOnly bool
	// HidesNext drives do not report which slot runs after the next reset.
	HidesNext  bool
	Version    string
	Activation Activation
	// Sanitizes are the bits 2:0 of SANICAP: 1 for crypto erase, 2 for block erase, 4 for overwrite. SanitizeSteps is how many readings of
	// its log a sanitize takes.
	Sanitizes     byte `json:",omitempty"`
	SanitizeSteps int  `json:",omitempty"`
	// TwoPorts drives may be used by another host.
	TwoPorts bool `json:",omitempty"`
	// Sectors is the capacity in units of 512 bytes.
	Sectors int64
	// PowerOnHours is what the drive counted so far.
	PowerOnHours int64 `json:",omitempty"`
}

// Controller is a Broadcom storage controller. It is only listed: no tool reads or writes it.
type Controller struct {
	// PCI is the address of its function; DeviceID four lower-case hexadecimal digits.
	PCI, DeviceID string
	// RAID controllers use the driver megaraid_sas, which reports nothing about them; others use mpt3sas.
	RAID bool
	// SASAddress is 16 hexadecimal digits.
	SASAddress                string
	Model, PartNumber, Serial string
}

// SCSI is a disk behind the machine's SAS controller.
type SCSI struct {
	// Key is also the kernel's name of the disk, such as "sda"; Generic is its sg device, such as "sg0".
	Key, Generic string
	// Address is host:channel:target:lun.
	Address               string
	Vendor, Model, Serial string
	// WWN is the NAA identifier of the logical unit, 16 hexadecimal digits.
	WWN string
	// Version is the revision, at most four characters.
	Version    string
	Activation Activation
	// Modes are the modes of WRITE BUFFER the disk takes; without any, those that download with offsets and, where
	// Activation is DeviceReset, the one that activates.
	Modes []int `json:",omitempty"`
	// NoServiceActions disks report whether they take WRITE BUFFER, and refuse to report it for single modes.
	NoServiceActions bool `json:",omitempty"`
	// Events are the events that can activate microcode of mode 0x0d: 4 power-on and 2 hard reset.
	Events int `json:",omitempty"`
	// ListsModes disks list their modes in the page of extended INQUIRY data, which NoExtended ones do not have.
	ListsModes, NoExtended bool `json:",omitempty"`
	// Boundary is the power of two that the offsets of pieces are multiples of, 0xff for none but 0, and Capacity the largest
	// piece in bytes. 0 is 512 bytes, and 1 MiB. NoDescriptor disks have such bounds and do not report them.
	Boundary, Capacity int  `json:",omitempty"`
	NoDescriptor       bool `json:",omitempty"`
	Sectors            int64
	// PowerOnHours is what the disk counted so far; one with 0 has no such log page.
	PowerOnHours int64 `json:",omitempty"`
	// Sanitizes are the service actions of SANITIZE that the disk supports, and SanitizeSteps how many readings of its sense data one takes; with 0 it is done
	// before anybody can see it.
	Sanitizes     []int `json:",omitempty"`
	SanitizeSteps int   `json:",omitempty"`
	// NoOpcodes disks do not answer which commands they support.
	NoOpcodes bool `json:",omitempty"`
	// Solid disks do not rotate. WriteAfterErase is byte 7 of the page of block device characteristics: WABEREQ and WACEREQ. A disk with neither does not
	// have the page.
	Solid           bool `json:",omitempty"`
	WriteAfterErase byte `json:",omitempty"`
	// Keys is how many keys for persistent reservations are registered, and MoreUnits how many logical units the disk has besides this one.
	Keys, MoreUnits int `json:",omitempty"`
}

// BIOS is an UEFI system firmware with an ESRT.
type BIOS struct {
	Vendor string
	// Version and LowestVersion are triplets such as "2.19.1", the format the ESRT packs into 32 bits.
	Version, LowestVersion string
	// GUID is the fw_class of the ESRT entry.
	GUID string
	// Problems are fwupd's names of the problems that prevent an update of the firmware.
	Problems []string `json:",omitempty"`
	// NoCapsules firmware does not look for capsules on disk.
	NoCapsules bool `json:",omitempty"`
}

// ESP is an EFI system partition that is mounted.
type ESP struct {
	// Path is where, Number the major:minor of its block device, and ID the one of its entry in a GPT, in lower case.
	Path, Number, ID string
	// ReadOnly is how it is mounted. Full partitions have no room for a capsule.
	ReadOnly, Full bool `json:",omitempty"`
}

// DefaultESP is the partition of a machine; it is unique per machine.
func DefaultESP(index int) ESP {
	return ESP{Path: "/boot/efi", Number: "8:1", ID: fmt.Sprintf("0f1e2d3c-4b5a-6978-8796-a5b4c3%06x", index)}
}

// SATA is a drive behind the machine's AHCI controller.
type SATA struct {
	// Key is also the kernel's name of the drive, such as "sdb"; Generic is its sg device, such as "sg1".
	Key, Generic string
	// Address is host:channel:target:lun.
	Address string
	// Vendor is the one fwupd derives from the model.
	Vendor, Model, Serial string
	// WWN is the NAA identifier, 16 hexadecimal digits.
	WWN string
	// Version has at most eight characters.
	Version    string
	Activation Activation
	// Immediate drives activate microcode as soon as it is downloaded.
	Immediate bool `json:",omitempty"`
	// NoDownload drives take no microcode.
	NoDownload bool `json:",omitempty"`
	// Problems are fwupd's names of the problems that prevent an update of the drive.
	Problems []string `json:",omitempty"`
	Sectors  int64
}

// DefaultSATA is a drive for a machine that has none; it is unique per machine.
func DefaultSATA(index int) SATA {
	return SATA{
		Key: "sdb", Generic: "sg1", Address: "1:0:0:0", Vendor: "Micron", Model: "Micron_5400_MTFDDAK960TGA",
		Serial: fmt.Sprintf("2312%08X", index), WWN: fmt.Sprintf("500a0751%08x", index), Version: DefaultSATAVersion,
		Activation: DeviceReset, Sectors: 1875385008,
	}
}

func (n NIC) key() string  { return n.Key }
func (n NVMe) key() string { return n.Key }
func (s SCSI) key() string { return s.Key }
func (s SATA) key() string { return s.Key }

// BIOSKey is the key of the system firmware.
const BIOSKey = "bios"

// The versions DefaultSpec starts with.
const (
	DefaultCX6Version     = "22.39.1002"
	DefaultCX7Version     = "28.39.1002"
	DefaultSamsungVersion = "GDC5602Q"
	DefaultMicronVersion  = "E2MU200"
	DefaultSASVersion     = "E004"
	DefaultSATAVersion    = "D4MU001"
	DefaultBIOSVersion    = "2.10.2"
)

// DefaultSpec is a server with a ConnectX-6 Dx that activates by a reset, a ConnectX-7 that needs a reboot, an NVMe
// drive that activates by a controller reset, one that needs a reboot, a SAS disk, and an UEFI BIOS. Serial numbers,
// addresses and WWNs are unique for an index from 0 to 65535.
func DefaultSpec(name string, index int) Spec {
	id := uint64(index)
	return Spec{
		Name: name,
		System: System{
			Vendor: "Lenovo", Product: "ThinkSystem SR650 V2", Serial: fmt.Sprintf("J30%05X", index),
			UUID: fmt.Sprintf("4c4c4544-0051-3510-8057-b4c04f%06x", index),
		},
		BIOS: BIOS{
			Vendor: "Lenovo", Version: DefaultBIOSVersion, LowestVersion: "2.0.0",
			GUID: "39a1ba52-95ee-4c1c-8d0f-b2b4ec3f1c9e",
		},
		ESPs: []ESP{DefaultESP(index)},
		NICs: []NIC{
			{
				Key: "nic0", Slot: "0000:3b:00", DeviceID: "101d", SubsystemID: "0016",
				Model:      "ConnectX-6 Dx EN adapter card; 100GbE; Dual-port QSFP56; PCIe 4.0 x16; No Crypto",
				PartNumber: "MCX623106AN-CDA_Ax", PSID: "MT_0000000359", Serial: fmt.Sprintf("MT2135X%05X", index*2),
				BaseGUID: 0xb83fd20300000000 | id<<4, BaseMAC: 0xb83fd2000000 | id<<4,
				Ports:   []Port{{NetDevice: "ens1f0np0"}, {NetDevice: "ens1f1np1"}},
				Version: DefaultCX6Version, Activation: DeviceReset,
			},
			{
				Key: "nic1", Slot: "0000:5e:00", DeviceID: "1021", SubsystemID: "0041",
				Model:      "ConnectX-7 HHHL Adapter card; 200GbE; Dual-port QSFP112; PCIe 5.0 x16; Crypto Disabled",
				PartNumber: "MCX755106AS-HEA_Ax", PSID: "MT_0000000834", Serial: fmt.Sprintf("MT2251X%05X", index*2+1),
				BaseGUID: 0x946dae0300000000 | id<<4, BaseMAC: 0x946dae000000 | id<<4,
				Ports:   []Port{{NetDevice: "ens2f0np0"}, {NetDevice: "ens2f1np1"}},
				Version: DefaultCX7Version, Activation: Reboot,
			},
		},
		Uplink: "nic0",
		NVMe: []NVMe{
			{
				Key: "nvme0", PCI: "0000:65:00.0", VendorID: "144d", DeviceID: "a824", Vendor: "Samsung",
				Model: "SAMSUNG MZQL23T8HCLS-00A07", Serial: fmt.Sprintf("S64HNE0T%06d", index*2),
				EUI: fmt.Sprintf("36344830545%05x", index), Slots: 3, Version: DefaultSamsungVersion,
				Activation: DeviceReset, Sectors: 7501476528, PowerOnHours: 9125 + int64(index)*7, Sanitizes: 3, SanitizeSteps: 4,
			},
			{
				Key: "nvme1", PCI: "0000:67:00.0", VendorID: "1344", DeviceID: "51c0", Vendor: "Micron",
				Model: "Micron_7450_MTFDKCC3T8TFR", Serial: fmt.Sprintf("2239E65%05X", index*2+1),
				EUI: fmt.Sprintf("00a075013ce%05x", index), Slots: 3, Slot1ReadOnly: true, Version: DefaultMicronVersion,
				Activation: Reboot, Sectors: 7501476528, PowerOnHours: 9125 + int64(index)*7, Sanitizes: 7, SanitizeSteps: 4,
			},
		},
		SCSI: []SCSI{{
			Key: "sda", Generic: "sg0", Address: "0:0:0:0", Vendor: "SEAGATE", Model: "ST16000NM006J",
			Serial: fmt.Sprintf("ZR5%05X0000C2048", index), WWN: fmt.Sprintf("5000c500d%07x", index<<4),
			Version: DefaultSASVersion, Activation: DeviceReset, Sectors: 31251759104, PowerOnHours: 31204 + int64(index)*7,
			Sanitizes: []int{sanitizeOverwrite, sanitizeCrypto, sanitizeExit}, SanitizeSteps: 4,
		}},
		WriteTime: 300 * time.Millisecond,
		ResetTime: 50 * time.Millisecond,
	}
}

// DeviceID is fwupd's id of the system firmware, the SHA-1 of where it lives.
func (b BIOS) DeviceID() string {
	return fmt.Sprintf("%x", sha1.Sum([]byte("UEFI-"+b.GUID+"-0")))
}

func (s Spec) keys() []string {
	keys := []string{BIOSKey}
	for _, n := range s.NICs {
		keys = append(keys, n.Key)
	}
	for _, n := range s.NVMe {
		keys = append(keys, n.Key)
	}
	for _, d := range s.SCSI {
		keys = append(keys, d.Key)
	}
	for _, d := range s.SATA {
		keys = append(keys, d.Key)
	}
	return keys
}

func (s Spec) validate() error {
	seen := map[string]bool{}
	for _, k := range s.keys() {
		if k == "" || seen[k] {
			return fmt.Errorf("check spec of %s: key %q is empty or used twice", s.Name, k)
		}
		seen[k] = true
	}
	if _, err := packTriplet(s.BIOS.Version); err != nil {
		return fmt.Errorf("check spec of %s: %w", s.Name, err)
	}
	if s.Uplink != "" && !slices.ContainsFunc(s.NICs, func(n NIC) bool { return n.Key == s.Uplink && len(n.Ports) > 0 }) {
		return fmt.Errorf("check spec of %s: the uplink %q is no NIC with a port", s.Name, s.Uplink)
	}
	for _, n := range s.NVMe {
		if n.Slots < 1 || n.Slots > 7 {
			return fmt.Errorf("check spec of %s: %s has %d firmware slots, want 1 to 7", s.Name, n.Key, n.Slots)
		}
	}
	return nil
}
