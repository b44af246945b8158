package attributes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Tool is the name of the tool of this package.
const Tool = "firmware-attributes"

// Host is a machine whose kernel is asked by files.
type Host interface {
	fs.FS
	// Store gives an attribute a value.
	Store(name, value string) error
}

// Main is the tool firmware-attributes, on the kernel it runs on.
func Main(_ context.Context, args []string, stdout, stderr io.Writer) int {
	return Program{Open: func(root string) Host { return sysfs.DirFS(root) }}.Run(args, stdout, stderr)
}

// Program is the tool firmware-attributes:
//
//	firmware-attributes set --root DIR --interface NAME [--authentication NAME --password-file FILE] -- NAME VALUE [NAME VALUE…]
//
// It stores values one after the other and ends at the first that is refused. The kernel keeps a password that it was told, for every process,
// until it is told an empty one: the program ignores signals, and does that whatever happens in between.
type Program struct {
	// Open returns the host whose "/" is a directory of this machine.
	Open func(root string) Host
}

// Run returns the exit code, one of those of owntool.
func (p Program) Run(args []string, stdout, stderr io.Writer) int {
	return owntool.Run(stdout, stderr, func() (owntool.Action, error) {
		s, err := p.parse(args)
		return s.run, err
	})
}

func (p Program) parse(args []string) (session, error) {
	use := errors.New("use: " + Tool + " set --root DIR --interface NAME [--authentication NAME --password-file FILE] -- NAME VALUE [NAME VALUE…]")
	if len(args) == 0 || args[0] != "set" {
		return session{}, use
	}
	var s session
	var root, of string
	flags := flag.NewFlagSet(Tool, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&root, "root", "", "")
	flags.StringVar(&of, "interface", "", "")
	flags.StringVar(&s.authentication, "authentication", "", "")
	flags.StringVar(&s.passwordFile, "password-file", "", "")
	if err := flags.Parse(args[1:]); err != nil {
		return session{}, err
	}
	s.pairs = flags.Args()
	if root == "" || of == "" || len(s.pairs) == 0 || len(s.pairs)%2 != 0 || (s.authentication == "") != (s.passwordFile == "") {
		return session{}, use
	}
	s.host = p.Open(root)
	interfaces, err := sysfs.FirmwareInterfaces(s.host)
	if err != nil {
		return session{}, err
	}
	i := slices.IndexFunc(interfaces, func(i sysfs.FirmwareInterface) bool { return i.Name == of })
	if i < 0 {
		return session{}, fmt.Errorf("find interface %q: the kernel has none of that name", of)
	}
	s.FirmwareInterface = interfaces[i]
	for at := 0; at < len(s.pairs); at += 2 {
		if !slices.Contains(s.Attributes, s.pairs[at]) {
			return session{}, fmt.Errorf("find attribute %q: %s has none of that name", s.pairs[at], of)
		}
	}
	isNamed := func(a sysfs.FirmwareAuthentication) bool { return a.Name == s.authentication }
	if s.authentication != "" && !slices.ContainsFunc(s.Authentications, isNamed) {
		return session{}, fmt.Errorf("find authentication %q: %s has none of that name", s.authentication, of)
	}
	return s, nil
}

// session is one call of the tool.
type session struct {
	sysfs.FirmwareInterface
	host                                   Host
	authentication, passwordFile, password string
	// pairs are names and values in turn.
	pairs []string
}

// The names of the kernel's drivers that differ in what they do with a password, and with values.
const (
	thinkLMI = "thinklmi"
	hpBIOS   = "hp-bioscfg"
)

// run stores the values, between telling the password and taking it back.
func (s session) run(say func(string)) error {
	if s.authentication == "" {
		return s.saved(say)
	}
	var err error
	if s.password, err = readPassword(s.passwordFile); err != nil {
		return err
	}
	if s.Name == hpBIOS { // it forgets the password with each value, and takes no empty one
		return s.saved(say)
	}
	if err = s.tell(s.password); err == nil {
		err = s.saved(say)
	}
	if forget := s.store("authentication", s.authentication, "current_password", s.nothing()); forget != nil {
		return fmt.Errorf("the kernel still knows the password of %s, for every process: %w", s.authentication, errors.Join(forget, err))
	}
	return err
}

// tell writes the password, without the end of a line: Lenovo's driver counts that as a part.
func (s session) tell(password string) error {
	err := s.store("authentication", s.authentication, "current_password", password)
	switch {
	case isRefusal(err):
		return owntool.Rejectf("the password of %s is refused: %v", s.authentication, err)
	case err != nil:
		return fmt.Errorf("tell the password of %s: %w", s.authentication, err)
	}
	return nil
}

// nothing is the empty password. An empty write never reaches a driver. Lenovo's takes the end of a line for a password that is too short, and Dell's
// looks for that before the text on older kernels, and is always given one.
func (s session) nothing() string {
	if s.Name == thinkLMI {
		return "\x00"
	}
	return "\n"
}

// store writes a file of the interface.
func (s session) store(of, name, file, value string) error {
	return s.host.Store(path.Join(s.Path, of, name, file), value)
}

