package cli

import (
	"errors"
	"io"
	"strconv"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// PlannedStep is one step apply would run. A step that turns out not to be needed is skipped then.
type PlannedStep struct {
	Step string `json:"step"`
	// Device the step works on; empty for a step of the whole machine.
	Device string `json:"device,omitempty"`
	// Priority orders the steps: higher runs first.
	Priority int32 `json:"priority"`
}

// Order adds the steps to the plan, if anything is due.
func (p *Plan) Order(c plan.Catalog) {
	p.Steps = nil
	if len(p.due) == 0 {
		return
	}
	var targets []plan.Target
	for _, a := range p.due {
		targets = append(targets, plan.Target{
			Device: update(a).Device, Class: a.device.Class, Driver: a.device.Driver, Settings: a.configuration != nil, SettingsOnly: a.rule == nil,
		})
	}
	for _, s := range c.Steps(targets) {
		p.Steps = append(p.Steps, PlannedStep{Step: string(s.Kind), Device: s.Device, Priority: s.Priority})
	}
}

func (p Plan) stepTable(w io.Writer) error {
	if len(p.Steps) == 0 {
		return nil
	}
	var rows [][]string
	for _, s := range p.Steps {
		rows = append(rows, []string{s.Step, s.Device, strconv.Itoa(int(s.Priority))})
	}
	_, err := io.WriteString(w, "\n")
	return errors.Join(err, columns(w, []string{"STEP", "DEVICE", "PRIORITY"}, rows))
}

// Steps are all steps this machine knows, in the order they run; those that are switched off come last.
type Steps struct {
	Steps []KnownStep `json:"steps"`
}

// KnownStep is one of them.
type KnownStep struct {
	Name string `json:"name"`
	// Interface the step belongs to: node, a device class, or a driver.
	Interface string `json:"interface"`
	// Priority orders the steps: higher runs first, and 0 is switched off. Key names the step for --step-priority.
	Priority int32  `json:"priority"`
	Key      string `json:"key"`
	// Interruption is AtOnce, or AfterStep where a cancellation lets the step finish.
	Interruption string `json:"interruption"`
	// Changes says whether the step changes the device or the machine: Yes or No.
	Changes string `json:"changes"`
	// Deadline without progress after which a person is alerted; empty for none.
	Deadline string `json:"deadline,omitempty"`
}

// ListSteps lists the steps of a catalog.
func ListSteps(c plan.Catalog) Steps {
	var out Steps
	for _, d := range c.All() {
		s := KnownStep{
			Name: string(d.Kind), Interface: d.Interface, Priority: d.Priority, Key: d.Key(),
			Interruption: "AfterStep", Changes: "No",
		}
		if d.Interruptible {
			s.Interruption = "AtOnce"
		}
		if (plan.Step{Kind: d.Kind, Changes: d.Changes}).Writes() {
			s.Changes = "Yes"
		}
		if d.Deadline > 0 {
			s.Deadline = d.Deadline.String()
		}
		out.Steps = append(out.Steps, s)
	}
	return out
}

func (s Steps) table(w io.Writer) error {
	var rows [][]string
	for _, k := range s.Steps {
		priority := strconv.Itoa(int(k.Priority))
		if k.Priority == 0 {
			priority = "off"
		}
		rows = append(rows, []string{k.Name, k.Interface, priority, k.Interruption, k.Changes, k.Deadline, k.Key})
	}
	return columns(w, []string{"STEP", "INTERFACE", "PRIORITY", "INTERRUPTION", "CHANGES", "DEADLINE", "KEY"}, rows)
}
