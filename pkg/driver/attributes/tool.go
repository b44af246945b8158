package attributes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	host                         Host
	authentication, passwordFile string
	// pairs are names and values in turn.
	pairs []string
}

// run stores the values, between telling the password and taking it back.
func (s session) run(say func(string)) error {
	if s.authentication == "" {
		return s.saved(say)
	}
	password, err := readPassword(s.passwordFile)
	if err != nil {
		return err
	}
	switch err = s.tell(password + "\n"); {
	case err == nil:
		err = s.saved(say)
	case isRefusal(err):
		err = owntool.Rejectf("the password of %s is refused: %v", s.authentication, err)
	default:
		err = fmt.Errorf("tell the password of %s: %w", s.authentication, err)
	}
	if forget := s.tell("\n"); forget != nil {
		return fmt.Errorf("the kernel still knows the password of %s, for every process: %w", s.authentication, errors.Join(forget, err))
	}
	return err
}

// tell writes current_password.
func (s session) tell(password string) error {
	return s.host.Store(path.Join(s.Path, "authentication", s.authentication, "current_password"), password)
}

// maxPassword bounds the file of a password.
const maxPassword = 1024

// readPassword reads the password, without the end of its line. Errors do not have it.
func readPassword(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if password == "" || len(text) > maxPassword || strings.ContainsAny(password, "\r\n\x00") {
		return "", fmt.Errorf("read password: %s does not hold one line of at most %d bytes", file, maxPassword)
	}
	return password, nil
}

// saved stores the values and saves them. Lenovo's firmware saves a few times between two boots, so that more than one value is saved at
// once where the driver can: what was stored before a refusal is saved too, so that it is what is read.
func (s session) saved(say func(string)) error {
	const single, bulk, save = "single", "bulk", "save"
	mode := path.Join(s.Path, "attributes/save_settings")
	if s.SaveMode == "" || s.SaveMode == single && len(s.pairs) == 2 {
		_, err := s.store(say)
		return err
	}
	if s.SaveMode != bulk {
		if err := s.host.Store(mode, bulk+"\n"); err != nil {
			return fmt.Errorf("have settings saved at once: %w", err)
		}
	}
	n, err := s.store(say)
	if n > 0 {
		if saving := s.host.Store(mode, save+"\n"); saving != nil {
			err = errors.Join(err, fmt.Errorf("save settings: %w", saving))
		}
	}
	if s.SaveMode != bulk {
		if back := s.host.Store(mode, single+"\n"); back != nil {
			err = errors.Join(err, fmt.Errorf("have settings saved one by one again: %w", back))
		}
	}
	return err
}

// store stores the values up to the first that is refused, and returns how many.
func (s session) store(say func(string)) (n int, err error) {
	for at := 0; at < len(s.pairs); at += 2 {
		name, value := s.pairs[at], s.pairs[at+1]
		if err := s.storeOne(name, value); err != nil {
			return n, err
		}
		n++
		say(fmt.Sprintf("set %s to %s", name, value))
	}
	return n, nil
}

// storeOne stores a value and reads it back. Some firmware shows a value only after the boot: as long as one waits for it, the value from
// before is no refusal.
func (s session) storeOne(name, value string) error {
	before := s.ReadAttribute(s.host, name)
	if before.Err != nil {
		return before.Err
	}
	err := s.host.Store(path.Join(s.Path, "attributes", name, "current_value"), value+"\n")
	switch {
	case errors.Is(err, fs.ErrPermission):
		return owntool.Rejectf("the system firmware refuses to change %s to %q: %v: it is locked, or its password is another", name, value, err)
	case isRefusal(err):
		return owntool.Rejectf("the system firmware does not take %q for %s: %v", value, name, err)
	case err != nil:
		return fmt.Errorf("set %s to %q: %w", name, value, err)
	}
	after := s.ReadAttribute(s.host, name)
	if after.Err != nil {
		return after.Err
	}
	pending, _ := fs.ReadFile(s.host, path.Join(s.Path, "attributes/pending_reboot")) // where it cannot be read, none waits
	waits := strings.TrimSpace(string(pending)) == "1"
	switch {
	case same(after, value), waits && *after.Current == *before.Current:
		return nil
	case *after.Current == *before.Current:
		return owntool.Rejectf("the system firmware took %q for %s, and kept %q", value, name, *after.Current)
	}
	return owntool.Rejectf("the system firmware stored %q for %s instead of %q", *after.Current, name, value)
}

// isRefusal reports whether the error is about what was written.
func isRefusal(err error) bool {
	for _, refusal := range []syscall.Errno{syscall.EINVAL, syscall.EACCES, syscall.EPERM, syscall.ERANGE, syscall.EOPNOTSUPP, syscall.ENOENT} {
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
