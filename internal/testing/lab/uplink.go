package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// uplinkPoll is how often the link of a machine's uplink is looked at.
const uplinkPoll = 50 * time.Millisecond

// uplink is the only way of a simulated machine to the API server and the image server: relays on the loopback interface
// that are open while the machine reaches its gateway. When it does not, connections are reset, and the kernel refuses new
// ones: nobody listens.
type uplink struct {
	machine *simhost.Machine

	mu        sync.Mutex
	changed   *sync.Cond
	listeners []*net.TCPListener
	conns     map[net.Conn]struct{}
	relaying  sync.WaitGroup
	closed    bool
	// downSince is when the machine was found cut off; zero while it is not.
	downSince time.Time
	traffic   Traffic
}

// Traffic is what became of the connections of a machine that has but one way to the API server.
type Traffic struct {
	// CutOff is how long the machine reached nothing, up to now.
	CutOff time.Duration
	// Dropped connections were open when the link went down.
	Dropped int
}

func newUplink(m *simhost.Machine) *uplink {
	u := &uplink{machine: m, conns: map[net.Conn]struct{}{}}
	u.changed = sync.NewCond(&u.mu)
	return u
}

// relay opens a way to a TCP address and returns the address of its near end. The port is chosen before it is bound, so that
// the kernel keeps it for the relay while nobody listens.
func (u *uplink) relay(target string) (address string, err error) {
	if address, err = controlplane.FreeAddress(); err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("open relay: %w", err)
	}
	listener := l.(*net.TCPListener)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.listeners = append(u.listeners, listener)
	u.relaying.Go(func() { u.serve(listener, target) })
	return address, nil
}

// serve relays until the uplink is closed.
func (u *uplink) serve(l *net.TCPListener, target string) {
	for {
		near, err := l.Accept()
		if err == nil {
			u.relaying.Go(func() { u.carry(near, target) })
			continue
		}
		u.mu.Lock()
		for !u.closed && !u.downSince.IsZero() {
			u.changed.Wait()
		}
		closed := u.closed
		u.mu.Unlock()
		if closed {
			return
		}
	}
}

// listen lets the relays accept connections, or has the kernel refuse them.
func (u *uplink) listen(up bool) {
	for _, l := range u.listeners {
		raw, err := l.SyscallConn()
		if err != nil {
			continue // it is closed
		}
		_ = raw.Control(func(fd uintptr) {
			if up {
				_ = unix.Listen(int(fd), unix.SOMAXCONN)
			} else {
				_ = unix.Shutdown(int(fd), unix.SHUT_RDWR)
			}
		})
	}
	u.changed.Broadcast()
}

// carry relays one connection until an end closes it or the machine is cut off.
func (u *uplink) carry(near net.Conn, target string) {
	if !u.open(near) {
		reset(near)
		return
	}
	defer u.forget(near)
	far, err := net.Dial("tcp", target)
	if err != nil {
		reset(near)
		return
	}
	defer far.Close()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		u.relaying.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		})
	}
	<-done
}

// open reports whether there is a link for a new connection, and keeps it to be dropped when the link goes down.
func (u *uplink) open(c net.Conn) bool {
	u.look()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || !u.downSince.IsZero() {
		return false
	}
	u.conns[c] = struct{}{}
	return true
}

func (u *uplink) forget(c net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.conns, c)
	c.Close()
}

// look drops every connection when the link is down. A machine that cannot be read counts as it did before.
func (u *uplink) look() {
	u.mu.Lock()
	defer u.mu.Unlock()
	up, err := u.machine.Connected()
	switch {
	case err != nil || up == u.downSince.IsZero():
	case up:
		u.traffic.CutOff += time.Since(u.downSince)
		u.downSince = time.Time{}
		u.listen(true)
	default:
		u.downSince = time.Now()
		u.listen(false)
		for c := range u.conns {
			reset(c)
			delete(u.conns, c)
			u.traffic.Dropped++
		}
	}
}

// reset closes a connection without a farewell.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// watch follows the link until the context ends.
func (u *uplink) watch(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { u.look() }, uplinkPoll)
}

// seen is the traffic up to now.
func (u *uplink) seen() Traffic {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.traffic
	if !u.downSince.IsZero() {
		out.CutOff += time.Since(u.downSince)
	}
	return out
}

// down reports whether the machine is cut off now.
func (u *uplink) down() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.downSince.IsZero()
}

func (u *uplink) close() {
	u.mu.Lock()
	u.closed = true
	for _, l := range u.listeners {
		_ = l.Close()
	}
	for c := range u.conns {
		_ = c.Close()
	}
	u.changed.Broadcast()
	u.mu.Unlock()
	u.relaying.Wait()
}
