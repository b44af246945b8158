package devlink

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
)

// status is what the kernel tells of a flash that runs.
type status struct {
	// Message and Component say what is done; either may be empty.
	Message, Component string
	// Done of Total; zero when the kernel does not count.
	Done, Total uint64
	// Timeout is for how many seconds nothing may be heard after this; zero when the kernel does not tell.
	Timeout uint64
}

// endGrace is how long the last messages may take after the kernel said that the flash is over.
const endGrace = time.Second

// flash writes an image to a device and returns when that is over. The kernel opens the image by its name, in the
// directories where it looks for firmware. There is no way to let it overwrite what identifies the device (its addresses,
// its serial numbers): the attribute that asks for it is not known here.
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
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		events.follow(h, report)
	}()
	// The kernel answers with nothing but the acknowledgement, when all is over.
	_, err = c.request(cmdFlashUpdate, h, netlink.Acknowledge, func(ae *netlink.AttributeEncoder) {
		ae.String(attrFlashUpdateFileName, name)
		if component != "" {
			ae.String(attrFlashUpdateComponent, component)
		}
	})
	select {
	case <-heard:
	case <-time.After(endGrace):
	}
	_ = events.Close()
	<-heard
	return err
}

// subscribe listens to what the kernel tells everybody.
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
	return channel{}, errors.Join(errors.New("listen to devlink: this kernel has no such group"), c.Close())
}

// follow reports what is told of the device until its flash is over or the channel is closed.
func (c channel) follow(h Handle, report func(status)) {
	for {
		messages, _, err := c.Receive()
		if errors.Is(err, syscall.ENOBUFS) {
			continue // some were lost because we were slow; they are for people
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

// parseStatus reads a message of the group.
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
