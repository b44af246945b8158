package admintest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
)

// controller is an open drive.
type controller struct{ drive *Drive }

// Close implements admin.Controller.
func (*controller) Close() error { return nil }

// Do carries out a command as a drive does.
func (c *controller) Do(cmd *admin.Command, data []byte) (admin.Status, error) {
	if _, gone := c.drive.fault(Gone); gone {
		return 0, admin.ErrGone
	}
	if err := c.ready(); err != nil {
		return 0, err
	}
	s, err := c.drive.State()
	if err != nil {
		return 0, err
	}
	switch cmd.Opcode {
	case admin.OpcodeIdentify, admin.OpcodeGetLogPage:
		return c.read(s, cmd, data)
	case admin.OpcodeFirmwareDownload, admin.OpcodeFirmwareCommit, admin.OpcodeSanitize:
		if text, fails := c.drive.fault(Fail); fails {
			return 0, errors.New(text)
		}
		if _, lies := c.drive.fault(Lie); lies {
			return admin.Success, nil
		}
		if cmd.Opcode == admin.OpcodeFirmwareDownload {
			return c.download(s, cmd, data)
		}
		if cmd.Opcode == admin.OpcodeSanitize {
			status := s.StartSanitize(cmd.CDW10)
			return admin.Status(status), c.drive.save(s)
		}
		return c.commit(s, cmd)
	}
	return admin.Status(nvmectrl.InvalidOpcode), nil
}

// ready counts down the fault NotReady.
func (c *controller) ready() error {
	text, set := c.drive.fault(NotReady)
	if !set {
		return nil
	}
	left, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	if left == 0 {
		return c.drive.ClearFault(NotReady)
	}
	return errors.Join(admin.ErrNotReady, c.drive.SetFault(NotReady, strconv.Itoa(left-1)))
}

func (c *controller) read(s State, cmd *admin.Command, data []byte) (admin.Status, error) {
	if _, garbage := c.drive.fault(Garbage); garbage {
		for i := range data {
			data[i] = 0xa5
		}
		return admin.Success, nil
	}
	switch {
	case cmd.Opcode == admin.OpcodeIdentify && cmd.CDW10 == 1 && len(data) == 4096:
		s.Identify(data)
	case cmd.Opcode == admin.OpcodeIdentify:
		return admin.Status(nvmectrl.InvalidField), nil
	default:
		if uint8(cmd.CDW10) == nvmectrl.SlotLog && s.Sanitize.Blocks() != nvmectrl.Success {
			return admin.Status(s.Sanitize.Blocks()), nil
		}
		page := s.Log(uint8(cmd.CDW10))
		if page == nil || len(data) != len(page) || int(cmd.CDW10>>16+1)*4 != len(page) {
			return admin.Status(nvmectrl.InvalidLogPage), nil
		}
		copy(data, page)
		if uint8(cmd.CDW10) == nvmectrl.SanitizeLog && s.Sanitize.Advance() {
			return admin.Success, c.drive.save(s)
		}
	}
	return admin.Success, nil
}

func (c *controller) download(s State, cmd *admin.Command, data []byte) (admin.Status, error) {
	if err := c.hang(); err != nil {
		return 0, err
	}
	if _, gone := c.drive.fault(GoneInDownload); gone && cmd.CDW11 > 0 {
		return 0, errors.Join(admin.ErrGone, c.drive.SetFault(Gone, ""))
	}
	if (int(cmd.CDW10)+1)*4 != len(data) {
		return admin.Status(nvmectrl.InvalidField), nil
	}
	status := s.Download(4*uint64(cmd.CDW11), data)
	if status == nvmectrl.Success {
		s.Downloads++
	}
	return admin.Status(status), c.drive.save(s)
}

// hang waits until the fault Hang is cleared.
func (c *controller) hang() error {
	if _, hangs := c.drive.fault(Hang); !hangs {
		return nil
	}
	if err := c.drive.SetFault("hangs", ""); err != nil {
		return err
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		if _, hangs := c.drive.fault(Hang); !hangs {
			return os.Remove(filepath.Join(c.drive.dir, "hangs"))
		}
	}
	return nil
}

func (c *controller) commit(s State, cmd *admin.Command) (admin.Status, error) {
	slot, action := int(cmd.CDW10&7), nvmectrl.Action(cmd.CDW10>>3&7)
	s.Actions = append(s.Actions, admin.Action(action))
	status := s.commit(slot, action)
	if action == nvmectrl.ActivateNow && status == admin.Success && s.Settles > 0 {
		return status, errors.Join(c.drive.SetFault(NotReady, strconv.Itoa(s.Settles)), c.drive.save(s))
	}
	return status, c.drive.save(s)
}

// commit is Firmware Commit as this drive answers it.
func (s *State) commit(slot int, action nvmectrl.Action) admin.Status {
	now := action == nvmectrl.ActivateNow
	switch {
	case now && s.RefusesNow != admin.Success:
		return s.RefusesNow
	case !now && s.Refuses != admin.Success:
		return s.Refuses
	case slot == 0:
		// A drive may choose the slot, even the one that runs. This one refuses to, so that no driver leaves it the choice.
		return admin.InvalidSlot
	}
	status := s.Commit(slot, action)
	if !now && status.Committed() && s.Answer != admin.Success {
		return s.Answer
	}
	return admin.Status(status)
}

// Reset is a controller reset.
func (c *controller) Reset() error {
	if _, gone := c.drive.fault(Gone); gone {
		return admin.ErrGone
	}
	if _, gone := c.drive.fault(GoneInReset); gone {
		return errors.Join(admin.ErrNotReady, c.drive.SetFault(Gone, ""))
	}
	err := c.drive.Change(func(s *State) {
		s.Resets++
		if s.IgnoresResets {
			s.Buffer = nvmectrl.Buffer{}
		} else {
			s.Reset(nvmectrl.ControllerReset)
		}
	})
	if _, set := c.drive.fault(NotReady); set {
		return errors.Join(admin.ErrNotReady, err)
	}
	return err
}
