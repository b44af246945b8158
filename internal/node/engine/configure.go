package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// prepared is what a preflight found out about the settings of one device.
type prepared struct {
	resets, before []journal.Setting
	noUndo         string
	// keepsDeclared says that what is restored changes none of the settings that are declared.
	keepsDeclared bool
}

// settings are those that the update gives the device, or in a rollback gives back.
func settings(u journal.Update, rollback bool) []inventory.Setting {
	of := slices.Concat(u.Settings, u.Resets)
	if rollback {
		of = u.Before
	}
	return plain(of)
}

func plain(of []journal.Setting) []inventory.Setting {
	out := make([]inventory.Setting, len(of))
	for i, s := range of {
		out[i] = inventory.Setting(s)
	}
	return out
}

// fitsSettings returns why the device must not be given its settings, nil when it may; again is true when the cause may be temporary. It
// remembers what the device has, for the rollback.
func (x *execution) fitsSettings(ctx context.Context, u journal.Update, d inventory.Device) (failure *step.Failure, again bool) {
	fail := func(r step.Reason, format string, args ...any) (*step.Failure, bool) {
		return &step.Failure{Reason: r, Message: u.Device + ": " + fmt.Sprintf(format, args...), Settings: true}, false
	}
	runs := x.cfg.Catalog.Runs(plan.Configure, u.Class)
	if u.ArchivedSettings && !runs { // the firmware alone is what can be restored
		return nil, false
	}
	if !runs {
		return fail(step.NotUpdatable, "changing settings of devices of class %s is switched off on this node by the priority of its step", u.Class)
	}
	c, err := x.cfg.Drivers.Configurer(d)
	if err != nil && !errors.Is(err, driver.ErrNotSupported) {
		return fail(step.NotUpdatable, "%v", err)
	}
	var all []inventory.Parameter
	if err == nil {
		all, err = c.Parameters(ctx, d.Identity)
	}
	switch {
	case errors.Is(err, driver.ErrNotSupported) && u.ArchivedSettings:
		return nil, false
	case errors.Is(err, driver.ErrNotSupported):
		return fail(step.NotUpdatable, "%v", err)
	case err != nil:
		failure, _ := fail(step.ReadFailed, "%v", err)
		return failure, true
	}
	coming := u.Version != "" && string(d.Firmware.Running) != u.Version
	want := plan.Configuration{Set: settings(u, false), ResetUnlisted: u.ResetUnlisted}
	known := prepared{resets: u.Resets, before: u.Before, noUndo: x.target(u.Device).NoUndo}
	// What a job that has told the device anything finds there is no longer what it had.
	touched := x.job.Record.Touched(u.Device)
	switch {
	case touched:
		want.ResetUnlisted = false
	case u.ArchivedSettings:
		if want.Set, err = x.settingsToRestore(u, all, coming); err != nil {
			failure, _ := fail(step.ReadFailed, "%v", err)
			return failure, true
		}
	}
	decided := plan.DecideConfiguration(want, all, coming)
	if !touched {
		known = prepare(decided, slices.Concat(want.Set, decided.Resets), all)
		if u.ArchivedSettings {
			known.resets, known.keepsDeclared = journal.Settings(want.Set), !slices.ContainsFunc(inventory.Differing(want.Set, all), func(s inventory.Setting) bool { return inventory.Covers(u.Declared, s.Name, all) })
		}
	}
	for _, s := range decided.Now {
		if p := inventory.FindParameter(all, s.Name); p != nil && !p.Current.Known && !p.Next.Known {
			return fail(step.ParameterInvalid, "the device reports neither what is in force nor what it stores for %s, so that success could not be verified; "+
				"nothing was written", s.Name)
		}
	}
	x.prepared[u.Device] = known
	if len(decided.Changes) == 0 && len(decided.Later) == 0 {
		return nil, false
	}
	if u.Version == "" || x.needs(u, d).Outcome == plan.UpToDate { // else that of the firmware was asked
		if failure, again := x.mayDisturb(ctx, u, d); failure != nil {
			return failure, again
		}
	}
	if touched { // what the device has is judged when it is read back
		return nil, false
	}
	if err := c.CheckConfiguration(ctx, d.Identity, driver.Configuration{Set: decided.Now}); err != nil {
		rejected := (*driver.RejectedError)(nil)
		switch is := errors.As(err, &rejected); {
		case is && rejected.InUse && x.drains(): // it is asked again when the node is out of service
			x.logger().Info("The settings wait for the node to be out of service", "job", x.job.Name, "device", u.Device, "why", err)
		case is:
			return fail(step.ParameterInvalid, "%v; nothing was written", err)
		default:
			failure, _ := fail(step.ReadFailed, "check its settings: %v", err)
			return failure, true
		}
	}
	if decided.Activation == inventory.ActivatePowerCycle {
		var changes []string
		for _, c := range decided.Changes {
			changes = append(changes, c.Name+"="+c.Value)
		}
		return fail(step.PowerCycleRequired, "its settings would need a power cycle, which nothing here can do; change them by hand: %s",
			strings.Join(changes, ", "))
	}
	x.reboots = x.reboots || decided.Activation == inventory.ActivateReboot
	if known.noUndo != "" && x.job.Record.RollbackRequired {
		return fail(step.RollbackUnavailable, "%s, and the rollout policy requires that it can be rolled back", known.noUndo)
	}
	return nil, false
}

