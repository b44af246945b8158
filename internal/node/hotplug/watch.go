package hotplug

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/mdlayher/socket"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// quiet is how long the hardware must be silent before it is reported: a card that is plugged in makes many events.
const quiet = 3 * time.Second

// spacing is the least time between two reports: a link that flaps must not keep the vendor tools busy.
const spacing = 30 * time.Second

// Watch calls changed when hardware came, went or changed its link, after a quiet moment, until the context ends. Each
// of its two sources is optional: one that this process may not use is logged once and done without. Transports are those of the NVMe
// drives that belong to the machine, as sysfs names them.
func Watch(ctx context.Context, log logr.Logger, transports []string, changed func()) {
	events := make(chan struct{}, 1)
	report := func() {
		select {
		case events <- struct{}{}:
		default:
		}
	}
	var group sync.WaitGroup
	uevents := func(ctx context.Context, subscribed, report func()) error {
		return listenToUevents(ctx, transports, subscribed, report)
	}
	group.Go(func() { resume(ctx, log, "devices", uevents, report) })
	group.Go(func() { resume(ctx, log, "links", listenToLinks, report) })
	Debounce(ctx, events, quiet, spacing, changed)
	group.Wait()
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

// errEnded says that the kernel's messages about links ended without a cause.
var errEnded = errors.New("the messages about links ended")

// listenToLinks reports a physical link that goes up or down.
func listenToLinks(ctx context.Context, subscribed, report func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // closes the socket, also of a subscription that failed
	updates := make(chan netlink.LinkUpdate, 16)
	cause := errEnded // written by the one goroutine that closes updates afterwards
	options := netlink.LinkSubscribeOptions{ErrorCallback: func(err error) { cause = err }}
	if err := netlink.LinkSubscribeWithOptions(updates, ctx.Done(), options); err != nil {
		return fmt.Errorf("subscribe to links: %w", err)
	}
	subscribed()
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
	return cause
}

// The pause before a subscription is renewed doubles up to the longest one, and starts afresh after a subscription that
// lasted that long.
const (
	shortestPause = time.Second
	longestPause  = 2 * time.Minute
)

// listener subscribes to messages of the kernel, calls subscribed, and calls report for each one that matters. It returns
// an error when the subscription ends, and at the end of the context.
type listener func(ctx context.Context, subscribed, report func()) error

// resume listens until the context ends and renews a subscription that ended, which happens when the kernel drops messages
// for lack of buffer space. What happened meanwhile is lost, so a renewed subscription is reported as a change. A source
// that cannot be subscribed to at all is logged and given up.
func resume(ctx context.Context, log logr.Logger, what string, listen listener, report func()) {
	before := false
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		began := time.Now()
		err := listen(ctx, func() {
			if before {
				report()
			}
			before = true
		}, report)
		switch {
		case ctx.Err() != nil:
			return
		case !before:
			log.Info("Changes are not watched; they are found at the next scan", "of", what, "cause", err.Error())
			return
		case time.Since(began) >= longestPause:
			pause = shortestPause
		}
		log.Info("Watching changes was interrupted and is started again", "of", what, "cause", err.Error(), "pause", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// Uevent is one message of the kernel about a device.
type Uevent struct {
	// Action is what happened: add, remove, bind, change and others.
	Action string
	// Subsystem is the kind of the device.
	Subsystem string
	// Path is the device's directory below /sys.
	Path string
	// NVMe is what the kernel's NVMe driver says of a controller: connected, rediscover, or empty. Transport is the way to it: pcie, tcp, rdma,
	// fc or loop; empty before Linux 5.4.
	NVMe, Transport string
}

// ParseUevent parses a message of the kernel: "<action>@<path>" and KEY=value pairs, each ended by a NUL. Messages of
// udev, which begin otherwise, and malformed ones are not reported.
func ParseUevent(message []byte) (Uevent, bool) {
	fields := bytes.Split(message, []byte{0})
	action, path, ok := strings.Cut(string(fields[0]), "@")
	if !ok || action == "" || !strings.HasPrefix(path, "/") {
		return Uevent{}, false
	}
	e := Uevent{Action: action, Path: path}
	for _, f := range fields[1:] {
		switch key, value, _ := strings.Cut(string(f), "="); key {
		case "SUBSYSTEM":
			e.Subsystem = value
		case "NVME_EVENT":
			e.NVMe = value
		case "NVME_TRTYPE":
			e.Transport = value
		}
	}
	return e, true
}

// fabrics is where the kernel has the controllers of NVMe drives behind a network.
const fabrics = "/devices/virtual/nvme-fabrics/ctl/"

// Hardware reports whether the event can mean that a card or a drive came or went. Containers and their network
// interfaces come and go all the time; they are virtual devices and mean nothing here. So are NVMe drives behind a network, which mean
// something where their transport is one of those whose drives belong to the machine: elsewhere they are volumes of pods. Their controllers
// are added before they are connected, and changed with NVME_EVENT=connected when they are (Linux, drivers/nvme/host/core.c, nvme_start_ctrl).
func (e Uevent) Hardware(transports []string) bool {
	switch {
	case e.Subsystem == "nvme" && strings.HasPrefix(e.Path, fabrics):
		return e.isOver(transports) && (e.comesOrGoes() || e.Action == "change" && e.NVMe == "connected")
	case strings.HasPrefix(e.Path, "/devices/virtual/"):
		return false
	}
	return e.comesOrGoes() && slices.Contains([]string{"pci", "nvme", "scsi"}, e.Subsystem)
}

// isOver reports whether the controller may be reached over one of the transports, of which pcie is no network.
func (e Uevent) isOver(transports []string) bool {
	return slices.ContainsFunc(transports, func(t string) bool { return t == e.Transport || e.Transport == "" && t != "pcie" })
}

func (e Uevent) comesOrGoes() bool {
	return slices.Contains([]string{"add", "remove", "bind", "unbind"}, e.Action)
}

// listenToUevents reports hardware that comes or goes. It listens to the kernel's own broadcast, which needs no udev.
func listenToUevents(ctx context.Context, transports []string, subscribed, report func()) error {
	const kernelGroup = 1
	conn, err := socket.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_KOBJECT_UEVENT, "uevent", nil)
	if err != nil {
		return fmt.Errorf("open uevent socket: %w", err)
	}
	defer conn.Close()
	if err := conn.Bind(&unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		return fmt.Errorf("bind uevent socket: %w", err)
	}
	subscribed()
	for buffer := make([]byte, 16<<10); ; {
		n, from, err := conn.Recvfrom(ctx, buffer, 0)
		switch {
		case errors.Is(err, unix.ENOBUFS): // messages were lost, and any of them may have mattered
			report()
			continue
		case err != nil:
			return fmt.Errorf("read uevent: %w", err)
		}
		if sender, ok := from.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
			continue // not from the kernel
		}
		if e, ok := ParseUevent(buffer[:n]); ok && e.Hardware(transports) {
			report()
		}
	}
}
