package profile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Settings say how the tool lists and changes the settings of a device.
type Settings struct {
	// Read are the commands that list them. What they say of a setting is put together by its name.
	Read []Listing
	// Set stores values.
	Set Setter
	// Commit has the device take what Set stored; nil for a tool without such a second command.
	Commit *Commit
	// Activation is what a changed value needs to come into force.
	Activation inventory.Activation
}

// Setter is the command that stores values.
type Setter struct {
	Change
	// Together says that one run stores all values: the argument with the variables of a setting is repeated for each. Otherwise there is a
	// run for each.
	Together bool
	// Rejects find what the tool prints when it does not take a value.
	Rejects []*regexp.Regexp
}

// Commit is the command that is needed after all values are stored.
type Commit struct {
	Change
	// Unless finds out whether what is stored is committed already: when its field is in the output.
	Unless Query
}

var _ driver.MaybeConfigurer = (*Driver)(nil)

// Configures reports whether the profile says how settings are read and changed.
func (d *Driver) Configures() bool { return d.p.Settings != nil }

// Parameters runs the commands that list settings.
func (d *Driver) Parameters(ctx context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	on, err := d.idle(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read settings of %s: %w", id.UniqueID, err)
	}
	l, err := d.list(ctx, on)
	if err != nil {
		return nil, fmt.Errorf("read settings of %s: %w", id.UniqueID, err)
	}
	if err := d.uncommitted(ctx, &l); err != nil {
		return nil, fmt.Errorf("read settings of %s: %w", id.UniqueID, err)
	}
	return inventory.Asked(l.all, names...), nil
}

// uncommitted takes for not stored what no activation brings into force, because its commit was lost or failed. Configure makes up for it.
func (d *Driver) uncommitted(ctx context.Context, l *listed) error {
	if d.p.Settings.Commit == nil || !slices.ContainsFunc(l.all, inventory.Parameter.Pending) {
		return nil
	}
	if committed, err := d.isCommitted(ctx, l.on); committed || err != nil {
		return err
	}
	for i := range l.all {
		if p := &l.all[i]; p.Pending() {
			p.Next = p.Current
		}
	}
	return nil
}

// idle returns the device as the tool knows it, unless a write to it runs.
func (d *Driver) idle(ctx context.Context, id inventory.Identity) (on subject, err error) {
	on = subject{id: id}
	switch {
	case d.p.Settings == nil:
		return on, fmt.Errorf("profile %s has no settings: %w", d.p.Name, driver.ErrNotSupported)
	case d.p.Inspect.Fields[fieldUniqueID].given() || d.p.Inspect.Fields[fieldNumber].given():
		if on, _, err = d.inspect(ctx, id); err != nil {
			return on, err
		}
	}
	return on, owntool.Idle(d.runner, on.id.UniqueID)
}

// CheckConfiguration compares the configuration with what the tool lists, and makes the arguments that would store it. The tool may refuse a value
// nonetheless.
func (d *Driver) CheckConfiguration(ctx context.Context, id inventory.Identity, c driver.Configuration) error {
	if _, _, err := d.resolve(ctx, id, c); err != nil {
		return fmt.Errorf("check settings of %s: %w", id.UniqueID, err)
	}
	return nil
}

// resolve reads the device, and returns it once for each run that stores a part of the configuration.
func (d *Driver) resolve(ctx context.Context, id inventory.Identity, c driver.Configuration) (before listed, runs []subject, err error) {
	on, err := d.idle(ctx, id)
	if err != nil {
		return before, nil, err
	}
	if before, err = d.list(ctx, on); err != nil {
		return before, nil, err
	}
	if err := c.Check(before.all); err != nil {
		return before, nil, err
	}
	set := d.p.Settings.Set
	for _, s := range inventory.Differing(c.Set, before.all) {
		if (set.Together || set.takesDocument()) && len(runs) > 0 {
			runs[0].settings = append(runs[0].settings, s)
			continue
		}
		run := on
		run.settings = []inventory.Setting{s}
		runs = append(runs, run)
	}
	for _, run := range runs {
		run.document = "/"
		if _, err := set.fill(run); err != nil {
			return before, nil, driver.RejectSettingsf("%w", err)
		}
	}
	return before, runs, nil
}

func (s Setter) takesDocument() bool { return using(s.Argv, isDocument) != "" }

// fill returns the arguments, those with variables of a setting once for each.
func (s Setter) fill(of subject) ([]string, error) {
	var out []string
	for _, setting := range of.settings {
		if !variables[settingValue].safe.MatchString(setting.Value) {
			return nil, fmt.Errorf("%s cannot be %q: blanks at the ends and characters that cannot be printed are not given to a tool", setting.Name, setting.Value)
		}
	}
	for _, t := range s.Argv {
		times := of.settings
		if using([]template{t}, isOfSetting) == "" {
			times = of.settings[:1]
		}
		for _, of.setting = range times {
			arg, err := t.fill(of)
			if err != nil {
				return nil, err
			}
			out = append(out, arg)
		}
	}
	return out, nil
}

// Configure stores what the device does not, and commits it.
func (d *Driver) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	before, runs, err := d.resolve(ctx, id, c)
	if err != nil {
		return 0, fmt.Errorf("set settings of %s: %w", id.UniqueID, err)
	}
	needs := inventory.NeededFor(c.Set, before.all)
	for _, run := range runs {
		more, err := d.set(ctx, run, before)
		if err != nil {
			return 0, fmt.Errorf("set settings of %s: %w", id.UniqueID, err)
		}
		needs = max(needs, more)
	}
	waits := func(s inventory.Setting) bool { return !inventory.FindParameter(before.all, s.Name).Runs(s.Value) }
	if d.p.Settings.Commit != nil && slices.ContainsFunc(c.Set, waits) {
		more, err := d.commit(ctx, before.on)
		if err != nil {
			return 0, fmt.Errorf("commit settings of %s: %w", id.UniqueID, err)
		}
		needs = max(needs, more)
	}
	return needs, nil
}

