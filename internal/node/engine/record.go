package engine

import (
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// NewRecord is the record of a job with these updates that has not begun.
func NewRecord(steps plan.Catalog, updates []journal.Update) step.Record {
	var targets []plan.Target
	var wanted []step.Update
	for _, u := range updates {
		targets = append(targets, plan.Target{Device: u.Device, Class: u.Class, Driver: u.Driver})
		wanted = append(wanted, step.Update{Device: u.Device, Version: inventory.Version(u.Version)})
	}
	return step.New(steps.Steps(targets), wanted...)
}
