package realnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
)

// Addresses of the network between the control plane and the machine. It exists in a network namespace of its own, so that the
// addresses are nobody else's and nothing is reached from outside.
const (
	// apiAddress is the first address of the range of Services, which is that of the Service kubernetes: pods reach the API
	// server without anybody who translates addresses.
	apiAddress   = "10.0.3.1"
	serviceRange = "10.0.3.0/24"
	dnsAddress   = "10.0.3.10"
	podRange     = "10.0.4.0/24"
	hostAddress  = "10.0.5.1"
	nodeAddress  = "10.0.5.2"
	tapName      = "tap0"
)

// endGrace is how long the lab may take to stop its programs in order, before the kernel ends them.
const endGrace = 30 * time.Second

// Isolate runs a program, which is to call Enter, in namespaces of its own for processes, mounts and the network. Whatever it
// started ends with it, however it ends. It needs root.
func Isolate(ctx context.Context, program string, args ...string) error {
	if os.Geteuid() != 0 {
		return errors.New("isolate lab: it needs root, for a network and mounts of its own: run it as root")
	}
	c := exec.CommandContext(ctx, program, args...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = endGrace
	c.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
	}
	runtime.LockOSThread() // the death signal is that of the thread
	defer runtime.UnlockOSThread()
	if err := c.Run(); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}

// Enter sets up the namespaces that Isolate made for this process: its own /proc, and the network.
func Enter() error {
	if os.Getpid() != 1 {
		return errors.New("enter lab: this process was not started in namespaces of its own")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("enter lab: keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("enter lab: mount /proc: %w", err)
	}
	return setUpNetwork()
}

// setUpNetwork makes the device that the machine is connected to, with the addresses of this side.
func setUpNetwork() error {
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: tapName}, Mode: netlink.TUNTAP_MODE_TAP}
	if err := netlink.LinkAdd(tap); err != nil {
		return fmt.Errorf("set up network: make %s: %w", tapName, err)
	}
	if err := errors.Join(guest.Up("lo", apiAddress+"/32"), guest.Up(tapName, hostAddress+"/24")); err != nil {
		return err
	}
	_, pods, err := net.ParseCIDR(podRange)
	if err != nil {
		return fmt.Errorf("set up network: %w", err)
	}
	if err := netlink.RouteAdd(&netlink.Route{Dst: pods, Gw: net.ParseIP(nodeAddress)}); err != nil {
		return fmt.Errorf("set up network: route to the pods: %w", err)
	}
	return nil
}
