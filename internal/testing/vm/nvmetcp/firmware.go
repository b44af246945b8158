package nvmetcp

import (
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// downloadPiece is the Firmware Image Download command.
func (d *Drive) downloadPiece(t *task) completion {
	if s := d.faults.download(d, t); s != nvmectrl.Success {
		return failed(s)
	}
	if 4*(uint64(t.dword(10))+1) != uint64(len(t.data)) {
		return failed(DataLengthInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return failed(d.core.Download(4*uint64(t.dword(11)), t.data))
}

// commit is the Firmware Commit command.
func (d *Drive) commit(c *controller, t *task) completion {
	if s := d.faults.commit(t); s != nvmectrl.Success {
		return failed(s)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	commit := d.core.Judge(int(t.dword(10)&0x07), nvmectrl.Action(t.dword(10)>>3&0x07))
	if commit.Stores && d.faults.lies() {
		return completion{}
	}
	if next := d.core.Clone(); next.CarryOut(commit) {
		if err := d.keep(next); err != nil {
			d.config.Log.Error("Could not store firmware", "slot", commit.Slot, "error", err)
			return failed(nvmectrl.InternalError)
		}
	}
	d.config.Log.Info("Ended a commit of firmware", "slot", commit.Slot, "action", commit.Action,
		"revision", commit.Image.Revision, "status", commit.Status)
	if commit.Activates {
		return failed(d.activateNow(c, t, commit))
	}
	return failed(commit.Status)
}

// activateNow activates without a reset. The image is stored before, so a power cut meanwhile leaves it in its slot. The
// caller holds d.mu, which is released while the drive is busy.
func (d *Drive) activateNow(c *controller, t *task, commit nvmectrl.Commit) nvmectrl.Status {
	d.readyAt = time.Now().Add(commit.Pause)
	until := d.readyAt
	d.mu.Unlock()
	c.pause(until)
	s := t.wait(nil, commit.Pause)
	c.resume()
	d.mu.Lock()
	d.readyAt = time.Time{}
	if s != nvmectrl.Success {
		return s
	}
	next := d.core.Clone()
	if s := next.Activate(commit.Slot); s != nvmectrl.Success {
		return s
	}
	if d.keepActivated(next) != nil {
		return nvmectrl.InternalError
	}
	return nvmectrl.Success
}

// reset resets the drive and returns the time at which it is ready.
func (d *Drive) reset(r nvmectrl.Reset) (readyAt time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.core.Clone()
	activated := next.Reset(r)
	d.core.Buffer = next.Buffer // the pieces are gone even where the drive cannot activate
	if !activated {
		return d.readyAt, nil
	}
	if err := d.keepActivated(next); err != nil {
		return d.readyAt, err
	}
	d.readyAt = time.Now().Add(d.config.ActivationTime)
	return d.readyAt, nil
}

func (d *Drive) keepActivated(next nvmectrl.Controller) error {
	if err := d.keep(next); err != nil {
		d.config.Log.Error("Could not activate firmware", "slot", next.Active, "error", err)
		return err
	}
	d.config.Log.Info("Activated firmware", "slot", next.Active, "revision", next.Running.Revision)
	return nil
}
