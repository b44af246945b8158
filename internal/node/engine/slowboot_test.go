package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/enginetest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/luks"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// firmwareTakes is a boot whose firmware takes so long.
func firmwareTakes(t time.Duration) step.BootTime {
	return step.BootTime{Firmware: t, By: "clock", System: 20 * time.Second}
}

// What is slow twice is told with the verdict; nothing is rolled back, and the journal keeps both times.
func TestSlowImageIsTold(t *testing.T) {
	const usual, slow = time.Minute, 5 * time.Minute
	for name, c := range map[string]struct {
		boots   []time.Duration // the second boot of the machine and the next ones
		reboots int
		told    bool
	}{
		"every boot is slow":           {[]time.Duration{slow, slow, slow}, 2, true},
		"only the boot that activates": {[]time.Duration{slow, usual, usual}, 2, false},
		"none is":                      {[]time.Duration{usual, usual, usual}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				m.BootTime = firmwareTakes(usual)
				m.OnBoot = func() { m.BootTime = firmwareTakes(c.boots[m.Boot-2]) }
				j := requireComplete(t, m, m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))), "j")
				assert.Equal(t, c.reboots, m.Sim.Count(drivertest.OpReboot, ""))
				assert.Equal(t, firmwareTakes(usual), j.Baseline.Boot)
				assert.Equal(t, 1, m.Sim.Count(drivertest.OpWrite, "nic0"), "nothing is rolled back")
				v := j.Verdict()
				if !c.told {
					assert.Empty(t, v.Complaints)
					return
				}
				assert.Equal(t, []string{"the node took 5m20s to boot, 1m20s before the update; two boots in a row were slow"}, v.Complaints)
			})
		})
	}
}

// A host that says nothing of its boots is never slow.
func TestUnknownBootTimeIsNoEvidence(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.OnBoot = func() { m.BootTime = firmwareTakes(time.Hour) }
		j := requireComplete(t, m, m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))), "j")
		assert.Equal(t, 1, m.Sim.Count(drivertest.OpReboot, ""))
		assert.Empty(t, j.Verdict().Complaints)
	})
}

// A person who types a passphrase may take hours, which says nothing of the firmware. The journal alone knows of it after the reboot.
func TestTimeAtAPromptIsNoSlowBoot(t *testing.T) {
	tang, tpm := luks.Way{Name: "token 0 (clevis)"}, luks.Way{Name: "token 0 (systemd-tpm2)", PCRs: []int{2}}
	of := func(h luks.Header) *locks { return &locks{of: map[string]luks.Header{"sda3": h}} }
	slowSystem := step.BootTime{Firmware: time.Minute, By: "clock", System: 10 * time.Minute}
	for name, c := range map[string]struct {
		host *locks
		boot step.BootTime
		told bool
	}{
		"opened by a passphrase":           {of(luks.Header{Keys: 1}), slowSystem, false},
		"opened by the TPM until then":     {of(luks.Header{Keys: 1, Ways: []luks.Way{tpm}}), slowSystem, false},
		"nobody knows what opens it":       {&locks{err: errors.New("its checksum is wrong")}, slowSystem, false},
		"opened by tang":                   {of(luks.Header{Keys: 1, Ways: []luks.Way{tang}}), slowSystem, true},
		"not encrypted":                    {&locks{}, slowSystem, true},
		"a passphrase, and firmware waits": {of(luks.Header{Keys: 1}), firmwareTakes(4 * time.Minute), true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				m.Uses, m.BootTime = c.host, firmwareTakes(time.Minute)
				m.OnBoot = func() { m.BootTime = c.boot }
				j := requireComplete(t, m, m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))), "j")
				assert.Equal(t, c.told, m.Sim.Count(drivertest.OpReboot, "") == 2)
				assert.Equal(t, c.told, len(j.Verdict().Complaints) > 0, j.Verdict().Complaints)
			})
		})
	}
}

func TestTimeAtAPromptRollsNothingBack(t *testing.T) {
	inBubble(t, func(t *testing.T, m *enginetest.Machine) {
		m.Uses, m.Limits = &locks{of: map[string]luks.Header{"sda3": {Keys: 1}}}, step.DefaultLimits()
		m.OnBoot = func() { m.BootTime = step.BootTime{System: 10 * time.Hour} }
		requireComplete(t, m, m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))), "j")
	})
}

// The reboot takes five minutes here: no firmware has worked for longer.
func TestAFirmwareClockThatBeganBeforeTheRebootIsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		took time.Duration
		told bool
	}{
		"as long as the reboot":        {5 * time.Minute, true},
		"longer than the whole reboot": {5*time.Minute + time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *enginetest.Machine) {
				m.BootTime = firmwareTakes(time.Minute)
				m.OnBoot = func() { m.BootTime = firmwareTakes(c.took) }
				j := requireComplete(t, m, m.Run(m.Job("j", m.ReadBackNIC(inventory.ActivateReboot))), "j")
				assert.Equal(t, c.told, len(j.Verdict().Complaints) > 0, j.Verdict().Complaints)
			})
		})
	}
}
