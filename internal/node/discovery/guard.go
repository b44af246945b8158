package discovery

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/internal/node/devicename"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// guard keeps a scan from reading a device that is being written. A job journals a step that writes before it reads the
// device for the last time, and a device is read by one reader at a time, so a reading that was allowed ends before the write
// begins. No reading is killed for that, because a tool that dies may leave the device locked.
func (d *Discovery) guard(id inventory.Identity) error {
	view, err := d.config.Journal.View()
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if u := recordsOf(view).written; u != nil && d.mayBe(id, *u) {
		return busy(*u)
	}
	for _, job := range view.Jobs { // a write continues though its job was given up, or its process ended
		for _, u := range job.Updates {
			if u.Class != id.Class {
				continue
			}
			running, err := d.config.Writes.WriteRunning(u.UniqueID)
			if err != nil {
				return err
			}
			if running && d.mayBe(id, u) {
				return busy(u)
			}
		}
	}
	return nil
}

func busy(u journal.Update) error {
	return fmt.Errorf("%s is being written to; it is read again when that has ended", u.Device)
}

// mayBe reports whether a device as sysfs shows it may be that of an update. Its driver may know it by another id: then it
// is recognised by its place in the last scan, and if that has none, any device of the class may be the one.
func (d *Discovery) mayBe(id inventory.Identity, u journal.Update) bool {
	if id.Class != u.Class || id.UniqueID == u.UniqueID {
		return id.Class == u.Class
	}
	last, _ := d.Snapshot()
	for _, known := range last.Devices {
		if known.Class == u.Class && known.UniqueID == u.UniqueID {
			return devicename.Where(known.Identity) == devicename.Where(id)
		}
	}
	return true
}
