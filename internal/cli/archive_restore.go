package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/durable"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Restored is what was written back, for printing.
type Restored struct {
	UniqueID string `json:"uniqueID"`
	// Running is what the device ran before, and Version what was written.
	Running string `json:"running"`
	Version string `json:"version"`
	// Activation is what the device needs to run it: None, DeviceReset, DriverReload, Reboot or PowerCycle.
	Activation string `json:"activation"`

	needs inventory.Activation
}

func (r Restored) table(w io.Writer) error {
	_, err := fmt.Fprintf(w, "Restored %s to %s: %s.\n", r.Version, r.UniqueID, activationText(r.needs))
	return err
}

// Restore writes an entry of the archive back to its device. It refuses while a daemon runs, and if the entry is incomplete
// or was archived from an unhealthy host. The device is not activated.
func (a Archiving) Restore(ctx context.Context, entry string) (Restored, error) {
	return a.restore(ctx, entry, func(s *state.State) (driver.Image, archive.Manifest, error) { return s.Archive.Restorable(entry) })
}

// RestoreFrom is Restore with a directory that Backup made.
func (a Archiving) RestoreFrom(ctx context.Context, dir string) (Restored, error) {
	return a.restore(ctx, dir, func(*state.State) (driver.Image, archive.Manifest, error) {
		path, err := filepath.Abs(dir)
		if err != nil {
			return driver.Image{}, archive.Manifest{}, err
		}
		return archive.Load(durable.OS{}, path)
	})
}

// verified finds an image and verifies it.
type verified func(*state.State) (driver.Image, archive.Manifest, error)

func (a Archiving) restore(ctx context.Context, place string, find verified) (Restored, error) {
	var out Restored
	err := withState(a.StateDir, func(s *state.State) error {
		view, err := s.Journal.View()
		if err != nil {
			return err
		}
		if err := unfinished(view); err != nil {
			return err
		}
		img, m, err := find(s)
		if err != nil {
			return err
		}
		out, err = a.write(ctx, img, m)
		return err
	})
	if err != nil {
		return Restored{}, fmt.Errorf("restore %s: %w", place, err)
	}
	return out, nil
}

func (a Archiving) write(ctx context.Context, img driver.Image, m archive.Manifest) (Restored, error) {
	d, drv, err := a.device(ctx, m.UniqueID)
	if err != nil {
		return Restored{}, err
	}
	switch {
	case d.Class != m.Class:
		return Restored{}, fmt.Errorf("the image is of a %s and the device is a %s", m.Class, d.Class)
	case inventory.NormalizeID(d.BoardID) != inventory.NormalizeID(m.BoardID):
		return Restored{}, fmt.Errorf("the image is of board %q and the device is %q", m.BoardID, d.BoardID)
	}
	if err := drv.Check(ctx, d.Identity, img); err != nil {
		return Restored{}, err
	}
	_, _ = fmt.Fprintf(a.Log, "Writing %s to %s, which runs %s.\n", img.Version, d.UniqueID, d.Firmware.Running)
	needs, err := drv.Write(ctx, d.Identity, img, a.progress())
	if err != nil {
		return Restored{}, err
	}
	return Restored{
		UniqueID: d.UniqueID, Running: string(d.Firmware.Running), Version: string(img.Version), Activation: needs.String(), needs: needs,
	}, nil
}

// progress prints how far a write is, in steps of ten percent.
func (a Archiving) progress() driver.Progress {
	printed := 0
	return func(percent int) {
		if percent/10 > printed {
			printed = percent / 10
			_, _ = fmt.Fprintf(a.Log, "%d%% written\n", printed*10)
		}
	}
}
