package attributes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Driver adds the settings of system firmware to its device. It reads sysfs, and writes through the tool firmware-attributes.
type Driver struct {
	driver.SettingsOnly
	runner command.Runner
	host   fs.FS
	// root is the directory of this machine that is the "/" of the host.
	root string
	// password is the path of a file of this machine; empty for none.
	password string
}

var (
	_ driver.Driver     = (*Driver)(nil)
	_ driver.Supplement = (*Driver)(nil)
	_ driver.Configurer = (*Driver)(nil)
)

// New returns the driver. The file system is the host's, from its root.
func New(runner command.Runner, host fs.FS) *Driver {
	d := &Driver{runner: runner, host: host, root: "/"}
	if tree, ok := host.(interface{ Dir() string }); ok {
		d.root = tree.Dir()
	}
	return d
}

// UnlockWith names a file of this machine that holds the password of the administrator. It is read by the tool alone, when it writes.
func (d *Driver) UnlockWith(passwordFile string) *Driver {
	d.password = passwordFile
	return d
}

// Name is "firmware-attributes".
func (*Driver) Name() string { return "firmware-attributes" }

// Version is the version of this driver.
func (*Driver) Version() string { return "1" }

// Supplement gives system firmware its settings. Where its own driver offers settings, the kernel's are not added: both would be names for the
// same things.
func (d *Driver) Supplement(id inventory.Identity, own driver.Configurer) driver.Configurer {
	if id.Class != inventory.BIOS || own != nil {
		return own
	}
	return d
}

// errNoClass wraps ErrNotSupported.
var errNoClass = fmt.Errorf("the kernel shows no settings of this machine's system firmware: its vendor has no driver for them, or it is not loaded: %w",
	driver.ErrNotSupported)

// setting is an attribute of an interface.
type setting struct {
	sysfs.FirmwareAttribute
	of *sysfs.FirmwareInterface
	// called is the name of the parameter.
	called string
	// doubt is why it is not known whether it can be changed.
	doubt error
}

