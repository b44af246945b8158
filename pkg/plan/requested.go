package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Request is one step of a job that consists of requested steps, whether or not updates run that step.
type Request struct {
	Name string
	// Device the step works on; empty for every device the step is for.
	Device string
	// Arguments for the step.
	Arguments []Argument
	// Deadline replaces that of the step; zero for its own.
	Deadline time.Duration
}

// maxRequested bounds the steps of one job.
const maxRequested = 512

// Requested returns the steps of a job that runs exactly the requested steps, in the given order. Where one of them changes something, the
// job takes the node out of service before the first one that does. Afterwards it reboots the node if a step needs that, compares the
// node's health with its health before, and returns the node. Devices are those of the node. The error names every request that cannot be
// run.
func (c Catalog) Requested(requests []Request, devices []Target) ([]Step, error) {
	steps, err := c.expand(requests, devices)
	if err != nil {
		return nil, err
	}
	first := slices.IndexFunc(steps, func(s Step) bool { return s.Changes })
	if first < 0 {
		return steps, nil
	}
	return c.wrap(steps, first), nil
}

// Cleaning returns the steps of a job that cleans the host: the requested steps as Requested does, but all of them run while the node is out
// of service, whether or not they change anything.
func (c Catalog) Cleaning(requests []Request, devices []Target) ([]Step, error) {
	steps, err := c.expand(requests, devices)
	if err != nil {
		return nil, err
	}
	for i := range steps {
		steps[i].OutOfService = true
	}
	return c.wrap(steps, 0), nil
}

// expand returns the steps of each request for its devices.
func (c Catalog) expand(requests []Request, devices []Target) ([]Step, error) {
	var steps []Step
	var errs []error
	once := map[[2]string]bool{}
	for _, r := range requests {
		found, err := c.requested(r, devices)
		if err == nil && len(found) == 1 && (found[0].Device == "" || found[0].Kind == Erase) {
			of := [2]string{r.Name, found[0].Device}
			if once[of] {
				err = fmt.Errorf("step %s is requested twice; create a second job", strings.TrimSpace(r.Name+" "+found[0].Device))
			}
			once[of] = true
		}
		errs = append(errs, err)
		steps = append(steps, found...)
	}
	if len(steps) > maxRequested {
		errs = append(errs, fmt.Errorf("the job has %d steps, and at most %d fit; make several jobs", len(steps), maxRequested))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return steps, nil
}

func (c Catalog) requested(r Request, devices []Target) ([]Step, error) {
	if slices.Contains(UpdateKinds, Kind(r.Name)) {
		return nil, fmt.Errorf("step %s is part of an update and cannot be requested by itself", r.Name)
	}
	var defs []Definition
	for _, d := range c.definitions() {
		if string(d.Kind) == r.Name {
			defs = append(defs, d)
		}
	}
	switch {
	case len(defs) == 0:
		return nil, fmt.Errorf("step %s is not known on this node; known are %s", r.Name, strings.Join(c.requestable(), ", "))
	case defs[0].Interface == HostInterface && r.Device != "":
		return nil, fmt.Errorf("step %s works on the whole node; leave its device %s out", r.Name, r.Device)
	}
	if err := defs[0].takes(r); err != nil {
		return nil, err
	}
	if r.Device != "" {
		i := slices.IndexFunc(devices, func(t Target) bool { return t.Device == r.Device })
		if i < 0 {
			return nil, fmt.Errorf("step %s: %s is not a device of this node", r.Name, r.Device)
		}
		devices = devices[i : i+1]
	}
	slices.SortStableFunc(defs, func(a, b Definition) int { return cmp.Compare(b.rank(), a.rank()) })
	var steps []Step
	for _, d := range defs {
		steps = append(steps, d.steps(devices)...)
	}
	switch {
	case len(steps) == 0 && r.Device != "":
		return nil, fmt.Errorf("step %s is not for the device %s: it is for %s", r.Name, r.Device, interfaces(defs))
	case len(steps) == 0:
		return nil, fmt.Errorf("step %s is for %s, and this node has no such device", r.Name, interfaces(defs))
	}
	for i := range steps {
		steps[i].Arguments, steps[i].Deadline = r.Arguments, cmp.Or(r.Deadline, steps[i].Deadline)
	}
	return steps, nil
}

// takes says what of the request the step does not take, or lacks.
func (d Definition) takes(r Request) error {
	for _, a := range r.Arguments {
		switch {
		case len(d.Arguments) == 0:
			return fmt.Errorf("step %s takes no arguments; leave %s out", d.Kind, a.Name)
		case !slices.Contains(d.Arguments, a.Name):
			return fmt.Errorf("step %s takes no argument %s; it takes %s", d.Kind, a.Name, strings.Join(d.Arguments, ", "))
		}
	}
	switch {
	case d.Kind == Erase && r.Device == "":
		return fmt.Errorf("step %s is only for a device that the request names", d.Kind)
	case d.Kind == Erase && !slices.ContainsFunc(r.Arguments, func(a Argument) bool { return a.Name == EraseSerialNumber }):
		return fmt.Errorf("step %s needs the argument %s", d.Kind, EraseSerialNumber)
	}
	return nil
}

func (c Catalog) requestable() []string {
	var out []string
	for _, d := range c.definitions() {
		if !d.updates() && !slices.Contains(out, string(d.Kind)) {
			out = append(out, string(d.Kind))
		}
	}
	slices.Sort(out)
	return out
}

func interfaces(defs []Definition) string {
	var out []string
	for _, d := range defs {
		out = append(out, d.Interface)
	}
	return strings.Join(out, ", ")
}

// wrap adds the steps that a maintenance needs around it. Those before the first one that needs it run before the node is taken out of
// service.
func (c Catalog) wrap(steps []Step, first int) []Step {
	own := func(k Kind) Step { return definitionOf(c.definitions(), k).step("") }
	out := append([]Step{own(Preflight)}, steps[:first]...)
	out = append(append(out, own(Maintenance)), steps[first:]...)
	return append(out, own(Reboot), own(Health), own(Release))
}

// Clearance is a person's request, a retry or a release, that clears earlier failures. It is the text the person wrote, and has a meaning
// only when compared with the text in force when a failure was recorded: clocks of different machines are never compared. The empty
// Clearance clears nothing.
type Clearance string

// Clears reports whether the request clears a failure that was recorded while the request under was in force: whether the
// two differ. A nil under is the same as an empty one.
func (c Clearance) Clears(under *string) bool {
	return c != "" && (under == nil || string(c) != *under)
}

// InForce is the request in the form in which a failure records it. It is never nil.
func (c Clearance) InForce() *string {
	s := string(c)
	return &s
}
