package hotplug

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// quiet is how long the hardware must be silent before it is reported: a card that is plugged in makes many events.
const quiet = 3 * time.Second

// spacing is the least time between two reports: a link that flaps must not keep the vendor tools busy.
const spacing = 30 * time.Second

// Watch calls changed when hardware came, went or changed its link, after a quiet moment, until the context ends. Each
// of its two sources is optional: one that this process may not use is logged once and done without.
func Watch(ctx context.Context, log logr.Logger, changed func()) {
	events := make(chan struct{}, 1)
	report := func() {
		select {
		case events <- struct{}{}:
		default:
		}
	}
	if err := watchUevents(ctx, report); err != nil {
		log.Info("Hotplug is not watched; devices that come or go are found at the next scan", "cause", err.Error())
	}
	if err := watchLinks(ctx, report); err != nil {
		log.Info("Links are not watched; their state is read at each scan", "cause", err.Error())
	}
	Debounce(ctx, events, quiet, spacing, changed)
}

// patience is how many quiet times events without end can put a report off.
const patience = 10

// Debounce calls changed once the events have been silent for the quiet time, or have gone on for ten times as long, and
// not again before the spacing has passed, until the context ends.
func Debounce(ctx context.Context, events <-chan struct{}, quiet, spacing time.Duration, changed func()) {
	timer := time.NewTimer(0)
	<-timer.C
	var first, last time.Time // of the events not reported yet, and of the reports
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			if first.IsZero() {
				first = time.Now()
			}
			silent := min(quiet, patience*quiet-time.Since(first))
			timer.Reset(max(silent, spacing-time.Since(last)))
		case <-timer.C:
			first, last = time.Time{}, time.Now()
			changed()
		}
	}
}

// watchUevents listens to the kernel's own broadcast, which needs no udev.
func watchUevents(ctx context.Context, report func()) error {
	const kernelGroup = 1
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return fmt.Errorf("open uevent socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		return errors.Join(fmt.Errorf("bind uevent socket: %w", err), unix.Close(fd))
	}
	// A minute a read at most, so that the end of the context is seen though no device speaks.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}); err != nil {
		return errors.Join(fmt.Errorf("bound uevent reads: %w", err), unix.Close(fd))
	}
	go func() {
		defer unix.Close(fd)
		buffer := make([]byte, 16<<10)
		for ctx.Err() == nil {
			n, from, err := unix.Recvfrom(fd, buffer, 0)
			switch {
			case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.ENOBUFS): // some were lost, whatever they were
				report()
			case err != nil:
				return
			default:
				if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
					continue // not from the kernel
				}
				if e, ok := ParseUevent(buffer[:n]); ok && e.Hardware() {
					report()
				}
			}
		}
	}()
	return nil
}

// watchLinks reports a physical link that goes up or down.
func watchLinks(ctx context.Context, report func()) error {
	updates := make(chan netlink.LinkUpdate, 16)
	if err := netlink.LinkSubscribe(updates, ctx.Done()); err != nil {
		return fmt.Errorf("subscribe to links: %w", err)
	}
	go func() {
		states := map[int]netlink.LinkOperState{}
		for u := range updates {
			if u.Link.Type() != "device" {
				continue
			}
			a := u.Link.Attrs()
			if before, known := states[a.Index]; known && before != a.OperState {
				report()
			}
			states[a.Index] = a.OperState
		}
	}()
	return nil
}
