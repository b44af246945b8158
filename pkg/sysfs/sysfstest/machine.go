package sysfstest

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing/fstest"
)

// Machine is a host tree in memory: real directories below sys/devices, and relative links to them elsewhere. It is
// read as an fs.FS; os.CopyFS puts it on a disk.
type Machine struct{ fstest.MapFS }

// NewMachine is a machine with a kernel and no devices.
func NewMachine() Machine {
	m := Machine{fstest.MapFS{}}
	m.File("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
	for _, dir := range []string{"sys/bus/pci/devices", "sys/class/net", "sys/block"} {
		m.MapFS[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	}
	m.interfaceAt("sys/devices/virtual/net/lo", map[string]string{"type": "772", "address": "00:00:00:00:00:00"})
	return m
}

// File makes a file; a newline is added as the kernel does.
func (m Machine) File(name, content string) {
	m.MapFS[name] = &fstest.MapFile{Data: []byte(content + "\n"), Mode: 0o444}
}

// Files makes a file for each entry below a directory.
func (m Machine) Files(dir string, files map[string]string) {
	for name, content := range files {
		m.File(path.Join(dir, name), content)
	}
}

// Link makes a relative link at name to a path below the root.
func (m Machine) Link(name, target string) {
	relative, err := filepath.Rel(path.Dir(name), target)
	if err != nil {
		panic(err)
	}
	m.MapFS[name] = &fstest.MapFile{Data: []byte(relative), Mode: fs.ModeSymlink | 0o777}
}

// Remove takes away a path and all below it, with all links that lead there.
func (m Machine) Remove(dir string) {
	for name, file := range m.MapFS {
		gone := name
		if file.Mode&fs.ModeSymlink != 0 {
			gone = path.Join(path.Dir(name), string(file.Data))
		}
		if within(name, dir) || within(gone, dir) {
			delete(m.MapFS, name)
		}
	}
}

func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// SCSIHost adds the host of a storage controller below its function and returns the directory of its attributes.
func (m Machine) SCSIHost(function, name string, attributes map[string]string) string {
	dir := path.Join(function, name, "scsi_host", name)
	m.File(dir+"/state", "running")
	m.Files(dir, attributes)
	m.Link("sys/class/scsi_host/"+name, dir)
	return dir
}

// Function describes a PCI function.
type Function struct {
	// Address is domain:bus:device.function.
	Address string
	// Vendor, Device and Class are hexadecimal without prefix, as in "15b3", "101d" and "020000".
	Vendor, Device, Class string
	// Driver is bound to it when set.
	Driver string
	// Physical is the address of the function this is a virtual function of.
	Physical string
}

// PCI plugs in a function behind a bridge of its own bus and returns its directory.
func (m Machine) PCI(f Function) string {
	dir := pciDir(f.Address)
	m.Files(dir, map[string]string{
		"vendor": "0x" + f.Vendor, "device": "0x" + f.Device, "class": "0x" + f.Class,
		"subsystem_vendor": "0x" + f.Vendor, "subsystem_device": "0x0001",
		"modalias": fmt.Sprintf("pci:v0000%sd0000%ssv0000%[1]ssd00000001bc%.2[3]ssc%.2[4]si%.2[5]s", strings.ToUpper(f.Vendor),
			strings.ToUpper(f.Device), f.Class, f.Class[min(2, len(f.Class)):], f.Class[min(4, len(f.Class)):]),
	})
	m.Link(path.Join("sys/bus/pci/devices", f.Address), dir)
	m.bind(dir, "pci", f.Driver)
	if f.Physical != "" {
		m.Link(path.Join(dir, "physfn"), pciDir(f.Physical))
	}
	return dir
}

func pciDir(address string) string {
	domain := address[:4]
	return fmt.Sprintf("sys/devices/pci%s:00/%s:00:01.0/%s", domain, domain, address)
}

func (m Machine) bind(dir, bus, driver string) {
	m.Link(path.Join(dir, "subsystem"), path.Join("sys/bus", bus))
	if driver != "" {
		m.Link(path.Join(dir, "driver"), path.Join("sys/bus", bus, "drivers", driver))
	}
}

// Interface adds a network interface with a link to a device and returns its directory.
func (m Machine) Interface(device, name string, attributes map[string]string) string {
	dir := path.Join(device, "net", name)
	m.interfaceAt(dir, attributes)
	m.Link(path.Join(dir, "device"), device)
	return dir
}

func (m Machine) interfaceAt(dir string, attributes map[string]string) {
	m.Files(dir, map[string]string{"type": "1", "addr_assign_type": "0", "operstate": "up", "carrier": "1", "dev_port": "0"})
	m.Files(dir, attributes)
	m.Link(path.Join("sys/class/net", path.Base(dir)), dir)
}

// Virtual adds an interface that belongs to no device.
func (m Machine) Virtual(name, address string) {
	m.interfaceAt("sys/devices/virtual/net/"+name, map[string]string{"address": address})
}

// Drive describes an NVMe drive.
type Drive struct {
	// Address of its PCI function, and name of its controller ("nvme0").
	Address, Name string
	// Attributes of the controller beside transport, address and state.
	Attributes map[string]string
	// WWIDs are those of its namespaces, from namespace 1.
	WWIDs []string
}

// NVMe plugs in a drive and returns the directory of its PCI function.
func (m Machine) NVMe(d Drive) string {
	function := m.PCI(Function{Address: d.Address, Vendor: "144d", Device: "a808", Class: "010802", Driver: "nvme"})
	dir := path.Join(function, "nvme", d.Name)
	m.Files(dir, map[string]string{"transport": "pcie", "address": d.Address, "state": "live"})
	m.Files(dir, d.Attributes)
	m.Link(path.Join(dir, "device"), function)
	m.Link(path.Join("sys/class/nvme", d.Name), dir)
	for i, wwid := range d.WWIDs {
		m.Files(path.Join(dir, fmt.Sprintf("%sn%d", d.Name, i+1)), map[string]string{"nsid": fmt.Sprint(i + 1), "wwid": wwid})
	}
	return function
}

// Fabric connects a drive behind a network. Its Address is spelled as sysfs does: "traddr=127.0.0.1,trsvcid=4420".
func (m Machine) Fabric(d Drive) {
	const network = "sys/devices/virtual/nvme-fabrics/ctl"
	m.Link(path.Join(network, "subsystem"), "sys/class/nvme-fabrics")
	dir := path.Join(network, d.Name)
	m.Files(dir, map[string]string{"transport": "tcp", "address": d.Address, "state": "live"})
	m.Files(dir, d.Attributes)
	m.Link(path.Join(dir, "device"), network)
	m.Link(path.Join("sys/class/nvme", d.Name), dir)
	for i, wwid := range d.WWIDs {
		m.Files(path.Join(dir, fmt.Sprintf("%sc0n%d", d.Name, i+1)), map[string]string{"nsid": fmt.Sprint(i + 1), "wwid": wwid})
	}
}

// Disk describes a SCSI disk.
type Disk struct {
	// Below is the directory of the controller or bus it hangs below, such as a PCI function's.
	Below string
	// Address is host:channel:target:lun.
	Address string
	// Attributes such as vendor, model, rev, wwid and type, which is 0 unless given.
	Attributes map[string]string
	// Serial is in the vital product data page 0x80.
	Serial string
	// Generic and Block are its device names.
	Generic, Block string
}

// SCSI plugs in a disk and returns its directory.
func (m Machine) SCSI(d Disk) string {
	host, rest, _ := strings.Cut(d.Address, ":")
	target := rest[:strings.LastIndex(rest, ":")]
	dir := path.Join(d.Below, "host"+host, "target"+host+":"+target, d.Address)
	m.Files(dir, map[string]string{"type": "0"})
	m.Files(dir, d.Attributes)
	m.bind(dir, "scsi", "sd")
	if d.Serial != "" {
		page := append([]byte{0, 0x80, 0, byte(len(d.Serial))}, d.Serial...)
		m.MapFS[path.Join(dir, "vpd_pg80")] = &fstest.MapFile{Data: page, Mode: 0o444}
	}
	entry := path.Join(dir, "scsi_device", d.Address)
	m.Link(path.Join(entry, "device"), dir)
	m.Link(path.Join("sys/class/scsi_device", d.Address), entry)
	if d.Generic != "" {
		m.File(path.Join(dir, "scsi_generic", d.Generic, "dev"), "21:0")
	}
	if d.Block != "" {
		m.File(path.Join(dir, "block", d.Block, "dev"), "8:0")
		m.Link(path.Join(dir, "block", d.Block, "device"), dir)
		m.Link(path.Join("sys/block", d.Block), path.Join(dir, "block", d.Block))
	}
	return dir
}

// Virtio adds a virtio device ("virtio1") below a PCI function or a platform device and returns its directory.
func (m Machine) Virtio(below, name, driver string) string {
	dir := path.Join(below, name)
	m.File(path.Join(dir, "status"), "0x0000000f")
	m.bind(dir, "virtio", driver)
	return dir
}

// Block adds a block device to a device and returns its directory.
func (m Machine) Block(device, name, serial string) string {
	dir := path.Join(device, "block", name)
	m.Files(dir, map[string]string{"serial": serial, "dev": "254:0"})
	m.Link(path.Join(dir, "device"), device)
	m.Link(path.Join("sys/block", name), dir)
	return dir
}

// DMI adds the SMBIOS tables.
func (m Machine) DMI(attributes map[string]string) {
	const dir = "sys/devices/virtual/dmi/id"
	m.Files(dir, attributes)
	m.Link("sys/class/dmi/id", dir)
}
