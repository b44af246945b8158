package nvmetcp

import (
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/nvmectrl"
)

// host is who is connected.
type host struct {
	nqn string
	id  [16]byte
}

// controller is what a host that connected talks to. It ends with its admin queue.
type controller struct {
	drive *Drive
	id    uint16
	host  host
	// events are asynchronous events that no request reported yet.
	events chan uint32

	mu     sync.Mutex
	queues map[uint16]*queue
	ended  bool
	// config is the configuration property (CC); broken says that the controller cannot go on (CSTS.CFS).
	config uint32
	broken bool
	// readyAt and pausedUntil are when firmware that is being activated runs: after a reset, and without one.
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
	// configFixed are the fields that can have one value: command set, page size, arbitration.
	configFixed = 0x3ff0
	// configEntries are the sizes of queue entries, of which there is one value too.
	configEntries  = 0xff0000
	entries64And16 = 0x460000

	statusReady        = 1 << 0
	statusFatal        = 1 << 1
	statusShutdownDone = 2 << 2
	statusPaused       = 1 << 5
)

// join makes q a queue of the controller, unless there is one of that number or the controller ended.
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

// end ends the controller, which is a reset of it when the host did not do one.
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

// disable resets the controller, when it was enabled. The caller holds c.mu.
func (c *controller) disable() {
	if c.config&configEnable == 0 {
		return
	}
	c.stop(c.drive.reset(nvmectrl.ControllerReset))
}

// stop forgets what a reset of the drive, which ended like this, takes from the controller. The caller holds c.mu.
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

// pause tells the host, when it wants to know, that the drive processes no I/O before a time.
func (c *controller) pause(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pausedUntil = until
	if c.features[featureEvents]&noticeActivation == 0 {
		return
	}
	select {
	case c.events <- eventActivationStarts:
	default: // it is told already
	}
}

// goOn ends a pause.
func (c *controller) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pausedUntil = time.Time{}
}

// setKeepAlive ends the controller's connections when nothing is heard from the host for so long; 0 is any time.
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

// touch notes that the host is alive.
func (c *controller) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		c.lost.Reset(c.keepAlive)
	}
}
