package step

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (d decider) verify() Action {
	dev, want := d.f.Devices[d.s.Device], d.want()
	var a Action
	switch {
	case d.fresh():
		return d.begin()
	case dev.WriteRunning:
		return d.await(dev.busy())
	case !dev.answers():
		a = d.awaitAnswer(VerifyFailed, dev.complaint())
	case dev.Running == want && dev.Refusal != "" && d.activatedByBoot():
		a = d.fail(VerifyFailed, "the device runs %s, but%s", want, strings.TrimPrefix(dev.refusal(), ":"))
	case want == "" || dev.Running == want:
		return d.readBack(dev, want)
	case d.keptForPower(dev, want):
		return d.fail(PowerCycleRequired, "after a reboot the device still runs %s: %s", dev.Running, powerCycle(string(want)))
	case d.mayTakeAnotherBoot(dev):
		return Action{Verb: RebootAgain, Step: d.i, Message: fmt.Sprintf(
			"the device still runs %s; some take their image only at a second boot, so the host reboots once more", dev.Running)}
	case d.wantsAnotherBoot(dev) && !d.r.SecondBoot && d.r.Failure == nil:
		return d.fail(VerifyFailed, "the device still runs %s. Some take their image only at a second boot, which the job could not try: it has requested "+
			"%d reboots, and keeps the last for a rollback. Reboot the node and see what the device runs", dev.Running, d.r.rebootAttempts())
	case d.r.SecondBoot:
		a = d.fail(VerifyFailed, "after two reboots the device runs %s instead of %s%s", dev.Running, want, dev.refusal())
	default:
		a = d.fail(VerifyFailed, "the device runs %s instead of %s%s", dev.Running, want, dev.refusal())
	}
	if a.Failure != nil && !d.s.Rollback && d.r.Touched(d.s.Device) {
		a.Failure.Blames = []string{d.s.Device}
	}
	return a
}

// mayTakeAnotherBoot reports whether the device, which runs what it ran before, may run its image after another reboot.
func (d decider) mayTakeAnotherBoot(dev Device) bool {
	return d.mayReboot() && d.wantsAnotherBoot(dev)
}

// wantsAnotherBoot reports whether a device that runs what it ran before may be one that takes its image at the second boot.
func (d decider) wantsAnotherBoot(dev Device) bool {
	u := d.r.update(d.s.Device)
	return !d.s.Rollback && d.activatedByBoot() && dev.Refusal == "" && u.From != "" && dev.Running == u.From
}

// keptForPower reports whether the device still stores the version after the reboot that should have activated it. That is
// no fault of the image: some devices run another one only once their power was off.
func (d decider) keptForPower(dev Device, want inventory.Version) bool {
	return d.activatedByBoot() && (dev.Stored == want || dev.Stored == "" && slices.Contains(dev.Slots, want))
}

// powerCycle says what a person does so that the device runs the version it stores.
func powerCycle(stored string) string {
	return fmt.Sprintf("it has stored %s and runs it only after a power cycle. Shut the node down, cut its power for ten seconds "+
		"(a warm reboot is not enough), start it, then set spec.requests.retry of its NodeFirmware to a new value: nothing is written again", stored)
}

// activatedByBoot reports whether the host has rebooted to activate what the job wrote or found written. Only then is
// what the device reports about its last image about that image, and not left over from an earlier attempt.
func (d decider) activatedByBoot() bool {
	wrote, u := d.r.writeOf(d.s.Device, d.s.Rollback), d.r.update(d.s.Device)
	return wrote != nil && wrote.BootID != "" && wrote.BootID != d.f.BootID && u != nil && u.Needs == inventory.ActivateReboot
}

// want is the version the device of the step should run when the step is done.
func (d decider) want() inventory.Version { return d.r.Target(d.s.Device, d.s.Rollback) }

func (d Device) refusal() string {
	if d.Refusal == "" {
		return ""
	}
	return ": " + d.Refusal
}

func (d decider) health() Action {
	switch {
	case d.fresh():
		return d.begin()
	case d.l.Boot > 0 && d.f.Boot.System > d.l.Boot && d.bootCounts():
		return d.unhealthy([]Complaint{{Subject: Subject{Kind: BootSubject}, Message: fmt.Sprintf(
			"the node took %s to boot, longer than the %s it may take", d.f.Boot.System.Round(time.Second), d.l.Boot)}}, "")
	case d.f.Isolation != nil:
		return d.isolated(*d.f.Isolation)
	case !d.f.HealthKnown:
		return d.await("the health of the host is not known: " + d.f.HealthMessage)
	case len(d.f.Unhealthy) == 0 && d.mayBootOnce():
		return d.slowReboot()
	case len(d.f.Unhealthy) == 0 && d.f.Clean < d.l.Soak:
		return d.await(fmt.Sprintf("the host is as healthy as before; it has to stay so for %s", d.l.Soak))
	case len(d.f.Unhealthy) == 0:
		return d.passed()
	case d.f.Complaining < d.l.Health && d.f.Waited < d.l.Health+d.l.Soak:
		return d.await("not yet as healthy as before: " + join(d.f.Unhealthy))
	}
	return d.unhealthy(d.f.Unhealthy, "")
}

