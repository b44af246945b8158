package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/devicename"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	nodeimages "github.com/nodefirmware/node-firmware-operator/internal/node/images"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/state"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// The ways in which apply ends before the job does. Running it again goes on.
var (
	// ErrRebootPending: what is stored runs only after a reboot, which was not allowed.
	ErrRebootPending = errors.New("a reboot is needed; reboot this machine and run apply again, or run apply with --reboot")
	// ErrInterrupted: the user stopped it at a safe point.
	ErrInterrupted = errors.New("interrupted; run apply again to go on")
)

// Applying is what apply works with.
type Applying struct {
	Docs     Documents
	Labels   map[string]string
	StateDir string
	// Machine is this one.
	Machine state.Machine
	Host    interface {
		engine.Host
		BootID() (string, error)
	}
	// Scan reads all devices, incomplete classes or not.
	Scan    func(context.Context) (host.Inventory, error)
	Drivers driver.Set
	// Catalog holds the steps of this machine; the zero Catalog those every machine has.
	Catalog plan.Catalog
	Writes  engine.Writes
	// Uses reads what uses the drives of this machine, and Arrays its arrays; nil where that is not known.
	Uses   engine.Uses
	Arrays health.Arrays
	// Rebooter reboots the machine; nil when that is not allowed.
	Rebooter engine.Rebooter
	// Checks are the executables of this machine that judge its health too; nil for none.
	Checks *health.Checks
	// Soak is how long the machine must look healthy after the update; zero for one look.
	Soak time.Duration
	// Steps is where the steps are printed as they go.
	Steps io.Writer
	// Poll is how often something that is waited for is looked at; zero for the engine's default.
	Poll time.Duration
}

// Outcome is how apply ended, for printing.
type Outcome struct {
	// Result is Complete, Failed, RebootRequired, Interrupted, NothingToDo, or Unknown where nothing was done but not
	// everything could be read.
	Result string `json:"result"`
	// Message says why it failed.
	Message string `json:"message,omitempty"`
	// Devices are the updates of the job.
	Devices []UpdatedDevice `json:"devices,omitempty"`
}

