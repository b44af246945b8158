package discovery

import (
	"cmp"
	"context"
	"errors"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

var errJob = errors.New("a job has the node")

// giveAgain gives a device what a boot took of its settings, once in each boot, and reports whether it did. That needs no job: a health gate
// has found the same settings good in an earlier boot, and to bring them into force costs nothing and disturbs nothing. Anything else that
// is not as desired is left to a job, and so is all of it where a job has the node.
func (d *Discovery) giveAgain(ctx context.Context, device inventory.Device, want *v1alpha1.DesiredConfiguration, all []inventory.Parameter, bootID string) bool {
	set := lost(plan.DecideConfiguration(*desired.Configuration(*want), all, false), all)
	if len(set) == 0 || want.Policy == v1alpha1.PolicyValidate || d.config.MayConfigure == nil || !d.config.MayConfigure(device.Class) {
		return false
	}
	view, err := d.config.Journal.View()
	if err != nil || view.Active() != nil {
		return false
	}
	good := view.Devices[device.UniqueID].Configured
	now := journal.Configured{Digest: string(want.Digest()), BootID: bootID}
	if good == nil || good.Digest != now.Digest || good.BootID == now.BootID || bootID == "" || !d.isFirst(device.UniqueID, now) {
		return false
	}
	guard := func(id inventory.Identity) error { // a job may have begun since
		if view, err := d.config.Journal.View(); err != nil || view.Active() != nil {
			return cmp.Or(err, errJob)
		}
		return d.guard(id)
	}
	log := d.config.Log.WithValues("device", device.UniqueID, "settings", set)
	if err := d.config.Settings.Configure(ctx, device, guard, set); err != nil {
		log.Error(err, "Settings that the boot took could not be given again; they are left to a job")
		return true // some may have been
	}
	log.Info("Settings that the boot took were given again")
	return true
}

// lost are the settings that are not in force, where a boot takes all of them, and they cost nothing and disturb nothing; none otherwise.
func lost(decided plan.ConfigurationDecision, all []inventory.Parameter) (set []inventory.Setting) {
	if decided.Refusal != "" {
		return nil
	}
	for _, c := range decided.Changes {
		if p := inventory.FindParameter(all, c.Name); c.Needs != inventory.ActivateNone || !p.Volatile || p.Disturbs {
			return nil
		}
		set = append(set, c.Setting)
	}
	return set
}

// isFirst reports whether the settings were not given to the device in this boot before, and notes that they are.
func (d *Discovery) isFirst(uniqueID string, now journal.Configured) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.given[uniqueID] == now {
		return false
	}
	if d.given == nil {
		d.given = map[string]journal.Configured{}
	}
	d.given[uniqueID] = now
	return true
}
