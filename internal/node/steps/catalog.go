package steps

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// NewCatalog returns the steps of this product and of the drivers, with the given priorities by key.
func NewCatalog(drivers driver.Set, priorities map[string]int32) (plan.Catalog, error) {
	var extra []plan.Definition
	var errs []error
	for _, d := range drivers.All() {
		stepper, ok := d.(driver.Stepper)
		if !ok {
			continue
		}
		name, own := d.Name(), stepper.Steps()
		if len(own) > 0 && reserved(name) {
			errs = append(errs, fmt.Errorf("driver %s has the name of another interface and cannot provide steps", name))
		}
		for _, s := range own {
			extra = append(extra, plan.Definition{
				Kind: plan.Kind(s.Name), Interface: name, Priority: s.Priority, Changes: s.Changes, Interruptible: !s.Changes, Deadline: s.Deadline,
			})
		}
	}
	c, err := plan.NewCatalog(priorities, extra...)
	if err = errors.Join(append(errs, err)...); err != nil {
		return plan.Catalog{}, fmt.Errorf("load steps: %w", err)
	}
	return c, nil
}

// reserved reports whether the interface is used by steps that no driver provides.
func reserved(name string) bool {
	return strings.EqualFold(name, plan.HostInterface) || slices.ContainsFunc(inventory.Classes(), func(c inventory.Class) bool {
		return strings.EqualFold(name, string(c))
	})
}

// Enabled lists the enabled steps in the form of a node's status.
func Enabled(c plan.Catalog) []v1alpha1.EnabledStep {
	var out []v1alpha1.EnabledStep
	for _, d := range c.Enabled() {
		out = append(out, v1alpha1.EnabledStep{Name: string(d.Kind), Interface: d.Interface, Priority: d.Priority})
	}
	return out
}
