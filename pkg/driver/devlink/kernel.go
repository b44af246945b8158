package devlink

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
)

// Numbers of include/uapi/linux/devlink.h.
const (
	cmdEswitchGet        = 29
	cmdReload            = 37
	cmdParamGet          = 38
	cmdParamSet          = 39
	cmdInfoGet           = 51
	cmdFlashUpdate       = 58
	cmdFlashUpdateEnd    = 59
	cmdFlashUpdateStatus = 60

	attrBusName                = 1
	attrDevName                = 2
	attrParam                  = 80
	attrParamName              = 81
	attrParamType              = 83
	attrParamValues            = 84
	attrParamValue             = 85
	attrParamValueData         = 86
	attrParamValueMode         = 87
	attrInfoDriverName         = 98
	attrInfoSerialNumber       = 99
	attrInfoVersionFixed       = 100
	attrInfoVersionRunning     = 101
	attrInfoVersionStored      = 102
	attrInfoVersionName        = 103
	attrInfoVersionValue       = 104
	attrFlashUpdateFileName    = 122
	attrFlashUpdateComponent   = 123
	attrFlashUpdateStatusMsg   = 124
	attrFlashUpdateStatusDone  = 125
	attrFlashUpdateStatusTotal = 126
	attrInfoBoardSerialNumber  = 146
	attrStatusTimeout          = 151
	attrReloadAction           = 153
	attrParamValueDefault      = 182 // since Linux 7.0

	reloadDriverReinit     = 1
	reloadFirmwareActivate = 2
)

// Conn is a connection to the kernel's generic netlink; *genetlink.Conn is one.
type Conn interface {
	GetFamily(name string) (genetlink.Family, error)
	Execute(m genetlink.Message, family uint16, flags netlink.HeaderFlags) ([]genetlink.Message, error)
	JoinGroup(group uint32) error
	Receive() ([]genetlink.Message, []netlink.Message, error)
	Close() error
}

// Dialer opens a connection.
type Dialer func() (Conn, error)

// Dial connects to the kernel this process runs on.
func Dial() (Conn, error) {
	c, err := genetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("connect to the kernel: %w", err)
	}
	// Without it the kernel returns an error number without its message.
	if err := c.SetOption(netlink.ExtendedAcknowledge, true); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the kernel: %w", err), c.Close())
	}
	return c, nil
}

// KernelError is a request the kernel refused.
type KernelError struct {
	Errno syscall.Errno
	// Message is from the kernel or its driver; often empty.
	Message string
}

// Error returns the message and the meaning of the error number.
func (e *KernelError) Error() string {
	if e.Message == "" {
		return e.Errno.Error()
	}
	return fmt.Sprintf("%s (%v)", e.Message, e.Errno)
}

// Unwrap returns the error number.
func (e *KernelError) Unwrap() error { return e.Errno }

// kernelError converts an error answer of the kernel into a *KernelError.
func kernelError(err error) error {
	out := &KernelError{}
	if err == nil || !errors.As(err, &out.Errno) {
		return err
	}
	for op := (*netlink.OpError)(nil); errors.As(err, &op); err = op.Err {
		if op.Message != "" {
			out.Message = op.Message
		}
	}
	return out
}

// channel is a connection to the devlink family.
type channel struct {
	Conn
	family genetlink.Family
}

// open connects and looks up the family.
func (dial Dialer) open() (channel, error) {
	conn, err := dial()
	if err != nil {
		return channel{}, err
	}
	family, err := conn.GetFamily("devlink")
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("this kernel is built without devlink")
	}
	if err != nil {
		return channel{}, errors.Join(fmt.Errorf("look up devlink: %w", err), conn.Close())
	}
	return channel{conn, family}, nil
}

// request sends a command for a device and returns the answer.
func (c channel) request(
	cmd uint8, h Handle, flags netlink.HeaderFlags, more func(*netlink.AttributeEncoder),
) ([]genetlink.Message, error) {
	ae := netlink.NewAttributeEncoder()
	ae.String(attrBusName, h.Bus)
	ae.String(attrDevName, h.Device)
	more(ae)
	data, err := ae.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	m := genetlink.Message{Header: genetlink.Header{Command: cmd, Version: c.family.Version}, Data: data}
	answer, err := c.Execute(m, c.family.ID, netlink.Request|flags)
	return answer, kernelError(err)
}

// info requests the info of a device. It blocks while the kernel writes or reloads the device.
func (dial Dialer) info(h Handle) (Info, error) {
	c, err := dial.open()
	if err != nil {
		return Info{}, err
	}
	defer c.Close()
	// An unread acknowledgement would be taken for the next answer.
	answer, err := c.request(cmdInfoGet, h, 0, func(*netlink.AttributeEncoder) {})
	switch {
	case errors.Is(err, syscall.ENODEV):
		return Info{}, fmt.Errorf("ask for info of %s: the kernel has no such device, or its driver does not offer devlink: %w", h, err)
	case err != nil:
		return Info{}, fmt.Errorf("ask for info of %s: %w", h, err)
	case len(answer) != 1:
		return Info{}, fmt.Errorf("ask for info of %s: %d answers", h, len(answer))
	}
	return parseInfo(answer[0].Data, h)
}

// reload makes the device run its stored firmware or use the parameters that its driver reads when it begins, if its driver can.
func (dial Dialer) reload(h Handle, action uint8) error {
	c, err := dial.open()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.request(cmdReload, h, 0, func(ae *netlink.AttributeEncoder) { ae.Uint8(attrReloadAction, action) })
	return err
}
