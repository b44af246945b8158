package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// uplinkPoll is how often the link of a machine's uplink is looked at.
const uplinkPoll = 50 * time.Millisecond

// uplink is the only way of a simulated machine to the API server and the image server: relays on the loopback interface
// that are open while the machine reaches its gateway. When it does not, connections are reset and new ones are refused.
type uplink struct {
	machine *simhost.Machine

	mu        sync.Mutex
	listeners []net.Listener
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
	// Dropped connections were open when the link went down; Refused ones were tried while it was down.
	Dropped, Refused int
}

func newUplink(m *simhost.Machine) *uplink {
	return &uplink{machine: m, conns: map[net.Conn]struct{}{}}
}

// relay opens a way to a TCP address and returns the address of its near end.
func (u *uplink) relay(target string) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("open relay: %w", err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.listeners = append(u.listeners, l)
	u.relaying.Go(func() { u.serve(l, target) })
	return l.Addr().String(), nil
}

func (u *uplink) serve(l net.Listener, target string) {
	for {
		near, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(uplinkPoll)
			continue
		}
		u.relaying.Go(func() { u.carry(near, target) })
	}
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

// open counts a new connection, and reports whether there is a link for it.
func (u *uplink) open(c net.Conn) bool {
	u.look()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || !u.downSince.IsZero() {
		u.traffic.Refused++
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
	default:
		u.downSince = time.Now()
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
	tick := time.NewTicker(uplinkPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			u.look()
		}
	}
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

func (u *uplink) close() {
	u.mu.Lock()
	u.closed = true
	for _, l := range u.listeners {
		_ = l.Close()
	}
	for c := range u.conns {
		_ = c.Close()
	}
	u.mu.Unlock()
	u.relaying.Wait()
}
