package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// The files of a write are named after its lock: the lock itself, what is recorded of the write, and its output.
const (
	lockSuffix   = ".lock"
	recordSuffix = ".json"
	outSuffix    = ".out"
	errSuffix    = ".err"
)

// save records the write durably. Only the process that holds the lock, or that got an order from the one that held it
// before, calls it.
func (w *Writing) save(base string) error {
	data, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encode record of write: %w", err)
	}
	return durable.WriteFile(durable.OS{}, base+recordSuffix, data)
}

// readRecord reads what was recorded of the last write; nil when nothing was. A record that cannot be understood is treated
// as none, because it must not prevent the next write.
func readRecord(base string) (*Writing, error) {
	data, err := os.ReadFile(base + recordSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record of write: %w", err)
	}
	w := &Writing{}
	if json.Unmarshal(data, w) != nil {
		return nil, nil
	}
	return w, nil
}

func ended(state *os.ProcessState) *Ended {
	e := &Ended{ExitCode: state.ExitCode(), Time: time.Now().UTC()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.ExitCode, e.Signal = -1, status.Signal().String()
	}
	return e
}

func kernelBootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}