// drains reports whether the maintenance takes away what runs on the node.
func (x *execution) drains() bool {
	_, nothing := x.cfg.Maintenance.(*maintenance.None)
	return !nothing
}

// inUse says why the device does not take the settings as long as something uses it that a drain may move; empty where nothing does.
func inUse(ctx context.Context, c driver.Configurer, id inventory.Identity, set []inventory.Setting) string {
	err := c.CheckConfiguration(ctx, id, driver.Configuration{Set: set})
	if rejected := (*driver.RejectedError)(nil); errors.As(err, &rejected) && rejected.InUse {
		return err.Error()
	}
	return ""
}

// prepare finds out what the device had before it is told the declared settings. What a job left that no health gate found good is not
// what it had; keepBefore knows that.
func prepare(decided plan.ConfigurationDecision, declared []inventory.Setting, all []inventory.Parameter) prepared {
	out := prepared{resets: journal.Settings(decided.Resets), before: journal.Settings(inventory.Undo(declared, all))}
	var lost []string
	for _, s := range inventory.Differing(declared, all) {
		p := inventory.FindParameter(all, s.Name)
		if p == nil {
			continue
		}
		for _, own := range append([]string{p.Name}, p.Sets...) {
			is := inventory.FindParameter(all, own)
			if (own != p.Name || len(p.Sets) == 0) && (is == nil || !is.Next.Known) {
				lost = append(lost, own)
			}
		}
	}
	if len(lost) > 0 {
		out.noUndo = "its previous settings could not be restored: the device does not say what it stores for " + strings.Join(lost, ", ")
	}
	return out
}

// keepBefore journals what the preflight found out about settings, so that a rollback knows it whatever happens. It returns why settings
// cannot be given back, by device.
func (x *execution) keepBefore() (map[string]string, error) {
	if len(x.prepared) == 0 {
		return nil, nil
	}
	view, err := x.cfg.Journal.View()
	if err != nil {
		return nil, err
	}
	noUndo := map[string]string{}
	next := x.job
	next.Updates = slices.Clone(x.job.Updates)
	for i := range next.Updates {
		u := &next.Updates[i]
		known, ok := x.prepared[u.Device]
		if !ok {
			continue
		}
		noUndo[u.Device] = known.noUndo
		if known.keepsDeclared {
			u.Configuration = ""
		}
		u.Resets, u.Before = known.resets, merged(view.Devices[u.UniqueID].GoodSettings, known.before)
	}
	if reflect.DeepEqual(next.Updates, x.job.Updates) {
		return noUndo, nil
	}
	return noUndo, x.save(next)
}

// merged are the first settings, and those of the second whose names they lack.
func merged(first, second []journal.Setting) []journal.Setting {
	out := slices.Clone(first)
	for _, s := range second {
		if !slices.ContainsFunc(first, func(f journal.Setting) bool { return f.Name == s.Name }) {
			out = append(out, s)
		}
	}
	return out
}

// split tells the settings that the device knows with its running firmware from those that it does not.
func split(all []inventory.Setting, known []inventory.Parameter) (now, later []inventory.Setting) {
	for _, s := range all {
		if inventory.FindParameter(known, s.Name) != nil {
			now = append(now, s)
		} else {
			later = append(later, s)
		}
	}
	return now, later
}

