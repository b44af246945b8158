package plan

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Catalog holds the steps a host can run, in the order they run. The zero Catalog holds Definitions.
type Catalog struct{ defs []Definition }

// DefaultCatalog holds Definitions.
func DefaultCatalog() Catalog { return Catalog{defs: Definitions()} }

// MaxEnabled bounds the steps that are switched on, which a node lists in its status.
const MaxEnabled = 64

// NewCatalog holds Definitions and the steps that drivers add, with the priorities overridden by key. The error names
// every step that is malformed, ambiguous or out of order.
func NewCatalog(priorities map[string]int32, extra ...Definition) (Catalog, error) {
	own := Definitions()
	errs := checkExtra(own, extra)
	defs := slices.Concat(own, extra)
	errs = append(errs, override(defs, priorities)...)
	slices.SortStableFunc(defs, compareDefinitions)
	c := Catalog{defs: defs}
	errs = append(errs, c.checkTies()...)
	errs = append(errs, c.checkOrder()...)
	if n := len(c.Enabled()); n > MaxEnabled {
		errs = append(errs, fmt.Errorf("%d steps are switched on, and at most %d can be; set the priority of some to 0", n, MaxEnabled))
	}
	if err := errors.Join(errs...); err != nil {
		return Catalog{}, err
	}
	return c, nil
}

var kindForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// checkExtra names the steps of drivers that have an invalid declaration or the name of another step.
func checkExtra(own, extra []Definition) []error {
	var errs []error
	claimed := map[Kind]string{}
	for _, d := range extra {
		same := func(o Definition) bool { return o.Kind == d.Kind }
		taken := slices.Contains(UpdateKinds, d.Kind) || slices.ContainsFunc(own, same)
		first, again := claimed[d.Kind]
		switch {
		case !kindForm.MatchString(string(d.Kind)):
			errs = append(errs, fmt.Errorf("step %q of %s: a name has at most 63 lower-case letters, digits and dashes", d.Kind, d.Interface))
		case d.Interface == "":
			errs = append(errs, fmt.Errorf("step %s belongs to no interface", d.Kind))
		case taken:
			errs = append(errs, fmt.Errorf("step %s of %s has the name of a step of this product; give it another", d.Kind, d.Interface))
		case again:
			errs = append(errs, fmt.Errorf("step %s is declared by %s and by %s; a name belongs to one driver", d.Kind, first, d.Interface))
		case d.Priority < 0 || d.Deadline < 0:
			errs = append(errs, fmt.Errorf("step %s of %s has a negative priority or deadline", d.Kind, d.Interface))
		}
		if !again {
			claimed[d.Kind] = d.Interface
		}
	}
	return errs
}

// definitionOf is the first step of the kind.
func definitionOf(defs []Definition, k Kind) Definition {
	return defs[slices.IndexFunc(defs, func(d Definition) bool { return d.Kind == k })]
}

func override(defs []Definition, priorities map[string]int32) []error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(priorities)) {
		priority := priorities[key]
		i := slices.IndexFunc(defs, func(d Definition) bool { return d.Key() == key })
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("priority of %s: there is no such step; known are %s", key, strings.Join(keys(defs), ", ")))
		case priority < 0:
			errs = append(errs, fmt.Errorf("priority of %s: %d is negative; 0 switches a step off", key, priority))
		case priority != 0 && defs[i].Kind == Erase:
			errs = append(errs, fmt.Errorf("priority of %s: no update runs this step; request it in a job of type Steps", key))
		case priority == 0 && defs[i].indispensable():
			errs = append(errs, fmt.Errorf("priority of %s: every update needs this step, so it cannot be switched off", key))
		default:
			defs[i].Priority = priority
		}
	}
	return errs
}

func (d Definition) indispensable() bool {
	return d.updates() && d.Kind != Archive && d.Kind != Flash && d.Kind != Configure
}

func keys(defs []Definition) []string {
	var out []string
	for _, d := range defs {
		out = append(out, d.Key())
	}
	slices.Sort(out)
	return out
}

// checkTies names the steps of one interface that have the same priority: which of them runs first would not be defined.
// The catalog is sorted.
func (c Catalog) checkTies() []error {
	var errs []error
	enabled := c.Enabled()
	for i, a := range enabled {
		for _, b := range enabled[i+1:] {
			if a.Priority == b.Priority && strings.EqualFold(a.Interface, b.Interface) {
				errs = append(errs, fmt.Errorf("%s and %s both have the priority %d; steps of one interface need different ones",
					a.Key(), b.Key(), a.Priority))
			}
		}
	}
	return errs
}

