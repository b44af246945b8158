package devlink

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
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
