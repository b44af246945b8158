package devlink

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// status is the kernel's report about a running flash.
type status struct {
	// Message and Component say what is done; either may be empty.
	Message, Component string
	// Done of Total; zero when the kernel reports no count.
	Done, Total uint64
	// Timeout is for how many seconds no further report may follow; zero when the kernel does not say.
	Timeout uint64
}

// endGrace is how long the last messages may take after the kernel has acknowledged the end of the flash.
const endGrace = time.Second

// flash writes an image to a device and returns when the write has ended. The kernel opens the image by its name, in
// the directories where it looks for firmware. It can never overwrite what identifies the device (its addresses and
// serial numbers), because the attribute that requests it is not defined here.
func (dial Dialer) flash(h Handle, name, component string, report func(status)) error {
	c, err := dial.open()
	if err != nil {
		return err
	}
	defer c.Close()
	events, err := dial.subscribe()
	if err != nil {
		return err
	}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		events.follow(h, report)
	}()
	// The kernel's only answer is the acknowledgement when the flash has ended.
	_, err = c.request(cmdFlashUpdate, h, netlink.Acknowledge, func(ae *netlink.AttributeEncoder) {
		ae.String(attrFlashUpdateFileName, name)
		if component != "" {
			ae.String(attrFlashUpdateComponent, component)
		}
	})
	select {
	case <-followed:
	case <-time.After(endGrace):
	}
	_ = events.Close()
	<-followed
	return err
}

// subscribe opens a channel that receives the kernel's notifications.
func (dial Dialer) subscribe() (channel, error) {
	c, err := dial.open()
	if err != nil {
		return channel{}, err
	}
	for _, g := range c.family.Groups {
		if g.Name != "config" {
			continue
		}
		if err := c.JoinGroup(g.ID); err != nil {
			return channel{}, errors.Join(fmt.Errorf("listen to devlink: %w", err), c.Close())
		}
		return c, nil
	}
	return channel{}, errors.Join(errors.New("listen to devlink: this kernel has no devlink notification group"), c.Close())
}

// follow reports the notifications about the device until its flash has ended or the channel is closed.
func (c channel) follow(h Handle, report func(status)) {
	for {
		messages, _, err := c.Receive()
		if errors.Is(err, syscall.ENOBUFS) {
			continue // some were lost because we were slow; they are only informative
		}
		if err != nil {
			return
		}
		for _, m := range messages {
			of, s, err := parseStatus(m)
			switch {
			case err != nil || of != h:
			case m.Header.Command == cmdFlashUpdateEnd:
				return
			case m.Header.Command == cmdFlashUpdateStatus:
				report(s)
			}
		}
	}
}

func parseStatus(m genetlink.Message) (of Handle, s status, err error) {
	ad, err := netlink.NewAttributeDecoder(m.Data)
	if err != nil {
		return Handle{}, status{}, fmt.Errorf("parse status: %w", err)
	}
	for ad.Next() {
		switch ad.Type() {
		case attrBusName:
			of.Bus = ad.String()
		case attrDevName:
			of.Device = ad.String()
		case attrFlashUpdateStatusMsg:
			s.Message = ad.String()
		case attrFlashUpdateComponent:
			s.Component = ad.String()
		case attrFlashUpdateStatusDone:
			s.Done = ad.Uint64()
		case attrFlashUpdateStatusTotal:
			s.Total = ad.Uint64()
		case attrStatusTimeout:
			s.Timeout = ad.Uint64()
		}
	}
	if err := ad.Err(); err != nil {
		return Handle{}, status{}, fmt.Errorf("parse status: %w", err)
	}
	return of, s, nil
}

// errChanged says that an image is not the one that was verified, or that somebody may be changing it.
var errChanged = errors.New("nothing was written, because the image is not the one that was verified")

// unchanged runs do with a file that nobody writes to. The kernel opens an image by its name and reads it in one go at the beginning of a
// flash, so it cannot get a copy from us. Instead a read lease (fcntl(2), F_SETLEASE) is held on the file meanwhile: it is granted only
// where nobody has the file open for writing, and who opens it so waits until the lease is given back, or for
// /proc/sys/fs/lease-break-time, 45 s. Under the lease the content is hashed and compared, unless want is nil. A file system without
// leases is hashed all the same.
func unchanged(path string, want *inventory.Digest, do func() error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open image: %w", err)
	}
	defer f.Close() // ends the lease
	if err := lease(f); err != nil {
		return err
	}
	if want == nil {
		return do()
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	if got := inventory.Digest(sum.Sum(nil)); got != *want {
		return fmt.Errorf("%w: its content is %s, and not %s", errChanged, got, want)
	}
	return do()
}

// lease takes the lease. A process that was just born has, for an instant, all files open that the one which bore it has.
func lease(f *os.File) error {
	const attempts, pause = 40, 25 * time.Millisecond
	for range attempts {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); !errors.Is(err, unix.EAGAIN) {
			return nil
		}
		<-time.After(pause)
	}
	return fmt.Errorf("%w: another program has it open for writing", errChanged)
}
