package hotplug

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mdlayher/socket"
	"golang.org/x/sys/unix"
)

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
