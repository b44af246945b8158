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
	case dev.Running == want:
		return d.succeed("the device runs " + string(want))
	case d.keptForPower(dev, want):
		return d.fail(PowerCycleRequired, "after a reboot the device still runs %s: %s", dev.Running, powerCycle(want))
	default:
		a = d.fail(VerifyFailed, "the device runs %s instead of %s%s", dev.Running, want, dev.refusal())
	}
	if a.Failure != nil && !d.s.Rollback && d.r.Touched(d.s.Device) {
		a.Failure.Blames = []string{d.s.Device}
	}
	return a
}

// keptForPower reports whether the device still stores the version after the reboot that should have activated it. That is
// no fault of the image: some devices run another one only once their power was off.
func (d decider) keptForPower(dev Device, want inventory.Version) bool {
	return d.activatedByBoot() && (dev.Stored == want || dev.Stored == "" && slices.Contains(dev.Slots, want))
}

// powerCycle says what a person does so that the device runs the version it stores.
func powerCycle(stored inventory.Version) string {
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
	case d.l.Boot > 0 && d.f.BootTook > d.l.Boot && d.r.Reboots() > 0 && !d.s.Rollback:
		return d.unhealthy([]Complaint{{Message: fmt.Sprintf("the node took %s to boot, longer than the %s it may take",
			d.f.BootTook.Round(time.Second), d.l.Boot)}})
	case d.f.Isolation != nil:
		return d.isolated(*d.f.Isolation)
	case !d.f.HealthKnown:
		return d.await("the health of the host is not known: " + d.f.HealthMessage)
	case len(d.f.Unhealthy) == 0 && d.f.Clean < d.l.Soak:
		return d.await(fmt.Sprintf("the host is as healthy as before; it has to stay so for %s", d.l.Soak))
	case len(d.f.Unhealthy) == 0:
		return d.succeed("the host is as healthy as before")
	case d.f.Complaining < d.l.Health && d.f.Waited < d.l.Health+d.l.Soak:
		return d.await("not yet as healthy as before: " + join(d.f.Unhealthy))
	}
	return d.unhealthy(d.f.Unhealthy)
}

// isolated decides without the API server. The host gives up the new firmware when it reached the API server before and
// is itself worse in a way that its own update explains. While it is not, the API server may be what is down, and the host
// waits without a limit: it is out of service, and nothing that it could do would help.
func (d decider) isolated(i Isolation) Action {
	switch complaints := d.explained(); {
	case !i.Reached:
		return d.await("the health of the host is not known: " + i.Message)
	case len(complaints) == 0 && i.Lasted == 0:
		return d.await("waiting indefinitely for the API server: nothing the job changed explains why it is unreachable: " + i.Message)
	case len(complaints) == 0:
		return d.await("waiting for the API server; a problem with what the job changed has just cleared: " + i.Message)
	case i.Lasted >= d.l.Isolation:
		a := d.unhealthy(d.f.Unhealthy)
		a.Message = text.Clip(a.Message+"; the API server cannot be asked: "+i.Message, maxMessage)
		a.Failure.Message = a.Message
		if networkOnly(complaints) {
			a.Failure.Evidence = Network
		}
		return a
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

// explained lists the complaints about devices that the job changed.
func (d decider) explained() []Complaint {
	touched := d.r.touched()
	return slices.DeleteFunc(slices.Clone(d.f.Unhealthy), func(c Complaint) bool { return !slices.Contains(touched, c.Device) })
}

// networkOnly reports whether something outside the host, such as a switch, explains the complaints too.
func networkOnly(complaints []Complaint) bool {
	return !slices.ContainsFunc(complaints, func(c Complaint) bool { return c.Evidence != Network })
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

// unhealthy blames the devices of the job named in the complaints or, when no complaint names one, all devices that
// were changed.
func (d decider) unhealthy(complaints []Complaint) Action {
	a := d.fail(Unhealthy, "%s", join(complaints))
	a.Complaints = complaints
	if d.s.Rollback {
		return a
	}
	touched := d.r.touched()
	for _, c := range complaints {
		if slices.Contains(touched, c.Device) && !slices.Contains(a.Failure.Blames, c.Device) {
			a.Failure.Blames = append(a.Failure.Blames, c.Device)
		}
	}
	if len(a.Failure.Blames) == 0 {
		a.Failure.Blames = touched
	}
	return a
}

func join(complaints []Complaint) string {
	var text []string
	for _, c := range complaints {
		text = append(text, c.Message)
	}
	return strings.Join(text, "; ")
}