// find lists the settings without reading them. An attribute that only one interface has is called by its name; others are called INTERFACE/NAME, which
// no attribute is, because its name is that of a directory.
func (d *Driver) find() ([]setting, error) {
	interfaces, err := sysfs.FirmwareInterfaces(d.host)
	if err != nil {
		return nil, err
	}
	times := map[string]int{}
	for _, i := range interfaces {
		for _, name := range i.Attributes {
			times[name]++
		}
	}
	var out []setting
	for n := range interfaces {
		i := &interfaces[n]
		for _, name := range i.Attributes {
			s := setting{of: i, called: name, FirmwareAttribute: sysfs.FirmwareAttribute{Name: name}}
			if times[name] > 1 {
				s.called = i.Name + "/" + name
			}
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, errNoClass
	}
	slices.SortFunc(out, func(a, b setting) int { return strings.Compare(a.called, b.called) })
	return out, nil
}

// read reads the settings of the names, or all. The settings are those that find returned, and told are values that they are going to have.
func (d *Driver) read(found []setting, told []inventory.Setting, names ...string) ([]setting, []inventory.Parameter, error) {
	var read []setting
	var all []inventory.Parameter
	var failed []error
	values, locked, asked := d.valuesOf(found, told), map[*sysfs.FirmwareInterface]string{}, map[string]bool{}
	doubts := map[*sysfs.FirmwareInterface]error{}
	for _, name := range names {
		asked[name] = true
	}
	for _, s := range found {
		if len(names) > 0 && !asked[s.called] {
			continue
		}
		if _, known := locked[s.of]; !known {
			locked[s.of], doubts[s.of] = d.locked(*s.of)
		}
		s.FirmwareAttribute = s.of.ReadAttribute(d.host, s.Name)
		if s.Err != nil {
			failed = append(failed, s.Err)
		}
		rule, err := s.modified(values)
		s.doubt = errors.Join(doubts[s.of], err)
		read, all = append(read, s), append(all, s.parameter(cmp.Or(locked[s.of], rule)))
	}
	if len(failed) > 0 && len(failed) == len(all) {
		const few = 3
		return nil, nil, errors.Join(failed[:min(few, len(failed))]...)
	}
	return read, all, nil
}

// valuesOf returns the values of settings of the same interface, as they are told to be, and otherwise as they are. Each is read once.
func (d *Driver) valuesOf(found []setting, told []inventory.Setting) values {
	type attribute struct {
		of   *sysfs.FirmwareInterface
		name string
	}
	known, called := map[attribute]sysfs.FirmwareAttribute{}, map[string]attribute{}
	for _, s := range found {
		called[s.called] = attribute{s.of, s.Name}
	}
	for i, s := range told {
		known[called[s.Name]] = sysfs.FirmwareAttribute{Current: &told[i].Value}
	}
	return func(of *sysfs.FirmwareInterface, name string) (*string, error) {
		a := attribute{of, name}
		if _, asked := known[a]; !asked && slices.Contains(of.Attributes, name) {
			known[a] = of.ReadAttribute(d.host, name)
		}
		return known[a].Current, known[a].Err
	}
}

// locked says why nothing of an interface can be changed; empty when it can. The error says that this is not known.
func (d *Driver) locked(i sysfs.FirmwareInterface) (why string, doubt error) {
	auth := administrator(i)
	if auth == nil {
		return "", nil
	}
	where := fmt.Sprintf("%s of %s", auth.Name, i.Name)
	switch {
	case auth.Err != nil:
		return "", fmt.Errorf("it is not known whether a password protects the settings (%s): %w", where, auth.Err)
	case auth.Role != bySetupPassword || auth.Mechanism != "password":
		return fmt.Sprintf("Locked: changes have to be signed (%s, role %s, mechanism %s), which is not supported", where, auth.Role, auth.Mechanism), nil
	case d.password == "":
		return fmt.Sprintf("Locked: the system firmware has an administrator's password (%s), and no file with it is given to this program", where), nil
	}
	if err := checkPassword(d.password); err != nil {
		return fmt.Sprintf("Locked: the system firmware has an administrator's password (%s), and the file with it cannot be used: %v", where, err), nil
	}
	return "", nil
}

// The roles of what has to be proven before a setting can be changed. The others protect the start of the machine, or its drives.
const (
	bySetupPassword = "bios-admin"
	bySignature     = "enhanced-bios-auth"
)

// administrator is what protects the settings of an interface, or may; nil when nothing does. Where changes have to be signed, the password alone
// does not suffice.
func administrator(i sysfs.FirmwareInterface) *sysfs.FirmwareAuthentication {
	for _, protects := range []func(sysfs.FirmwareAuthentication) bool{
		func(a sysfs.FirmwareAuthentication) bool { return a.Err == nil && a.Role == bySignature },
		func(a sysfs.FirmwareAuthentication) bool { return a.Err != nil },
		func(a sysfs.FirmwareAuthentication) bool { return a.Role == bySetupPassword },
	} {
		for _, a := range i.Authentications {
			if a.Enabled && protects(a) {
				return &a
			}
		}
	}
	return nil
}

// Parameters reads the settings. What runs is what is stored, unless something was changed since the boot: then the kernel does not tell what. HP's
// driver never does.
func (d *Driver) Parameters(_ context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	found, err := d.find()
	var all []inventory.Parameter
	if err == nil {
		_, all, err = d.read(found, nil, names...)
	}
	if err != nil {
		return nil, fmt.Errorf("read settings of %s: %w", id.UniqueID, err)
	}
	return all, nil
}

// CheckConfiguration compares the configuration with the settings. The firmware may refuse a value nonetheless.
func (d *Driver) CheckConfiguration(_ context.Context, id inventory.Identity, c driver.Configuration) error {
	if _, _, err := d.resolve(c); err != nil {
		return fmt.Errorf("check settings of %s: %w", id.UniqueID, err)
	}
	return nil
}

// resolve returns the values that are to be written, each with its setting, and what they need.
func (d *Driver) resolve(c driver.Configuration) ([]assignment, inventory.Activation, error) {
	found, err := d.find()
	if err != nil {
		return nil, 0, err
	}
	names := c.Names()
	if len(names) == 0 {
		return nil, inventory.ActivateNone, nil
	}
	read, all, err := d.read(found, c.Set, names...)
	if err != nil {
		return nil, 0, err
	}
	if slices.ContainsFunc(names, func(name string) bool { return inventory.FindParameter(all, name) == nil }) {
		if read, all, err = d.read(found, c.Set); err != nil { // the nearest names are said
			return nil, 0, err
		}
	}
	var unread []error
	for _, s := range read {
		if i := slices.Index(names, s.called); i >= 0 {
			unread = append(unread, s.Err)
			if p := inventory.FindParameter(all, s.called); s.Err == nil && !p.Stores(c.Set[i].Value) {
				unread = append(unread, s.doubt)
			}
		}
	}
	if err := errors.Join(unread...); err != nil {
		return nil, 0, err
	}
	if err := c.Check(all); err != nil {
		return nil, 0, err
	}
	needs := inventory.NeededFor(c.Set, all)
	var todo []assignment
	var problems []error
	for _, s := range c.Set {
		of := read[slices.IndexFunc(read, func(r setting) bool { return r.called == s.Name })]
		if why := of.refuses(s.Value); why != "" {
			problems = append(problems, errors.New(why))
		}
		if inventory.FindParameter(all, s.Name).Stores(s.Value) {
			if changed(*of.of) {
				needs = inventory.ActivateReboot // it may be this one that waits
			}
			continue
		}
		todo = append(todo, assignment{of, of.written(s.Value)})
	}
	problems = append(problems, tooManySaves(todo)...)
	if len(problems) > 0 {
		return nil, 0, driver.RejectSettingsf("%w", errors.Join(problems...))
	}
	return inOrder(todo), needs, nil
}

// Configure has the firmware store what it does not. Each interface gets its values by one command.
func (d *Driver) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	err := owntool.Idle(d.runner, id.UniqueID)
	var todo []assignment
	var needs inventory.Activation
	if err == nil {
		todo, needs, err = d.resolve(c)
	}
	if err != nil {
		return 0, fmt.Errorf("set settings of %s: %w", id.UniqueID, err)
	}
	for len(todo) > 0 {
		of := todo[0].of
		var own []assignment
		for _, a := range todo {
			if a.of == of {
				own = append(own, a)
			}
		}
		todo = slices.DeleteFunc(todo, func(a assignment) bool { return a.of == of })
		if err := d.set(ctx, id, *of, own); err != nil {
			return 0, fmt.Errorf("set settings of %s: %w", id.UniqueID, err)
		}
	}
	return needs, nil
}

func (d *Driver) set(ctx context.Context, id inventory.Identity, i sysfs.FirmwareInterface, values []assignment) error {
	authentication := ""
	if auth := administrator(i); auth != nil {
		authentication = auth.Name
	}
	return owntool.Set(ctx, d.runner, setCommand(d.root, i.Name, authentication, d.password, values, id.UniqueID))
}
