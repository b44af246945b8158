package step

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// A boot is slow where it took more than slowFactor times as long as the boot before the job, and slowMargin longer. Half a minute is what
// boots of one server differ by without a cause that lasts, such as a second try to get an address or the check of a file system.
const (
	slowFactor = 2
	slowMargin = 30 * time.Second
)

// BootTime is how long the parts of a boot took. A part that is not known is zero.
type BootTime struct {
	// Firmware is from the reset until the boot loader began, by the clock that By names.
	Firmware time.Duration `json:"firmware,omitzero"`
	By       string        `json:"by,omitempty"`
	// System is from the start of the kernel until the host's own services could start.
	System time.Duration `json:"system,omitzero"`
}

// since is how long the boot took and how long the one before, in the parts that are known of that one. What is not known of this one
// took as long as before: it is no evidence.
func (b BootTime) since(before BootTime) (took, was time.Duration) {
	firmware, system := before.Firmware, cmp.Or(b.System, before.System)
	if b.Firmware > 0 && b.By == before.By {
		firmware = b.Firmware
	}
	if before.System == 0 {
		system = 0
	}
	return firmware + system, before.Firmware + before.System
}

// Slow says for people that the boot was slow; empty where it was not, or nothing is known of one of the two.
func (b BootTime) Slow(before BootTime) string {
	took, was := b.since(before)
	if was == 0 || took <= slowFactor*was || took < was+slowMargin {
		return ""
	}
	return fmt.Sprintf("the node took %s to boot, %s before the update", took.Round(time.Second), was.Round(time.Second))
}

// slowBoot says that the boot which activated the firmware of the job was slow; empty where it was not. The time of the system says
// nothing where the reboot started another kernel.
func (d decider) slowBoot() string {
	if d.s.Rollback || d.r.Reboots() == 0 || len(d.r.changed()) == 0 {
		return ""
	}
	boot := d.f.Boot
	if d.f.OtherKernel != "" {
		boot.System = 0
	}
	return boot.Slow(d.f.BootBefore)
}

// mayBootOnce reports whether the host may boot once more to see whether it is slow again: the boot that follows a write may be so by
// nature, because memory is trained again or a capsule takes two resets.
func (d decider) mayBootOnce() bool { return d.mayReboot() && d.slowBoot() != "" }

// mayReboot reports whether the job may reboot the host for a second boot. It does so once, and keeps a reboot for its rollback.
func (d decider) mayReboot() bool {
	return !d.s.Rollback && !d.r.SecondBoot && d.r.Failure == nil && d.r.rebootAttempts() < d.r.updateReboots()
}

// stillSlow says that the host booted slowly a second time; empty where it did not.
func (d decider) stillSlow() string {
	if !d.r.SlowBoot || d.r.Reboots() <= d.r.Rebooted {
		return ""
	}
	return d.slowBoot()
}

// passed ends the gate of a healthy host.
func (d decider) passed() Action {
	a := d.succeed("the host is as healthy as before")
	if slow := d.stillSlow(); slow != "" {
		a.Complaints = []Complaint{{Subject: Subject{Kind: BootSubject}, Message: slow + "; two boots in a row were slow"}}
		a.Message = "the host is as healthy as before, but " + a.Complaints[0].Message
	}
	return a
}

// rebootUnless is a step of the reboot. One that was only to see whether the host boots slowly again is left out where it cannot be made:
// the host is well. One that the host accepted and has not made may still come, and must find no workloads.
func (d decider) rebootUnless(a Action) Action {
	accepted := d.s.State != Pending && !d.refused() && d.f.BootID == d.s.BootID
	if a.Failure == nil || !d.r.SlowBoot || d.s.Rollback || accepted {
		return a
	}
	return d.skip("whether the node boots slowly again is not known: " + a.Message)
}

// slowReboot begins the second boot of a healthy host.
func (d decider) slowReboot() Action {
	return Action{Verb: RebootAgain, Step: d.i, Message: d.slowBoot() +
		"; the first boot with other firmware may be slow by nature, so the host reboots once more before that counts"}
}

// forSpeed reports whether the action is the second boot of a host whose first one was slow.
func (r Record) forSpeed(a Action) bool { return r.Steps[a.Step].Kind == plan.Health }