// saved stores the values and saves them. Lenovo's firmware saves a few times between two boots, so that more than one value is saved at
// once where the driver can: what was stored before a refusal is saved too, so that it is what is read. Once its driver has saved at once, it takes values one
// by one alone until the boot.
func (s session) saved(say func(string)) error {
	const single, bulk = "single", "bulk"
	how := s.SaveMode
	switch {
	case how == "":
	case changed(s.FirmwareInterface):
		how = single
	case len(s.pairs) > 2:
		how = bulk
	}
	mode := func(to string) error { return s.store("attributes", "", "save_settings", to+"\n") }
	if how != s.SaveMode {
		if err := mode(how); err != nil {
			return fmt.Errorf("have settings saved %s: %w", how, err)
		}
	}
	var err error
	if how == bulk {
		err = s.atOnce(say, func() error { return mode("save") })
	} else {
		err = s.oneByOne(say)
	}
	if how != s.SaveMode {
		if back := mode(s.SaveMode); back != nil {
			err = errors.Join(err, fmt.Errorf("have settings saved %s again: %w", s.SaveMode, back))
		}
	}
	return err
}

// oneByOne stores the values up to the first that is refused.
func (s session) oneByOne(say func(string)) error {
	for pair := range slices.Chunk(s.pairs, 2) {
		before, err := s.put(pair[0], pair[1])
		if err == nil {
			err = s.verify(before, pair[1], say)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// atOnce stores the values up to the first that is refused, saves them, and looks then what the firmware made of them.
func (s session) atOnce(say func(string), save func() error) error {
	var stored []sysfs.FirmwareAttribute
	var err error
	for pair := range slices.Chunk(s.pairs, 2) {
		var before sysfs.FirmwareAttribute
		if before, err = s.put(pair[0], pair[1]); err != nil {
			break
		}
		stored = append(stored, before)
	}
	if len(stored) == 0 {
		return err
	}
	switch saving := save(); {
	case isRefusal(saving):
		return errors.Join(err, owntool.Rejectf("the system firmware does not save settings: %v: it is locked, or its password is another", saving))
	case saving != nil:
		return errors.Join(err, fmt.Errorf("save settings: %w", saving))
	}
	for i, before := range stored {
		err = errors.Join(err, s.verify(before, s.pairs[2*i+1], say))
	}
	return err
}

// put stores a value, and returns what was before.
func (s session) put(name, value string) (before sysfs.FirmwareAttribute, err error) {
	if before = s.ReadAttribute(s.host, name); before.Err != nil {
		return before, before.Err
	}
	orPassword := ""
	if s.authentication != "" {
		orPassword = ", or its password is another"
	}
	if s.authentication != "" && s.Name == hpBIOS {
		if err := s.tell(s.password); err != nil {
			return before, err
		}
	}
	err = s.store("attributes", name, "current_value", value+"\n")
	switch {
	case errors.Is(err, fs.ErrPermission):
		return before, owntool.Rejectf("the system firmware refuses to change %s to %q: %v: it is locked, or its password is another", name, value, err)
	case isRefusal(err):
		return before, owntool.Rejectf("the system firmware does not take %q for %s%s: %v", value, name, orPassword, err)
	case err != nil:
		return before, fmt.Errorf("set %s to %q: %w", name, value, err)
	}
	return before, nil
}

// verify reads a value back. Some firmware shows a value only after the boot: as long as one waits for it, the value from before is no refusal.
func (s session) verify(before sysfs.FirmwareAttribute, value string, say func(string)) error {
	after := s.ReadAttribute(s.host, before.Name)
	if after.Err != nil {
		return after.Err
	}
	pending, err := fs.ReadFile(s.host, path.Join(s.Path, "attributes/pending_reboot"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tell whether %s waits for a boot: %w", before.Name, err)
	}
	waits := strings.TrimSpace(string(pending)) == "1"
	switch {
	case same(after, value), waits && *after.Current == *before.Current:
		say(fmt.Sprintf("set %s to %s", before.Name, value))
		return nil
	case *after.Current == *before.Current:
		return owntool.Rejectf("the system firmware took %q for %s, and kept %q", value, before.Name, *after.Current)
	}
	return owntool.Rejectf("the system firmware stored %q for %s instead of %q", *after.Current, before.Name, value)
}

// changed reports whether the driver says that something was changed since the boot.
func changed(i sysfs.FirmwareInterface) bool { return i.PendingReboot != nil && *i.PendingReboot != 0 }

// isRefusal reports whether the error is about what was written.
func isRefusal(err error) bool {
	for _, refusal := range []syscall.Errno{syscall.EINVAL, syscall.EACCES, syscall.EPERM, syscall.ERANGE, syscall.EOPNOTSUPP} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// same reports whether an attribute has a value, however it spells numbers, and what is between the elements of a list.
func same(a sysfs.FirmwareAttribute, value string) bool {
	switch a.Type {
	case "integer":
		return inventory.SpelledAsNumber.Same(*a.Current, value)
	case orderedList:
		return strings.ReplaceAll(*a.Current, ",", ";") == value
	}
	return *a.Current == value
}

func setCommand(root, of, authentication, passwordFile string, values []assignment, lock string) command.Command {
	argv := []string{Tool, "set", "--root", root, "--interface", of}
	if authentication != "" {
		argv = append(argv, "--authentication", authentication, "--password-file", passwordFile)
	}
	argv = append(argv, "--")
	for _, a := range values {
		argv = append(argv, a.Name, a.value)
	}
	return command.Command{Argv: argv, Kind: command.Write, Lock: lock}
}
