package nvmetcp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// Config describes a drive. All but Model, Serial and Revision are optional.
type Config struct {
	// Profile gets an FWUG of 1 when that is 0, and the MDTS of the transport.
	nvmectrl.Profile
	// Revision of the firmware in slot 1 of a new drive, at most 8 characters. It is ignored once there is a state.
	Revision string
	// Slots for firmware, 1 to 7; 3 when 0.
	Slots int
	// NQN of the subsystem; derived from the serial number when empty.
	NQN string
	// NamespaceSize in bytes, a multiple of 4096; 16 MiB when 0.
	NamespaceSize int64
	// NamespaceFile keeps the content of the namespace; it is in memory when empty.
	NamespaceFile string
	// FS writes the state; durable.OS when nil.
	FS durable.FS
	// Log gets entries about connections and firmware; nil discards them.
	Log *slog.Logger
}

func (c Config) complete() (Config, error) {
	c.Slots = cmp.Or(c.Slots, 3)
	c.FWUG, c.MDTS = cmp.Or(c.FWUG, 1), transferShift
	c.NamespaceSize = cmp.Or(c.NamespaceSize, 16<<20)
	c.NQN = cmp.Or(c.NQN, "nqn.2014-08.org.nvmexpress:lab:"+c.Serial)
	if c.FS == nil {
		c.FS = durable.OS{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Slots < 1 || c.Slots > nvmectrl.MaxSlots:
		return c, fmt.Errorf("%d slots: a drive has 1 to %d", c.Slots, nvmectrl.MaxSlots)
	case int(c.FWUG)<<pageShift > transferMax:
		return c, fmt.Errorf("pieces of %d pages: one command moves at most %d bytes", c.FWUG, transferMax)
	case c.NamespaceSize < 1<<pageShift || c.NamespaceSize%(1<<pageShift) != 0:
		return c, fmt.Errorf("namespace of %d bytes: it is a multiple of 4096", c.NamespaceSize)
	case len(c.NQN) >= nqnSize || !strings.HasPrefix(c.NQN, "nqn."):
		return c, fmt.Errorf("NQN %q does not begin with nqn. or is too long", c.NQN)
	}
	return c, nil
}

// Drive is a drive: its firmware, its namespace and its connected hosts. It is safe for concurrent use.
type Drive struct {
	config Config
	path   string
	space  storage

	mu   sync.Mutex
	core nvmectrl.Controller
	// readyAt is when the firmware that is being activated runs.
	readyAt     time.Time
	controllers map[uint16]*controller
	lastID      uint16

	faults faultState
	wires  wires
}

// Open powers on the drive whose firmware the state file holds, which activates what awaits a reset. A drive without a
// state file is new.
func Open(path string, config Config) (*Drive, error) {
	config, err := config.complete()
	if err != nil {
		return nil, fmt.Errorf("open drive: %w", err)
	}
	d := &Drive{config: config, path: path, controllers: map[uint16]*controller{}}
	firmware, err := d.load()
	if err != nil {
		return nil, fmt.Errorf("open drive: %w", err)
	}
	next := nvmectrl.Controller{Profile: config.Profile, Firmware: firmware}
	if err := next.Validate(); err != nil {
		return nil, fmt.Errorf("open drive %s: %w", path, err)
	}
	next.Reset(nvmectrl.PowerCycle)
	if err := d.keep(next); err != nil {
		return nil, fmt.Errorf("open drive: %w", err)
	}
	if d.space, err = openStorage(config); err != nil {
		return nil, fmt.Errorf("open drive: %w", err)
	}
	return d, nil
}

// Close closes the file of the namespace. Call it after Serve has returned.
func (d *Drive) Close() error { return d.space.Close() }

// Firmware is what the drive holds.
func (d *Drive) Firmware() nvmectrl.Firmware { return d.snapshot().Firmware }

func (d *Drive) snapshot() *nvmectrl.Controller {
	d.mu.Lock()
	defer d.mu.Unlock()
	core := d.core.Clone()
	return &core
}

// NQN names the drive's subsystem, for connecting.
func (d *Drive) NQN() string { return d.config.NQN }

// Serve lets hosts connect until the context ends, and then ends their connections. It closes the listener,
// which must be on the loopback: there is no authentication.
func Serve(ctx context.Context, listener net.Listener, d *Drive) error {
	defer listener.Close()
	if address, ok := listener.Addr().(*net.TCPAddr); !ok || !address.IP.IsLoopback() {
		return fmt.Errorf("serve drive: %s is not on the loopback", listener.Addr())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("serve drive: %w", err)
		}
		if !d.wires.add(conn) {
			conn.Close()
			continue
		}
		running.Go(func() {
			defer d.wires.remove(conn)
			err := newQueue(d, conn).serve(ctx)
			d.config.Log.Debug("Connection ended", "host", conn.RemoteAddr(), "reason", err)
		})
	}
}

// connectionsMax is how many connections there are at once.
const connectionsMax = 64

// wires holds the connections of hosts.
type wires struct {
	mu           sync.Mutex
	open         map[net.Conn]bool
	refusedUntil time.Time
}

func (w *wires) add(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) >= connectionsMax || time.Now().Before(w.refusedUntil) {
		return false
	}
	if w.open == nil {
		w.open = map[net.Conn]bool{}
	}
	w.open[conn] = true
	return true
}

func (w *wires) remove(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, conn)
}

// cut ends all connections and refuses new ones for a time.
func (w *wires) cut(refuse time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusedUntil = time.Now().Add(refuse)
	for conn := range w.open {
		conn.Close()
	}
}
