package admin

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of linux/nvme_ioctl.h.
const (
	ioctlAdminCommand = 0xc0484e41 // _IOWR('N', 0x41, struct nvme_passthru_cmd)
	ioctlReset        = 0x4e44     // _IO('N', 0x44)
)

// Errors of a controller that did not answer.
var (
	// ErrGone: the kernel has no such drive, or has lost it since it was opened.
	ErrGone = errors.New("the drive is gone")
	// ErrNotReady: the controller is being reset or connected again. The kernel ends commands in flight with EINTR then.
	ErrNotReady = errors.New("the controller is not ready")
)

// controllerName matches controllers only: no namespaces and no path that leaves /dev.
var controllerName = regexp.MustCompile(`^nvme(0|[1-9]\d{0,5})$`)

// device is a controller of the running kernel.
type device struct {
	fd   int
	path string
}

// Open opens a controller of the running kernel.
func Open(node string) (Controller, error) {
	if !controllerName.MatchString(node) {
		return nil, fmt.Errorf("open NVMe controller %q: want a name such as nvme0", node)
	}
	table, err := os.ReadFile("/proc/devices")
	if err != nil {
		return nil, fmt.Errorf("read the kernel's drivers: %w", err)
	}
	major, found := characterMajor(string(table), "nvme")
	if !found {
		return nil, fmt.Errorf("open /dev/%s: the kernel's NVMe driver is not loaded: %w", node, ErrGone)
	}
	d, err := openFile("/dev/"+node, major)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// openFile opens a file and checks that it is a character device of the driver.
func openFile(path string, major uint32) (*device, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, reason(err))
	}
	d := &device{fd: fd, path: path}
	var stat unix.Stat_t
	switch err := unix.Fstat(fd, &stat); {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("stat %s: %w", path, err), d.Close())
	case stat.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(stat.Rdev) != major:
		return nil, errors.Join(fmt.Errorf("open %s: it is not a character device of the kernel's NVMe driver", path), d.Close())
	}
	return d, nil
}

// characterMajor finds the number of a driver of character devices in /proc/devices.
func characterMajor(table, driver string) (major uint32, found bool) {
	_, characters, _ := strings.Cut(table, "Character devices:\n")
	characters, _, _ = strings.Cut(characters, "\n\n")
	for line := range strings.Lines(characters) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != driver {
			continue
		}
		n, err := strconv.ParseUint(fields[0], 10, 32)
		return uint32(n), err == nil
	}
	return 0, false
}

// Do implements Controller. It returns when the kernel does, which for a drive that hangs may be never.
func (d *device) Do(c *Command, data []byte) (Status, error) {
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(c)
	if len(data) > 0 {
		pinned.Pin(&data[0])
		c.Data, c.DataLength = uint64(uintptr(unsafe.Pointer(&data[0]))), uint32(len(data))
	}
	status, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), ioctlAdminCommand, uintptr(unsafe.Pointer(c)))
	c.Data = 0
	if errno != 0 {
		return 0, fmt.Errorf("send command %#02x to %s: %w", c.Opcode, d.path, reason(errno))
	}
	return CleanStatus(uint64(status)), nil
}

// Reset implements Controller.
func (d *device) Reset() error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), ioctlReset, 0); errno != 0 {
		return fmt.Errorf("reset %s: %w", d.path, reason(errno))
	}
	return nil
}

// Close implements Controller.
func (d *device) Close() error { return unix.Close(d.fd) }

// reason maps an error number of the kernel's NVMe driver to ErrGone or ErrNotReady. Others, such as missing permissions,
// stay as they are.
func reason(err error) error {
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w (%w)", ErrGone, err)
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETRESET), errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w (%w)", ErrNotReady, err)
	}
	return err
}

// Command is one admin command, laid out as the kernel's struct nvme_passthru_cmd (linux/nvme_ioctl.h).
type Command struct {
	Opcode, Flags       uint8
	_                   uint16
	Namespace           uint32
	CDW2, CDW3          uint32
	Metadata, Data      uint64
	MetadataLength      uint32
	DataLength          uint32
	CDW10, CDW11, CDW12 uint32
	CDW13, CDW14, CDW15 uint32
	TimeoutMilliseconds uint32
	Result              uint32
}