// set runs the command that stores the settings of the subject.
func (d *Driver) set(ctx context.Context, of subject, before listed) (inventory.Activation, error) {
	set := d.p.Settings.Set
	var c command.Command
	if set.takesDocument() {
		edited, err := before.edit(of.settings)
		if err != nil {
			return 0, err
		}
		held, img, err := inMemory(edited)
		if err != nil {
			return 0, fmt.Errorf("make a document of the settings: %w", err)
		}
		defer held.Close()
		of.document, c.Image = img.Path, &img
	}
	var err error
	if c.Argv, err = set.fill(of); err != nil {
		return 0, err
	}
	c, r, err := d.write(ctx, set.Change, of, c)
	if err != nil {
		return 0, err
	}
	said := slices.Concat(r.Stderr, []byte("\n"), r.Stdout)
	for _, p := range set.Rejects {
		if line := p.Find(said); line != nil {
			return 0, driver.RejectSettingsf("%s says: %s", c.Argv[0], owntool.FirstLine(line))
		}
	}
	if set.Exits.class(r.ExitCode) == classRejected {
		return 0, driver.RejectSettingsf("%s says: %s", c.Argv[0], owntool.FirstLine(said))
	}
	return set.concluded(c, r, of)
}

// inMemory makes a file without a name.
func inMemory(content []byte) (*os.File, command.Image, error) {
	fd, err := unix.MemfdCreate("settings", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, command.Image{}, err
	}
	f := os.NewFile(uintptr(fd), "settings") //nolint:gosec // descriptors are small and not negative
	if _, err := f.Write(content); err != nil {
		return nil, command.Image{}, errors.Join(err, f.Close())
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	return f, command.Image{Path: path, Digest: sha256.Sum256(content), Size: int64(len(content))}, nil
}

// write runs a command that changes settings.
func (d *Driver) write(ctx context.Context, as Change, of subject, c command.Command) (command.Command, command.Result, error) {
	c.Kind, c.Timeout, c.Lock = command.Write, as.Timeout, of.id.UniqueID
	r, err := d.runner.Run(ctx, c)
	return c, r, err
}

// concluded returns what a run that ended needs, or why it failed.
func (c Change) concluded(run command.Command, r command.Result, of subject) (inventory.Activation, error) {
	switch c.Exits.class(r.ExitCode) {
	case classOK, classPending:
	default:
		return 0, fmt.Errorf("some of the values may be stored: %w", c.Exits.failure(run, r))
	}
	if err := c.judge(r.Stdout, of); err != nil {
		return 0, fmt.Errorf("some of the values may be stored: %w", command.Failed(run, r, err))
	}
	return c.Exits.needs(r.ExitCode, inventory.ActivateNone), nil
}

func (d *Driver) isCommitted(ctx context.Context, of subject) (bool, error) {
	found, err := d.query(ctx, d.p.Settings.Commit.Unless, of)
	return found[fieldCommitted] != "", err
}

// commit runs the command, unless what is stored is committed.
func (d *Driver) commit(ctx context.Context, of subject) (inventory.Activation, error) {
	commit := d.p.Settings.Commit
	if committed, err := d.isCommitted(ctx, of); committed || err != nil {
		return inventory.ActivateNone, err
	}
	argv, err := fillAll(commit.Argv, of)
	if err != nil {
		return 0, err
	}
	c, r, err := d.write(ctx, commit.Change, of, command.Command{Argv: argv})
	if err != nil {
		return 0, err
	}
	return commit.concluded(c, r, of)
}

// settingsWait reports whether the device stores values that an activation of the kind brings into force.
func (d *Driver) settingsWait(ctx context.Context, of subject, kind inventory.Activation) (bool, error) {
	if d.p.Settings == nil || d.p.Settings.Activation != kind {
		return false, nil
	}
	l, err := d.list(ctx, of)
	return slices.ContainsFunc(l.all, inventory.Parameter.Pending), err
}

// list runs the commands that list settings.
func (d *Driver) list(ctx context.Context, of subject) (listed, error) {
	l := listed{on: of}
	rows := rows{}
	for _, read := range d.p.Settings.Read {
		groups := read.Groups
		if len(groups) == 0 {
			groups = []string{""}
		}
		for _, of.group = range groups {
			c, r, err := d.ask(ctx, read, of)
			if err == nil {
				before, _, found := bytes.Cut(r.Stdout, []byte(read.From))
				if err = read.into(rows, of.group, r.Stdout[len(before):], &l); !found {
					err = fmt.Errorf("%q is not in the output", read.From)
				}
				if err != nil {
					err = command.Failed(c, r, err)
				}
			}
			if err != nil {
				return listed{}, err
			}
		}
	}
	if len(rows) == 0 {
		return listed{}, errors.New("the tool lists no settings")
	}
	l.all = rows.parameters(*d.p.Settings)
	return l, nil
}

// ask runs a command that lists settings.
func (d *Driver) ask(ctx context.Context, read Listing, of subject) (c command.Command, r command.Result, err error) {
	c.Timeout = read.Timeout
	if c.Argv, err = fillAll(read.Argv, of); err != nil {
		return c, r, err
	}
	if r, err = d.runner.Run(ctx, c); err == nil && read.Exits.class(r.ExitCode) != classOK {
		err = read.Exits.failure(c, r)
	}
	return c, r, err
}
