package nvmetcp

import (
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// host identifies a connected host.
type host struct {
	nqn string
	id  [16]byte
}

// controller is the association with one connected host. It ends with its admin queue.
type controller struct {
	drive *Drive
	id    uint16
	host  host
	// events are asynchronous events that were not reported yet.
	events chan uint32

	mu     sync.Mutex
	queues map[uint16]*queue
	ended  bool
	// config is the configuration property (CC); broken is the fatal status (CSTS.CFS).
	config uint32
	broken bool
	// readyAt and pausedUntil are when an activation ends: after a reset, and without one (CSTS.PP).
	readyAt, pausedUntil time.Time
	keepAlive            time.Duration
	lost                 *time.Timer
	features             map[uint8]uint32
	eventRequests        int
}

// Bits of the configuration and of the status property.
const (
	configEnable   = 1 << 0
	configShutdown = 3 << 14
	// configFixed are the fields of which only zero is supported: command set, page size, arbitration.
	configFixed = 0x3ff0
	// configEntries are the sizes of queue entries, of which only one value is supported.
	configEntries  = 0xff0000
	entries64And16 = 0x460000

	statusReady        = 1 << 0
	statusFatal        = 1 << 1
	statusShutdownDone = 2 << 2
	statusPaused       = 1 << 5
)

// join adds a queue to the controller, unless there is one with that number or the controller has ended.
func (c *controller) join(id uint16, q *queue) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.queues[id] != nil {
		return false
	}
	c.queues[id] = q
	return true
}

func (c *controller) leave(id uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queues, id)
}

// end ends the controller and resets it if it is still enabled.
func (c *controller) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.lost != nil {
		c.lost.Stop()
	}
	c.disable()
	for _, q := range c.queues {
		q.conn.Close()
	}
}

func (c *controller) configuration() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config
}

// configure sets the configuration property.
func (c *controller) configure(config uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if config&configEnable == 0 {
		c.disable()
	} else if c.config&configEnable == 0 {
		c.broken = config&configFixed != 0 || config&configEntries != entries64And16
	}
	c.config = config
}

// disable resets the controller if it is enabled. The caller holds c.mu.
func (c *controller) disable() {
	if c.config&configEnable == 0 {
		return
	}
	c.stop(c.drive.reset(nvmectrl.ControllerReset))
}

// stop applies the result of a reset of the drive to the controller. The caller holds c.mu.
func (c *controller) stop(readyAt time.Time, err error) {
	c.config &^= configEnable
	c.readyAt, c.broken = readyAt, err != nil
	clear(c.features)
}

// status is the status property.
func (c *controller) status() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var status uint32
	now := time.Now()
	if c.broken {
		status |= statusFatal
	}
	if c.config&configEnable != 0 && !c.broken && !now.Before(c.readyAt) {
		status |= statusReady
	}
	if c.config&configShutdown != 0 {
		status |= statusShutdownDone
	}
	if now.Before(c.pausedUntil) {
		status |= statusPaused
	}
	return status
}

func (c *controller) ready() bool { return c.status()&statusReady != 0 }

// pause reports, if the host enabled it, that the drive processes no I/O until the given time.
func (c *controller) pause(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pausedUntil = until
	if c.features[featureEvents]&noticeActivation == 0 {
		return
	}
	select {
	case c.events <- eventActivationStarts:
	default: // an event is waiting already
	}
}

// resume ends a pause.
func (c *controller) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pausedUntil = time.Time{}
}

// setKeepAlive ends the controller's connections when the host sends nothing for d; 0 disables it.
func (c *controller) setKeepAlive(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		c.lost.Stop()
	}
	c.keepAlive, c.lost = d, nil
	if d > 0 {
		c.lost = time.AfterFunc(d, func() {
			c.drive.config.Log.Warn("Host is silent", "host", c.host.nqn, "controller", c.id)
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, q := range c.queues {
				q.conn.Close()
			}
		})
	}
}

// touch restarts the keep-alive timer.
func (c *controller) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		c.lost.Reset(c.keepAlive)
	}
}