// stages is the order an update needs: every step of a stage comes before every step of the next one.
var stages = []Kind{Preflight, Archive, Maintenance, Flash, Configure, Activate, Reboot, Verify, Health, Release}

// checkOrder names the steps whose priorities break the order an update needs.
func (c Catalog) checkOrder() []error {
	var errs []error
	var last *Definition // the one with the lowest priority of the stages so far
	for _, kind := range stages {
		highest, lowest := c.bounds(kind)
		if highest == nil {
			continue
		}
		if last != nil && last.Priority <= highest.Priority {
			errs = append(errs, fmt.Errorf("%s (%d) must run before %s (%d): give it a higher priority",
				last.Key(), last.Priority, highest.Key(), highest.Priority))
		}
		last = lowest
	}
	for _, d := range c.Enabled() {
		if !d.updates() {
			errs = append(errs, c.checkPlace(d)...)
		}
	}
	return errs
}

// bounds are the enabled steps of a kind that run first and last.
func (c Catalog) bounds(kind Kind) (highest, lowest *Definition) {
	for _, d := range c.Enabled() {
		if d.Kind != kind {
			continue
		}
		if highest == nil {
			highest = &d
		}
		lowest = &d
	}
	return highest, lowest
}

// checkPlace says what is wrong with the priority of a step that is not part of every update. A step that changes something
// must run in the maintenance and before the reboot that makes the change take effect. None may run once the node is back
// in service.
func (c Catalog) checkPlace(d Definition) []error {
	at := func(k Kind) Definition { return definitionOf(c.defs, k) }
	var errs []error
	must := func(ok bool, where string, other Definition) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s (%d) must run %s %s (%d)", d.Key(), d.Priority, where, other.Key(), other.Priority))
		}
	}
	switch {
	case d.Changes:
		must(d.Priority < at(Maintenance).Priority, "after", at(Maintenance))
		must(d.Priority > at(Reboot).Priority, "before", at(Reboot))
	case d.Kind == VerifyFirmware:
		must(d.Priority < at(Reboot).Priority, "after", at(Reboot))
		must(d.Priority > at(Release).Priority, "before", at(Release))
	default:
		must(d.Priority > at(Release).Priority, "before", at(Release))
	}
	return errs
}

func (c Catalog) definitions() []Definition {
	if c.defs == nil {
		return Definitions()
	}
	return c.defs
}

// Enabled lists the steps that are switched on, in the order they run.
func (c Catalog) Enabled() []Definition {
	return slices.DeleteFunc(slices.Clone(c.definitions()), func(d Definition) bool { return d.Priority == 0 })
}

// All lists every step, those that are switched off last.
func (c Catalog) All() []Definition { return slices.Clone(c.definitions()) }

// Runs reports whether the step of a device class is switched on.
func (c Catalog) Runs(kind Kind, class inventory.Class) bool {
	return slices.ContainsFunc(c.Enabled(), func(d Definition) bool { return d.Kind == kind && d.Interface == string(class) })
}

// Steps lists the steps of an update in the order they run. Devices of one class run in order of name.
func (c Catalog) Steps(targets []Target) []Step {
	var steps []Step
	for _, d := range c.Enabled() {
		steps = append(steps, d.steps(targets)...)
	}
	return steps
}

// Backup lists the steps that archive what the devices run, whether or not an update on this host does.
func (c Catalog) Backup(targets []Target) []Step {
	var steps []Step
	for _, d := range c.definitions() {
		if d.Kind == Archive {
			steps = append(steps, d.steps(targets)...)
		}
	}
	return steps
}

// steps are the steps of the definition for the devices, in order of name.
func (d Definition) steps(targets []Target) []Step {
	if d.Interface == HostInterface {
		return []Step{d.step("")}
	}
	var steps []Step
	for _, t := range targets {
		if d.isFor(t) {
			steps = append(steps, d.step(t.Device))
		}
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return strings.Compare(a.Device, b.Device) })
	return steps
}

// isFor reports whether the step applies to the device.
func (d Definition) isFor(t Target) bool {
	return t.gets(d.Kind) && (d.Interface == string(t.Class) || t.Driver != "" && d.Interface == t.Driver)
}
