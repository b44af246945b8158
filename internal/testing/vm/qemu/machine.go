package qemu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// Program is the program that emulates the machine.
const Program = "qemu-system-x86_64"

// Options are what one machine has beside the parts that all of them have: a chipset, two processors, a network adapter, an NVMe drive,
// and the names in its firmware tables.
type Options struct {
	// Dir is the directory for the console's log and QEMU's own.
	Dir string
	// Kernel and Initrd are files of this machine; CommandLine is the kernel's.
	Kernel, Initrd, CommandLine string
	// Firmware is a file with the machine's system firmware, such as OVMF; empty for QEMU's own, which is no UEFI.
	Firmware string
	// Memory in MiB.
	Memory int
	// Network is what the adapter is connected to: QEMU's -netdev without an id.
	Network string
	// TPM is the socket of a program that emulates a TPM; empty for a machine without one.
	TPM string
	// Disks are virtio disks, the first one /dev/vda.
	Disks []Disk
}

// Disk is a disk of the machine, on a file of this one.
type Disk struct {
	File, Serial string
	// Format of the file; empty for raw.
	Format string
	// Durable disks keep what the machine flushed when QEMU is killed, as a disk does when the power is cut.
	Durable bool

	nvme bool
}

// NVMeSerial is the serial number of the NVMe drive, whose file is in the directory of the machine.
const NVMeSerial = "LABNVME1"

// Machine is a running virtual machine. Kill ends it like a power cut.
type Machine struct {
	*child.Process
	console string
}

// Start starts the machine; it has not booted when this returns.
func Start(o Options) (*Machine, error) {
	console, nvme := filepath.Join(o.Dir, "console.log"), Disk{File: filepath.Join(o.Dir, "nvme.img"), Serial: NVMeSerial, nvme: true}
	if err := MakeDisk(nvme.File, 64<<20); err != nil {
		return nil, err
	}
	o.Disks = append(slices.Clone(o.Disks), nvme)
	p, err := child.Start("machine", filepath.Join(o.Dir, "qemu.log"), rootfs.Tool(Program), o.arguments(console)...)
	if err != nil {
		return nil, err
	}
	return &Machine{p, console}, nil
}

// arguments of QEMU: processors emulated in software, so that it runs wherever its program does.
func (o Options) arguments(console string) []string {
	args := []string{
		"-nodefaults", "-no-user-config", "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max", "-smp", "2",
		"-m", strconv.Itoa(o.Memory), "-display", "none",
		"-chardev", "file,id=console,append=on,path=" + Quoted(console), "-serial", "chardev:console",
		"-kernel", o.Kernel, "-initrd", o.Initrd, "-append", "console=ttyS0 panic=-1 quiet " + o.CommandLine,
		"-smbios", "type=0,vendor=LabFirmware,version=1.0", "-smbios", "type=1,manufacturer=NodeFirmware,product=LabMachine,serial=LAB0001",
	}
	if o.Firmware != "" {
		args = append(args, "-bios", o.Firmware)
	}
	if o.TPM != "" {
		args = append(args, "-chardev", "socket,id=tpm,path="+Quoted(o.TPM), "-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device", "tpm-tis,tpmdev=tpm0")
	}
	args = append(args, "-netdev", o.Network+",id=net0", "-device", "virtio-net-pci,netdev=net0,mac=52:54:00:00:00:01,romfile=")
	for i, d := range o.Disks {
		args = append(args, d.arguments(fmt.Sprintf("disk%d", i))...)
	}
	return args
}

func (d Disk) arguments(id string) []string {
	format, cache, kind := d.Format, "unsafe", "virtio-blk-pci"
	if format == "" {
		format = "raw"
	}
	if d.Durable {
		cache = "writeback"
	}
	if d.nvme {
		kind = "nvme"
	}
	return []string{
		"-drive", fmt.Sprintf("if=none,id=%s,format=%s,cache=%s,file=%s", id, format, cache, Quoted(d.File)),
		"-device", fmt.Sprintf("%s,drive=%s,serial=%s", kind, id, d.Serial),
	}
}

// Quoted is a path as a value of one of QEMU's lists of options.
func Quoted(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// Console is the file with what the machine printed on its console, at all its boots.
func (m *Machine) Console() string { return m.console }

// MakeDisk makes an empty disk of this size in bytes. One that is there is kept.
func MakeDisk(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	return errors.Join(file.Truncate(size), file.Close())
}
