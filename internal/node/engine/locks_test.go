package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/luks"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// locks is a host with encrypted disks.
type locks struct {
	uses
	of    map[string]luks.Header
	err   error
	noTPM bool
	// asked counts the questions, and from the one whose number is reads on nothing is wrong with the disks; never where it is zero.
	asked, reads int
}

func (l *locks) Locks(context.Context) (map[string]luks.Header, bool, error) {
	if l.asked++; l.reads > 0 && l.asked >= l.reads {
		return l.of, !l.noTPM, nil
	}
	return l.of, !l.noTPM, l.err
}

func TestADiskThatTheTPMAloneOpensIsSeenBeforeTheWrite(t *testing.T) {
	to := func(pcrs ...int) *locks {
		return &locks{of: map[string]luks.Header{"sda3": {Keys: 1, Ways: []luks.Way{{Name: "token 0 (systemd-tpm2)", PCRs: pcrs}}}}}
	}
	for name, c := range map[string]struct {
		host    *locks
		class   inventory.Class
		lenient bool
		// says is in the refusal; empty where the job goes.
		says []string
	}{
		"a BIOS and Secure Boot":     {to(7), inventory.BIOS, false, []string{"sda3", "token 0 (systemd-tpm2)", "0, 1, 2, 3, 7", "nothing was changed", "take Unlock from"}},
		"an adapter and option ROMs": {to(2), inventory.NIC, false, []string{"sda3", "2, 3"}},
		"an adapter and Secure Boot": {to(7), inventory.NIC, false, nil},
		"the policy does not ask":    {to(7), inventory.BIOS, true, nil},
		"a header that is damaged":   {&locks{err: errors.New("its checksum is wrong")}, inventory.BIOS, false, []string{"its checksum is wrong"}},
		"no encrypted disk":          {&locks{}, inventory.BIOS, false, nil},
		"no TPM":                     {&locks{of: to(7).of, noTPM: true}, inventory.BIOS, false, nil},
		"no TPM and no header":       {&locks{err: errors.New("its checksum is wrong"), noTPM: true}, inventory.BIOS, false, nil},
		"a disk that answers later":  {&locks{err: errors.New("input/output error"), reads: 3}, inventory.BIOS, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				m.Uses = c.host
				j := m.Job("j", m.Add(c.class, "device", inventory.ActivateReboot))
				j.UnlockRequired = !c.lenient
				view := m.Run(j)
				if c.says == nil {
					requireComplete(t, m, view, "j")
					said := view.Job("uid-j").Record.Steps[0].Returned.Message
					if assert.Equal(t, c.lenient, said != ""); c.lenient {
						assert.Contains(t, said, "sda3 after the reboot", "the condition Protected has it")
					}
					return
				}
				failed := requireFailed(t, view, "j", step.UnlockUnavailable, false)
				for _, says := range c.says {
					assert.Contains(t, failed.Record.Failure.Message, says)
				}
				assert.Empty(t, m.Sim.Operations())
				assert.Zero(t, m.Window.Scheduled, "the node was not drained for it")
			})
		})
	}
}

func TestAnUpdateThatRunsAlreadyIsNotRefusedForTheTPM(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Uses = &locks{err: errors.New("its checksum is wrong")}
		j := m.Job("j", m.Add(inventory.BIOS, "bios", inventory.ActivateReboot))
		m.Sim.SetFirmware("bios", inventory.Firmware{Running: "2.0", Stored: "2.0", Activation: inventory.ActivateReboot})
		j.UnlockRequired = true
		assert.Equal(t, step.Complete, m.Run(j).Job("uid-j").Record.Outcome)
	})
}
