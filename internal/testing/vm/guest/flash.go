package guest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
)

// flashDir is where the emulated devices keep what survives a reboot.
const flashDir = StateDir + "/flash"

// flashPeriod is how often the devices' values are saved. A real device has saved them when it reports them.
const flashPeriod = 50 * time.Millisecond

// parameters inserts the devices' saved values into the parameters of a module.
func parameters(text, dir string, flash []Flash) (string, error) {
	for _, f := range flash {
		kept, err := os.ReadFile(filepath.Join(dir, f.Name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			kept = []byte(f.Default)
		case err != nil:
			return "", err
		}
		text = strings.ReplaceAll(text, "{"+f.Name+"}", string(kept))
	}
	return text, nil
}

// keepFlash saves the devices' values whenever they change, until the context ends.
func keepFlash(ctx context.Context, dir string, flash []Flash) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tick := time.NewTicker(flashPeriod)
	defer tick.Stop()
	for {
		if err := saveFlash(dir, flash); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func saveFlash(dir string, flash []Flash) error {
	for _, f := range flash {
		now, err := os.ReadFile(f.Source)
		if err != nil {
			continue // the device's module is not loaded
		}
		now = bytes.TrimSpace(now)
		path := filepath.Join(dir, f.Name)
		if kept, err := os.ReadFile(path); err == nil && bytes.Equal(kept, now) {
			continue
		}
		if err := durable.WriteFile(durable.OS{}, path, now); err != nil {
			return err
		}
	}
	return nil
}
