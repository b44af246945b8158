package step

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
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
	default:
		a = d.fail(VerifyFailed, "the device runs %s instead of %s%s", dev.Running, want, dev.refusal())
	}
	if a.Failure != nil && !d.s.Rollback && d.r.Touched(d.s.Device) {
		a.Failure.Blames = []string{d.s.Device}
	}
	return a
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
	case d.l.Boot > 0 && d.r.BootTook > d.l.Boot && !d.s.Rollback:
		return d.unhealthy([]Complaint{{Message: fmt.Sprintf("the node took %s to boot, longer than the %s it may take",
			d.r.BootTook.Round(time.Second), d.l.Boot)}})
	case !d.f.HealthKnown:
		return d.await("the health of the host is not known: " + d.f.HealthMessage)
	case len(d.f.Unhealthy) == 0:
		return d.succeed("the host is as healthy as before")
	case d.f.Waited < d.l.Health:
		return d.await("not yet as healthy as before: " + join(d.f.Unhealthy))
	}
	return d.unhealthy(d.f.Unhealthy)
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
