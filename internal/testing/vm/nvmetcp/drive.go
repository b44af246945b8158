package nvmetcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// slots of each drive.
const slots = 3

// Config is what a drive is made of.
type Config struct {
	nvmectrl.Profile
	// Revision of the firmware in the first slot of a new drive.
	Revision string
	// PieceTime is how long the drive takes for each piece of an image.
	PieceTime time.Duration
}

// Drive is a drive that is switched on.
type Drive struct {
	config Config
	path   string

	mu   sync.Mutex
	core nvmectrl.Controller
	// enabled are the configurations of the controllers, by their ids; lastID is that of the newest one.
	enabled map[uint16]uint32
	lastID  uint16
}

// Open switches the drive on whose state is in a file; the file of a new drive is created.
func Open(path string, config Config) (*Drive, error) {
	config.FWUG, config.MDTS = 1, transferShift
	d := &Drive{config: config, path: path, enabled: map[uint16]uint32{}}
	next := nvmectrl.Controller{Profile: config.Profile}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &next.Firmware)
	} else if errors.Is(err, fs.ErrNotExist) {
		empty := make([]nvmectrl.Slot, slots)
		empty[0].Revision = config.Revision
		next.Firmware, err = nvmectrl.NewFirmware(empty...), nil
	}
	if err == nil {
		err = next.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("open drive %s: %w", path, err)
	}
	next.Reset(nvmectrl.PowerCycle)
	return d, d.keep(next)
}

// keep makes next the state of the drive once it is on the disk.
func (d *Drive) keep(next nvmectrl.Controller) error {
	raw, err := json.MarshalIndent(next.Firmware, "", "  ")
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := durable.WriteFile(durable.OS{}, d.path, append(raw, '\n')); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	d.core = next
	return nil
}

// NQN is the name by which a host connects to the drive.
func (d *Drive) NQN() string { return "nqn.2014-08.org.nvmexpress:lab:" + d.config.Serial }

// Firmware is what the drive runs and stores.
func (d *Drive) Firmware() nvmectrl.Firmware { return d.snapshot().Firmware }

func (d *Drive) snapshot() *nvmectrl.Controller {
	d.mu.Lock()
	defer d.mu.Unlock()
	core := d.core.Clone()
	return &core
}

// Serve lets hosts connect to the drive until the listener is closed.
func Serve(listener net.Listener, d *Drive) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("serve drive: %w", err)
		}
		go func() {
			defer conn.Close()
			q := &queue{drive: d, conn: conn, transfers: map[uint16]*command{}}
			_ = q.serve() // until the host closes the connection
		}()
	}
}

// connect gives a controller an id.
func (d *Drive) connect() uint16 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastID++
	d.enabled[d.lastID] = 0
	return d.lastID
}

func (d *Drive) disconnect(id uint16) error {
	err := d.configure(id, 0)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.enabled, id)
	return err
}

func (d *Drive) configuration(id uint16) uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.enabled[id]
}

// configure writes the register CC. A controller that is disabled is reset.
func (d *Drive) configure(id uint16, config uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.enabled[id]&configEnable != 0 && config&configEnable == 0 {
		next := d.core.Clone()
		if next.Reset(nvmectrl.ControllerReset) {
			if err := d.keep(next); err != nil {
				return err
			}
		}
		d.core.Buffer = next.Buffer
	}
	d.enabled[id] = config
	return nil
}

func (d *Drive) download(offset uint64, data []byte) nvmectrl.Status {
	<-time.After(d.config.PieceTime)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.core.Download(offset, data)
}

func (d *Drive) commit(slot int, action nvmectrl.Action) nvmectrl.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.core.Clone()
	status := next.Commit(slot, action)
	if d.keep(next) != nil {
		return nvmectrl.InternalError
	}
	return status
}
