package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// Drive is an NVMe drive that the agent emulates and the machine's kernel connects to over TCP.
type Drive struct {
	Model, Serial, Revision string
	Activation              nvmectrl.Activation
	Port                    int
	// PieceTime is how long each piece of an image takes.
	PieceTime time.Duration
}

// drivesWanted marks that the drives were plugged in.
const drivesWanted = StateDir + "/drives-wanted"

// plugDrives turns the drives on and connects the kernel to them, unless they are. They stay until the machine goes
// down, and keep their content over reboots.
func (s *server) plugDrives() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drives != nil {
		return nil
	}
	s.drives = map[string]*nvmetcp.Drive{}
	if err := os.MkdirAll(flashDir, 0o755); err != nil {
		return fmt.Errorf("plug drives in: %w", err)
	}
	for _, c := range s.config.Drives {
		d, err := nvmetcp.Open(filepath.Join(flashDir, c.Serial), nvmetcp.Config{
			Profile:  nvmectrl.Profile{Model: c.Model, Serial: c.Serial, Activation: c.Activation, RestartsAtZero: true},
			Revision: c.Revision, PieceTime: c.PieceTime,
		})
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)))
		if err != nil {
			return fmt.Errorf("plug drive %s in: %w", c.Serial, err)
		}
		// Not stopped in order with the rest: a drive has power until the machine has none.
		go func() { s.failed <- nvmetcp.Serve(listener, d) }()
		if err := connect(d.NQN(), c.Port); err != nil {
			return fmt.Errorf("plug drive %s in: %w", c.Serial, err)
		}
		s.drives[c.Serial] = d
	}
	return nil
}

// connect asks the kernel's initiator to connect to a drive (drivers/nvme/host/fabrics.c).
func connect(nqn string, port int) error {
	file, err := os.OpenFile("/dev/nvme-fabrics", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "transport=tcp,traddr=127.0.0.1,trsvcid=%d,nqn=%s", port, nqn); err != nil {
		return fmt.Errorf("connect to %s: %w", nqn, err)
	}
	return nil
}

// drivesPlugged reports whether the drives were plugged in at an earlier boot.
func drivesPlugged() (bool, error) {
	_, err := os.Stat(drivesWanted)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (s *server) plug(*http.Request) (any, error) {
	return "plugged in", errors.Join(os.WriteFile(drivesWanted, nil, 0o644), s.plugDrives())
}

// drive is what a drive holds.
func (s *server) drive(r *http.Request) (any, error) {
	s.mu.Lock()
	d := s.drives[r.PathValue("serial")]
	s.mu.Unlock()
	if d == nil {
		return nil, fmt.Errorf("there is no drive %q", r.PathValue("serial"))
	}
	return d.Firmware(), nil
}