// configure stores the settings of the device, or those that it had. It returns nil when the write goes on and this process does not
// follow it.
func (x *execution) configure(ctx context.Context, s step.Step) *step.Returned {
	u := x.update(s.Device)
	d, _, failure := x.device(ctx, u)
	if failure != nil {
		return failed(s, failure.Reason, failure.Message)
	}
	c, err := x.cfg.Drivers.Configurer(d)
	if err != nil {
		return failed(s, step.NotUpdatable, err.Error())
	}
	want := settings(u, s.Rollback)
	all, err := c.Parameters(ctx, d.Identity, names(want)...)
	if err != nil {
		return again(failed(s, step.ReadFailed, err.Error()))
	}
	now, later := split(want, all)
	later = slices.DeleteFunc(later, func(s inventory.Setting) bool { // what is not there needs no default
		return slices.Contains(u.Resets, journal.Setting(s))
	})
	waits := d.Firmware.Pending() || u.Version != "" && !s.Rollback && string(d.Firmware.Running) != u.Version
	if len(later) > 0 && !waits && !s.Rollback { // firmware that ran before need not know what the new one knew
		return failed(s, step.ParameterInvalid, "the device has no parameter "+strings.Join(names(later), ", "))
	}
	x.guard(ctx)
	if x.job.ProtectionRequired && !s.Rollback {
		ctx = command.RequireProtection(ctx)
	}
	needs, err := c.Configure(ctx, d.Identity, driver.Configuration{Set: now})
	if rejected := (*driver.RejectedError)(nil); errors.As(err, &rejected) {
		return failed(s, step.ParameterInvalid, err.Error())
	}
	ret := x.wrote(s, needs, err)
	if ret != nil && ret.Failure == nil && len(later) > 0 {
		ret.Message = "its settings are stored but for " + strings.Join(names(later), ", ") + ", which only other firmware knows"
	}
	return ret
}

func names(of []inventory.Setting) []string {
	var out []string
	for _, s := range of {
		out = append(out, s.Name)
	}
	return out
}

// lookAtSettings reads what the device has of the settings that the current step is about.
func (x *execution) lookAtSettings(ctx context.Context, u journal.Update, d inventory.Device, dev *step.Device) {
	cur := x.job.CurrentStep()
	rollback := cur != nil && cur.Rollback
	want := settings(u, rollback)
	if len(want) == 0 {
		return
	}
	c, err := x.cfg.Drivers.Configurer(d)
	var all []inventory.Parameter
	if err == nil {
		all, err = c.Parameters(ctx, d.Identity, names(want)...)
	}
	has := &dev.Settings
	switch {
	case errors.Is(err, command.ErrStillRunning):
		dev.WriteRunning, dev.Writer = true, err.Error()
		return
	case err != nil:
		has.Unread = err.Error()
		return
	}
	has.Lost, has.Quiet = true, true
	for _, s := range want {
		p := inventory.FindParameter(all, s.Name)
		if p == nil {
			if !rollback && !slices.Contains(u.Resets, journal.Setting(s)) {
				has.Unset, has.Unstored, has.Lost = append(has.Unset, "no "+s.Name), append(has.Unstored, "no "+s.Name), false
				has.Quiet = false
			}
			continue
		}
		standing, had := p.Standing(s.Value)
		differs := fmt.Sprintf("%s %s instead of %s", s.Name, had, s.Value)
		switch standing {
		case inventory.InForce:
			continue
		case inventory.Stored:
			has.Doubted = true
			if x.job.Record.Touched(u.Device) || x.leftOver(u) {
				has.DoubtedNeed = max(has.DoubtedNeed, p.Needs)
			}
			continue
		case inventory.Waiting:
			has.Need = max(has.Need, p.NeedsFor(s.Value))
		case inventory.Leaving:
			differs = fmt.Sprintf("%s %s stored instead of %s", s.Name, had, s.Value)
			has.Unstored = append(has.Unstored, differs)
		case inventory.Missing:
			if !p.Next.Known {
				has.Unreported++
			}
			has.Unstored = append(has.Unstored, differs)
		}
		has.Unset, has.Lost = append(has.Unset, differs), has.Lost && p.Volatile
		has.Quiet = has.Quiet && p.NeedsFor(s.Value) == inventory.ActivateNone && !p.Disturbs
	}
	has.Lost = has.Lost && len(has.Unset) > 0
	if cur != nil && cur.State == step.Pending && !rollback && len(has.Unset) > 0 && dev.Hold == "" && (!x.job.Record.Wrote() || x.job.Record.InService) {
		now, _ := split(want, all)
		has.Used = inUse(ctx, c, d.Identity, now)
	}
}

// leftOver reports whether a job changed settings of the device that no health gate has found good since.
func (x *execution) leftOver(u journal.Update) bool {
	view, err := x.cfg.Journal.View()
	return err != nil || len(view.Devices[u.UniqueID].GoodSettings) > 0
}