// bootCounts reports whether a boot that took too long counts. In a rollback it does where it did with the new firmware, and the host has
// booted with the previous one: the machine may be one that boots slowly.
func (d decider) bootCounts() bool {
	if !d.s.Rollback {
		return d.r.Reboots() > 0
	}
	again := slices.ContainsFunc(d.r.Steps, func(s Step) bool { return s.Rollback && s.Kind == plan.Reboot && s.State == Succeeded })
	return again && slices.ContainsFunc(d.r.Failure.Complaints, func(c Complaint) bool { return c.Subject.Kind == BootSubject })
}

// isolated decides without the API server. The host gives up the new firmware when it reached the API server before and
// is itself worse in a way that its own update explains. While it is not, the API server may be what is down, and the host
// waits without a limit: it is out of service, and nothing that it could do would help.
func (d decider) isolated(i Isolation) Action {
	switch explained := len(d.r.Suspects(d.f.Unhealthy)) > 0; {
	case !i.Reached:
		return d.await("the health of the host is not known: " + i.Message)
	case !explained && i.Lasted == 0:
		return d.await("waiting indefinitely for the API server: nothing the job changed explains why it is unreachable: " + i.Message)
	case !explained:
		return d.await("waiting for the API server; a problem with what the job changed has just cleared: " + i.Message)
	case i.Lasted >= d.l.Isolation:
		return d.unhealthy(d.f.Unhealthy, "; the API server cannot be asked: "+i.Message)
	}
	return d.await(fmt.Sprintf("cut off from the API server, possibly by what the job changed: %s; unless that changes, %s at %s: %s",
		join(d.f.Unhealthy), d.giveUp(), i.Until.UTC().Format(time.RFC3339), i.Message))
}

// giveUp says what happens when the wait for the API server ends.
func (d decider) giveUp() string {
	if d.s.Rollback {
		return "the job stops and waits for a person"
	}
	return "the previous firmware is restored"
}

// verdictVoid reports whether the verdict that lets the node return to service is from another boot.
func (r Record) verdictVoid(bootID string) bool {
	return !r.Released && r.Verdict != nil && r.Verdict.Healthy && r.Verdict.BootID != bootID && r.gate() >= 0
}

// gate is the index of the health step that gave the last verdict, -1 when there is none.
func (r Record) gate() int {
	for i, s := range slices.Backward(r.Steps) {
		if s.Kind == plan.Health && s.State == Succeeded {
			return i
		}
	}
	return -1
}

// unhealthy ends the gate with what is wrong, and judges whose firmware is to blame.
func (d decider) unhealthy(complaints []Complaint, more string) Action {
	wrong := join(complaints) + more
	if d.s.Rollback {
		return d.stillUnhealthy(complaints, wrong)
	}
	j := Case{Changed: d.r.changed(), With: complaints}.Judge()
	for _, sentence := range []string{j.Message, d.otherKernel()} {
		if sentence != "" {
			wrong += ". " + sentence
		}
	}
	a := d.fail(Unhealthy, "%s", wrong)
	a.Complaints, a.Failure.Complaints, a.Failure.Blames, a.Failure.Evidence = complaints, complaints, j.Devices, j.Evidence
	return a
}

// stillUnhealthy ends the gate of a rollback. What failed before the gate of the update did is judged by itself.
func (d decider) stillUnhealthy(complaints []Complaint, wrong string) Action {
	a := d.fail(Unhealthy, "%s", wrong)
	a.Complaints, a.Failure.Complaints = complaints, complaints
	restored := d.r.Rollback.Devices
	a.Failure.Message = text.Clip(fmt.Sprintf("the previous firmware runs again on %s, and the node is still unhealthy: %s",
		strings.Join(restored, ", "), wrong), maxMessage)
	if len(d.r.Failure.Complaints) > 0 {
		j := Case{
			Changed: d.r.changed(), With: d.r.Failure.Complaints, Restored: restored, Without: complaints, Alone: d.f.Isolation != nil,
		}.Judge()
		a.Judgement = &j
	}
	return a
}

// otherKernel says that the reboot changed more than the firmware; empty where it did not.
func (d decider) otherKernel() string {
	if d.f.OtherKernel == "" {
		return ""
	}
	return "The reboot also started another kernel (" + d.f.OtherKernel + ")"
}

func join(complaints []Complaint) string {
	var text []string
	for _, c := range complaints {
		text = append(text, c.Message)
	}
	return strings.Join(text, "; ")
}
