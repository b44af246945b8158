package pci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Tool is the name of the tool of this package.
const Tool = "firmware-pci"

// The attributes of a function (Documentation/ABI/testing/sysfs-bus-pci).
const (
	numVFs    = "sriov_numvfs"
	autoprobe = "sriov_drivers_autoprobe"
	// readRequest is no file: it is a part of the register Device Control, which the kernel's functions call so (pcie_set_readrq).
	readRequest = "readrq"
)

// Host is a machine whose kernel is asked by files.
type Host interface {
	fs.FS
	// Store gives an attribute a value.
	Store(name, value string) error
	// StoreAt writes a part of a binary attribute.
	StoreAt(name string, offset int64, data []byte) error
}

// Main is the tool firmware-pci, on the kernel it runs on.
func Main(_ context.Context, args []string, stdout, stderr io.Writer) int {
	return Program{Open: func(root string) Host { return sysfs.DirFS(root) }}.Run(args, stdout, stderr)
}

// Program is the tool firmware-pci:
//
//	firmware-pci set ROOT ADDRESS sriov_numvfs NUMBER
//	firmware-pci set ROOT ADDRESS sriov_drivers_autoprobe 0|1
//	firmware-pci set ROOT ADDRESS readrq BYTES
//
// The kernel finishes a change whatever happens to the process, and between two changes the function has no virtual functions, so the
// program ignores signals.
type Program struct {
	// Open returns the host whose "/" is a directory of this machine.
	Open func(root string) Host
}

// Run returns the exit code, one of those of owntool.
func (p Program) Run(args []string, stdout, stderr io.Writer) int {
	return owntool.Run(stdout, stderr, func() (owntool.Action, error) { return p.parse(args) })
}

func (p Program) parse(args []string) (owntool.Action, error) {
	if len(args) != 5 || args[0] != "set" || !slices.Contains([]string{numVFs, autoprobe, readRequest}, args[3]) {
		return nil, fmt.Errorf("use: %s set ROOT ADDRESS %s|%s|%s NUMBER", Tool, numVFs, autoprobe, readRequest)
	}
	address, err := inventory.ParsePCIAddress(args[2])
	value, notANumber := strconv.ParseUint(args[4], 10, 16) // the kernel's type of the number
	if err := errors.Join(err, notANumber); err != nil {
		return nil, err
	}
	return func(say func(string)) (err error) {
		f := function{p.Open(args[1]), address}
		switch args[3] {
		case numVFs:
			err = f.setNumVFs(int(value))
		case autoprobe:
			err = f.store(autoprobe, int(value))
		case readRequest:
			err = f.setReadRequest(int(value))
		}
		if err == nil {
			say(fmt.Sprintf("set %s of %s to %d", args[3], address, value))
		}
		return err
	}, nil
}

// function is a physical function of a host.
type function struct {
	host    Host
	address inventory.PCIAddress
}

// store writes an attribute. Errors are those of sriov_numvfs_store and of the driver's sriov_configure (drivers/pci/iov.c).
func (f function) store(name string, value int) error {
	err := f.host.Store(path.Join("sys/bus/pci/devices", f.address.String(), name), strconv.Itoa(value)+"\n")
	switch {
	case errors.Is(err, syscall.ERANGE):
		return owntool.Rejectf("%s takes fewer virtual functions than %d", f.address, value)
	case errors.Is(err, syscall.ENOENT):
		return owntool.Rejectf("%s has no kernel driver, or one that makes no virtual functions", f.address)
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC):
		return owntool.Rejectf("the kernel driver of %s does not take %d for %s: %v (dmesg on the node says why)", f.address, value, name, err)
	}
	return err
}

// setNumVFs changes how many virtual functions there are. From one number to another the kernel takes only 0 between. If the new number fails, the
// port gets the old one again, also where its driver made fewer than were asked for.
func (f function) setNumVFs(want int) error {
	before, err := f.numVFs()
	if err != nil || before == want {
		return err
	}
	if before > 0 {
		users, _, err := uses(f.host, f.address)
		switch {
		case err != nil:
			return err
		case users != "":
			return inUse(f.address, before, users)
		}
		if err := f.makeVFs(0); err != nil {
			return err
		}
	}
	if want == 0 {
		return nil
	}
	if err = f.makeVFs(want); err == nil {
		return nil
	}
	now, again := f.numVFs()
	switch {
	case again == nil && now == before:
		return err
	case again == nil && now > 0:
		again = f.makeVFs(0)
	}
	if again == nil && before > 0 {
		again = f.makeVFs(before)
	}
	if again != nil {
		return fmt.Errorf("%w; nor can it have %d again, as before: %s", err, before, again.Error())
	}
	return fmt.Errorf("%w; it has %d again, as before", err, before)
}

func inUse(address inventory.PCIAddress, before int, users string) error {
	return owntool.Rejectf("InUse: the %d virtual functions of %s would be removed, and are used: %s: stop what uses them", before, address, users)
}

// makeVFs has the driver make a number of virtual functions, and reads how many there are: a driver may make fewer, and says so to the log of
// the kernel alone.
func (f function) makeVFs(want int) error {
	if err := f.store(numVFs, want); err != nil {
		return err
	}
	now, err := f.numVFs()
	if err == nil && now != want {
		return owntool.Rejectf("the kernel driver of %s made %d virtual functions instead of %d (dmesg on the node says why)", f.address, now, want)
	}
	return err
}

func (f function) numVFs() (int, error) {
	state, err := sysfs.ReadSRIOV(f.host, f.address)
	switch {
	case err != nil:
		return 0, err
	case state == nil:
		return 0, owntool.Rejectf("%s cannot have virtual functions", f.address)
	}
	return state.NumVFs, nil
}

// setReadRequest changes the limit of the function's read requests, by one byte: the kernel changes the other half of the register.
func (f function) setReadRequest(want int) error {
	before, err := sysfs.MaxReadRequest(f.host, f.address)
	switch {
	case err != nil:
		return err
	case before == nil:
		return owntool.Rejectf("%s has no limit of read requests", f.address)
	}
	control, err := before.With(want)
	if err != nil {
		return owntool.Rejection(err.Error())
	}
	err = f.host.StoreAt(path.Join("sys/bus/pci/devices", f.address.String(), "config"), before.At, []byte{control})
	if errors.Is(err, fs.ErrPermission) {
		return owntool.Rejectf("the kernel does not let the configuration space of %s be written: %v", f.address, err)
	}
	if err != nil {
		return err
	}
	after, err := sysfs.MaxReadRequest(f.host, f.address)
	switch {
	case err != nil:
		return err
	case after == nil || after.Bytes != want:
		return owntool.Rejectf("%s did not take %d bytes as the limit of its read requests", f.address, want)
	}
	return nil
}

func setCommand(root string, address inventory.PCIAddress, name, value, lock string) command.Command {
	return command.Command{Argv: []string{Tool, "set", root, address.String(), name, value}, Kind: command.Write, Lock: lock}
}