// UpdatedDevice is the update of one device.
type UpdatedDevice struct {
	Device string `json:"device"`
	Class  string `json:"class"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	// Settings are those that the device was given.
	Settings []string `json:"settings,omitempty"`
}

// Apply updates the devices of this machine as the documents declare. A job that an earlier apply began is finished first,
// and alone.
func Apply(ctx context.Context, a Applying) (Outcome, error) {
	known, err := state.Open(a.StateDir, state.Options{Daemon: version.Current(), Machine: a.Machine})
	if err != nil {
		return Outcome{}, err
	}
	out, err := a.apply(ctx, known)
	return out, errors.Join(err, known.Close())
}

func (a Applying) apply(ctx context.Context, known *state.State) (Outcome, error) {
	images, err := openStock(a.StateDir)
	if err != nil {
		return Outcome{}, err
	}
	view, err := known.Journal.View()
	if err != nil {
		return Outcome{}, err
	}
	if begun := view.Active(); begun != nil && begun.Record.Outcome == "" {
		a.printf("Going on with job %s, begun at %s.\n", begun.Name, begun.Accepted.Format(time.DateTime))
		return a.execute(ctx, known, images, *begun)
	}
	fresh, unread, err := a.newJob(ctx, images)
	switch {
	case err != nil:
		return Outcome{}, err
	case len(fresh.Updates) > 0:
		out, err := a.execute(ctx, known, images, fresh)
		return out, cmp.Or(err, unread)
	case unread != nil:
		return Outcome{Result: "Unknown"}, unread
	}
	return Outcome{Result: "NothingToDo"}, nil
}

// newJob plans the updates and fetches their images. Unread says what could not be read though a rule may be for it.
func (a Applying) newJob(ctx context.Context, images *stock) (fresh journal.Job, unread, err error) {
	found, err := a.Scan(ctx)
	if err != nil {
		return journal.Job{}, nil, err
	}
	has, err := ReadDeclared(ctx, found, a.Docs, a.Labels, a.Drivers)
	if err != nil {
		return journal.Job{}, nil, err
	}
	described, err := MakePlan(found, a.Docs, Describe(a.Docs.Sources), a.Labels, has)
	if err != nil {
		return journal.Job{}, nil, err
	}
	for _, d := range described.Devices {
		if d.Action == "None" && d.Rule != "" {
			a.printf("%s %s (%s): nothing to do: %s\n", d.Class, strings.Join(d.Names, ","), d.Rule, d.Reason)
		}
		if d.SettingsReason != "" {
			a.printf("%s %s: no settings are changed: %s\n", d.Class, strings.Join(d.Names, ","), d.SettingsReason)
		}
		if d.Via != "" {
			a.printf("%s %s (%s): %s first, on the way to %s; run apply again when this is done.\n",
				d.Class, strings.Join(d.Names, ","), d.Rule, d.Via, d.To)
		}
	}
	stored, err := images.fetch(ctx, a.Docs.Sources, described.due, func(s string) { a.printf("%s\n", s) })
	if err != nil {
		return journal.Job{}, nil, err
	}
	p, err := MakePlan(found, a.Docs, stored, a.Labels, has) // now with the true digests
	if err != nil {
		return journal.Job{}, nil, err
	}
	now := time.Now()
	out := journal.Job{Name: "local-" + now.UTC().Format("20060102-150405"), Accepted: now, Soak: a.Soak}
	out.UID = fmt.Sprintf("%s-%d", out.Name, now.UnixNano())
	out.Retry = &out.UID // each apply is a request to try again what failed
	out.Updates = a.updates(p.due)
	out.Record = engine.NewRecord(a.Catalog, out.Updates)
	return out, p.Unread(), nil
}

// updates are those of the job: of the drives of one array only the first, because bad firmware must not take two.
func (a Applying) updates(due []assignment) []journal.Update {
	var out []journal.Update
	taken := map[string]string{}
	for _, d := range due {
		u := update(d)
		at := slices.IndexFunc(d.device.Arrays, func(array string) bool { return taken[array] != "" })
		if at >= 0 {
			array := d.device.Arrays[at]
			a.printf("%s is not updated now: it is a drive of %s like %s; run apply again when this is done.\n", u.Device, array, taken[array])
			continue
		}
		for _, array := range d.device.Arrays {
			taken[array] = u.Device
		}
		out = append(out, u)
	}
	return out
}

func update(a assignment) journal.Update {
	u := journal.Update{
		Device: devicename.Of("local", a.device.Identity), UniqueID: a.device.UniqueID, Class: a.device.Class, Driver: a.device.Driver,
	}
	if c := a.configuration; c != nil {
		u.Settings, u.ResetUnlisted = journal.Settings(c.Set), c.ResetUnlisted
	}
	if a.rule == nil {
		return u
	}
	u.Version, u.Digest, u.AllowDowngrade = string(a.rule.Version), string(a.image.match.Digest), a.rule.Downgrade == v1alpha1.DowngradeAllow
	u.Origin = []journal.Origin{{Kind: string(a.rule.Kind), Name: a.rule.Name, Rule: a.rule.Rule}}
	if f := a.device.Firmware; f != nil {
		u.FromVersion = string(f.Running)
	}
	return u
}

// execute runs the job to its end, or as far as it gets without a reboot.
func (a Applying) execute(ctx context.Context, known *state.State, images *stock, j journal.Job) (Outcome, error) {
	waiting, err := a.waitsForReboot(j)
	if err != nil {
		return Outcome{}, err
	}
	if waiting && a.Rebooter == nil {
		return outcome(j, "RebootRequired"), ErrRebootPending
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	window := &maintenance.None{}
	if err := window.Schedule(ctx); err != nil {
		return Outcome{}, err
	}
	config := engine.Config{
		Journal: known.Journal, Archive: known.Archive, Catalog: a.Catalog, Host: a.Host, Drivers: a.Drivers, Images: images, Maintenance: window,
		Writes: a.Writes, Rebooter: a.Rebooter, Uses: a.Uses, Health: health.Checker{Scanner: a.Host, Checks: a.Checks, Arrays: a.Arrays}, BootID: a.Host.BootID,
		Poll: a.Poll, Grace: writeGrace, Notify: a.printer(j), Free: nodeimages.Free,
	}
	if a.Rebooter == nil {
		config.Rebooter = refuse(stop)
	}
	e := engine.New(config)
	if err := e.Submit(j); err != nil { // takes a failed job over that still held this machine
		return Outcome{}, err
	}
	view, err := known.Journal.View()
	if err != nil {
		return Outcome{}, err
	}
	done, err := e.Execute(ctx, *view.Job(j.UID))
	switch {
	case errors.Is(err, ErrRebootPending):
		return outcome(done, "RebootRequired"), ErrRebootPending
	case err != nil && ctx.Err() != nil:
		return outcome(done, "Interrupted"), ErrInterrupted
	case err != nil:
		return Outcome{}, err
	}
	out := outcome(done, string(done.Record.Outcome))
	if f := done.Record.Failure; f != nil {
		out.Message = f.Message
		return out, fmt.Errorf("%s: %s", f.Reason, f.Message)
	}
	return out, nil
}

// writeGrace is how long apply waits for a running write when the user stops it.
const writeGrace = time.Hour

// waitsForReboot reports whether the job has requested a reboot that has not happened yet.
func (a Applying) waitsForReboot(j journal.Job) (bool, error) {
	s := j.CurrentStep()
	if s == nil || s.Kind != plan.Reboot || s.State != step.Running {
		return false, nil
	}
	id, err := a.Host.BootID()
	return id == s.BootID, err
}

// refuse is a rebooter that ends the execution instead. The journal records that a reboot was requested.
type refuse context.CancelCauseFunc

// CanReboot implements engine.Rebooter: a person reboots the machine.
func (r refuse) CanReboot(context.Context) error { return nil }

// Reboot implements engine.Rebooter.
func (r refuse) Reboot(context.Context) error {
	r(ErrRebootPending)
	return ErrRebootPending
}

// printer prints each step when it begins and when it ends, but not again what an earlier apply has done.
func (a Applying) printer(begun journal.Job) func(engine.Snapshot) {
	printed := map[string]string{}
	for _, st := range begun.Record.Steps {
		printed[stepName(st)] = stepLine(st)
	}
	waiting := ""
	return func(s engine.Snapshot) {
		if s.Waiting != "" && s.Waiting != waiting {
			a.printf("waiting: %s\n", s.Waiting)
		}
		waiting = s.Waiting
		for _, st := range s.Job.Record.Steps {
			if name, line := stepName(st), stepLine(st); printed[name] != line {
				printed[name] = line
				a.printf("%s  %s\n", name, line)
			}
		}
	}
}

func stepName(s step.Step) string { return strings.TrimSpace(string(s.Kind) + " " + s.Device) }

func stepLine(s step.Step) string {
	if s.Message == "" {
		return string(s.State)
	}
	return string(s.State) + ": " + s.Message
}

func (a Applying) printf(format string, args ...any) { _, _ = fmt.Fprintf(a.Steps, format, args...) }

func outcome(j journal.Job, result string) Outcome {
	out := Outcome{Result: result}
	for _, u := range j.Updates {
		d := UpdatedDevice{Device: u.Device, Class: string(u.Class), From: u.FromVersion, To: u.Version}
		for _, s := range slices.Concat(u.Settings, u.Resets) {
			d.Settings = append(d.Settings, s.Name+"="+s.Value)
		}
		out.Devices = append(out.Devices, d)
	}
	return out
}

func (o Outcome) table(w io.Writer) error {
	_, err := fmt.Fprintln(w, map[string]string{
		"Complete": "Done: every device was read back at its target.", "Failed": "Failed: " + o.Message,
		"RebootRequired": "Stopped before the reboot.", "Interrupted": "Stopped at a safe point.", "NothingToDo": "Nothing to do.",
		"Unknown": "Nothing was done, and not everything could be read.",
	}[o.Result])
	return err
}