// Opcodes of the admin commands that are used (NVMe Base Specification 2.0, figure 138).
const (
	OpcodeGetLogPage       = 0x02
	OpcodeIdentify         = 0x06
	OpcodeFirmwareCommit   = 0x10
	OpcodeFirmwareDownload = 0x11
)

// Action is the Commit Action of Firmware Commit (NVMe Base Specification 2.0, figure 177).
type Action uint8

// The actions that are used.
const (
	// ReplaceAtReset stores the downloaded image in the slot, to run after the next reset.
	ReplaceAtReset Action = 1
	// ActivateAtReset makes the image that the slot holds the one to run after the next reset.
	ActivateAtReset Action = 2
	// ActivateNow makes the image that the slot holds run at once, without a reset.
	ActivateNow Action = 3
)

// Controller is an open NVMe controller.
type Controller interface {
	// Do sends a command with the buffer that it reads data from or writes data to. The status is the drive's answer; an error
	// means that there is no answer.
	Do(c *Command, data []byte) (Status, error)
	// Reset resets the controller and waits until it is ready.
	Reset() error
	Close() error
}

// Opener opens the controller with a kernel's name such as "nvme0".
type Opener func(node string) (Controller, error)

// The kernel resets a controller whose command exceeds its timeout, so these are long: a caller that cannot wait abandons the
// command instead. The timeout of reads is the kernel's own default; those of writes leave time to erase flash.
const (
	readTimeout     = time.Minute
	downloadTimeout = 3 * time.Minute
	commitTimeout   = 10 * time.Minute
)

const (
	identifySize   = 4096
	logSize        = 512
	healthLogPage  = 2
	slotLogPage    = 3
	allNamespaces  = 0xffffffff
	identifyThis   = 1 // CNS 01h: the controller that processes the command
	bytesPerDword  = 4
	actionPosition = 3
)

// Identify reads the Identify Controller data.
func Identify(c Controller) (Identification, error) {
	data := make([]byte, identifySize)
	err := read(c, "identify controller", Command{Opcode: OpcodeIdentify, CDW10: identifyThis}, data)
	if err != nil {
		return Identification{}, err
	}
	return ParseIdentify(data)
}

// ReadSlotLog reads the Firmware Slot Information log.
func ReadSlotLog(c Controller) (SlotLog, error) {
	data, err := readLog(c, "read firmware slot log", slotLogPage)
	if err != nil {
		return SlotLog{}, err
	}
	return ParseSlotLog(data)
}

// ReadPowerOnHours reads the hours for which the drive was powered on from the SMART / Health Information log.
func ReadPowerOnHours(c Controller) (int64, error) {
	data, err := readLog(c, "read health log", healthLogPage)
	if err != nil {
		return 0, err
	}
	return ParsePowerOnHours(data)
}

func readLog(c Controller, operation string, page uint32) ([]byte, error) {
	data := make([]byte, logSize)
	return data, read(c, operation, Command{Opcode: OpcodeGetLogPage, Namespace: allNamespaces, CDW10: page | (logSize/bytesPerDword-1)<<16}, data)
}

func read(c Controller, operation string, cmd Command, data []byte) error {
	cmd.TimeoutMilliseconds = milliseconds(readTimeout)
	status, err := c.Do(&cmd, data)
	if err == nil && status != Success {
		err = &StatusError{Operation: operation, Status: status}
	}
	return err
}

// Download transfers a piece of an image to the drive's buffer. Its length and its offset are multiples of four bytes.
func Download(c Controller, piece []byte, offset int) (Status, error) {
	return c.Do(&Command{
		Opcode: OpcodeFirmwareDownload,
		CDW10:  uint32(len(piece)/bytesPerDword - 1), CDW11: uint32(offset / bytesPerDword),
		TimeoutMilliseconds: milliseconds(downloadTimeout),
	}, piece)
}

// Commit sends a Firmware Commit with the action for the slot.
func Commit(c Controller, slot int, action Action) (Status, error) {
	return c.Do(&Command{
		Opcode: OpcodeFirmwareCommit, CDW10: uint32(slot) | uint32(action)<<actionPosition,
		TimeoutMilliseconds: milliseconds(commitTimeout),
	}, nil)
}

func milliseconds(d time.Duration) uint32 { return uint32(d.Milliseconds()) }
