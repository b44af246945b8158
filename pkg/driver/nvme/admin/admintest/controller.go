package admintest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
)

// controller is a drive that was opened.
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
	const unknown admin.Status = 1
	switch cmd.Opcode {
	case admin.OpcodeIdentify, admin.OpcodeGetLogPage:
		return c.read(s, cmd, data)
	case admin.OpcodeFirmwareDownload, admin.OpcodeFirmwareCommit:
		if s.NoDownload {
			return unknown, nil
		}
		if text, fails := c.drive.fault(Fail); fails {
			return 0, errors.New(text)
		}
		if _, lies := c.drive.fault(Lie); lies {
			return admin.Success, nil
		}
		if cmd.Opcode == admin.OpcodeFirmwareDownload {
			return c.download(s, cmd, data)
		}
		return c.commit(s, cmd)
	}
	return unknown, nil
}

// ready counts down what is left of NotReady.
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
		s.identify(data)
	case cmd.Opcode == admin.OpcodeGetLogPage && cmd.CDW10&0xff == 3 && cmd.CDW10>>16 == 127 && len(data) == 512 && !s.NoSlotLog:
		data[0] = byte(s.Active | s.Next<<4)
		for i, revision := range s.Slots {
			if revision != "" {
				copy(data[8*(i+1):], fmt.Sprintf("%-8.8s", revision))
			}
		}
	case cmd.Opcode == admin.OpcodeGetLogPage:
		const invalidLogPage admin.Status = 0x109
		return invalidLogPage, nil
	default:
		const invalidField admin.Status = 2
		return invalidField, nil
	}
	return admin.Success, nil
}

// identify fills in the fields of Identify Controller.
func (s State) identify(data []byte) {
	binary.LittleEndian.PutUint16(data[0:], 0x1b36)
	copy(data[4:24], fmt.Sprintf("%-20.20s", s.Serial))
	copy(data[24:64], fmt.Sprintf("%-40.40s", s.Model))
	copy(data[64:72], fmt.Sprintf("%-8.8s", s.Running))
	data[77] = s.MDTS
	if !s.NoDownload {
		data[256] = 1 << 2
	}
	data[260] = byte(len(s.Slots) << 1)
	if s.FirstSlotReadOnly {
		data[260] |= 1
	}
	if s.ActivatesNow {
		data[260] |= 1 << 4
	}
	binary.LittleEndian.PutUint16(data[270:], uint16(s.MTFA/admin.MTFAUnit))
	data[319] = s.FWUG
}

func (c *controller) download(s State, cmd *admin.Command, data []byte) (admin.Status, error) {
	if err := c.hang(); err != nil {
		return 0, err
	}
	offset, length := int(cmd.CDW11)*4, (int(cmd.CDW10)+1)*4
	if _, gone := c.drive.fault(GoneInDownload); gone && offset > 0 {
		return 0, errors.Join(admin.ErrGone, c.drive.SetFault(Gone, ""))
	}
	const invalidField admin.Status = 2
	switch {
	case length != len(data), s.MDTS > 0 && length > 4096<<s.MDTS, s.FWUG != 0 && s.FWUG != 0xff && offset%(int(s.FWUG)*4096) != 0:
		return invalidField, nil
	case s.Strict && offset < len(s.Buffer):
		return admin.OverlappingRange, nil
	case offset == 0:
		s.Buffer = nil // most drives begin anew
	case offset != len(s.Buffer):
		return admin.OverlappingRange, nil
	}
	s.Buffer = append(s.Buffer, data...)
	s.Downloads++
	return admin.Success, c.drive.save(s)
}

// hang waits for the end of the fault.
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
	slot, action := int(cmd.CDW10&7), admin.Action(cmd.CDW10>>3&7)
	s.Actions = append(s.Actions, action)
	status := s.commit(slot, action)
	if action == admin.ActivateNow && status == admin.Success && s.Settles > 0 {
		return status, errors.Join(c.drive.SetFault(NotReady, strconv.Itoa(s.Settles)), c.drive.save(s))
	}
	return status, c.drive.save(s)
}

// commit is Firmware Commit. With admin.ActivateNow it stores what was downloaded, if anything was.
func (s *State) commit(slot int, action admin.Action) admin.Status {
	stores := action == admin.ReplaceAtReset || action == admin.ActivateNow && len(s.Buffer) > 0
	switch {
	case action == admin.ActivateNow && s.RefusesNow != admin.Success:
		return s.RefusesNow
	case action != admin.ActivateNow && s.Refuses != admin.Success:
		return s.Refuses
	case slot < 1 || slot > len(s.Slots) || stores && slot == 1 && s.FirstSlotReadOnly:
		return admin.InvalidSlot
	}
	if stores {
		revision, err := revisionOf(s.Buffer, s.Model)
		s.Buffer = nil
		if err != nil {
			return admin.InvalidImage
		}
		s.Slots[slot-1] = revision
	} else if s.Slots[slot-1] == "" {
		return admin.InvalidImage
	}
	s.Next = slot
	if action == admin.ActivateNow {
		s.activate()
		return admin.Success
	}
	return s.Commit
}

// Reset is a controller reset. It drops what was downloaded and not committed.
func (c *controller) Reset() error {
	if _, gone := c.drive.fault(Gone); gone {
		return admin.ErrGone
	}
	if _, gone := c.drive.fault(GoneInReset); gone {
		return errors.Join(admin.ErrNotReady, c.drive.SetFault(Gone, ""))
	}
	err := c.drive.Change(func(s *State) {
		s.Resets++
		s.Buffer = nil
		if s.ResetActivates {
			s.activate()
		}
	})
	if _, set := c.drive.fault(NotReady); set {
		return errors.Join(admin.ErrNotReady, err)
	}
	return err
}
