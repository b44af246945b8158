package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Profile is the declaration in one file. Parse creates and checks it.
type Profile struct {
	// Name is the driver's name.
	Name string
	// Version has to be changed with every change of the file.
	Version string
	// Match says which devices the profile is for.
	Match driver.Match
	// Inspect reads a device.
	Inspect Query
	// Check reads an image; nil if the tool cannot.
	Check *Query
	// Write stages an image; nil when the device can only be read.
	Write *Change
	// Activate makes a staged image run; nil if the tool cannot.
	Activate *Change
	// Activation is what a written image needs before it runs.
	Activation inventory.Activation
	// Format declares how the device's versions are ordered.
	Format inventory.VersionFormat
	// Rollback is None or Image.
	Rollback inventory.Rollback
	// ReadOnly says why there is no Write.
	ReadOnly string
	// Steps run on request, or in every update when they have a priority.
	Steps []Step
	// Settings of the devices; nil when the profile reads and changes none.
	Settings *Settings
}

// Step is a step that the tool provides. Its command runs as a write when the step changes the device.
type Step struct {
	driver.Step
	Query
}

// Query is a run of a tool that changes nothing, and how its output is read.
type Query struct {
	Argv    []template
	Timeout time.Duration
	Exits   Exits
	Format  Format
	Fields  map[string]Field
	Expect  []Expectation
	// ImageAs is how the tool gets the image; only for Check.
	ImageAs ImageAs
}

// Change is a run of a tool that writes to the device.
type Change struct {
	Argv    []template
	Timeout time.Duration
	Exits   Exits
	// Format and Expect check the output of a tool whose exit code is unreliable; only for Write.
	Format Format
	Expect []Expectation
	// Progress finds percentages in a line of the output; nil for none.
	Progress *regexp.Regexp
	// Kind is the kind of activation; only for Activate.
	Kind inventory.Activation
	// ImageAs is how the tool gets the image; only for Write.
	ImageAs ImageAs
}

// ImageAs is how a tool gets an image. Empty is AsDescriptor.
type ImageAs string

const (
	// AsDescriptor gives the tool a copy that nobody can change, as /proc/self/fd/4; see command.Image.
	AsDescriptor ImageAs = "Descriptor"
	// AsFile gives the tool the path of the image in the daemon's store, whose content is hashed right before. Use it for a tool that
	// passes the path to another process or closes unknown descriptors, and for an image that is a script.
	AsFile ImageAs = "File"
)

// Format is how the output of a tool is structured.
type Format string

// The formats.
const (
	JSON  Format = "json"
	XML   Format = "xml"
	Regex Format = "regex"
)

// Field is the place of a value in the output.
type Field struct {
	// Path leads to the value in JSON and XML.
	Path []step
	// Pattern has one group, which captures the value in the text at the path, or in the whole output.
	Pattern *regexp.Regexp
	// Optional fields may be missing.
	Optional bool
}

// Expectation is a value that must be one of several.
type Expectation struct {
	Field
	Is []string
}

// Exits classifies exit codes. A code in no class is a failure.
type Exits struct {
	// OK, Already, Rejected and Retry list codes.
	OK, Already, Rejected, Retry []int
	// Pending codes mean success, each with the activation that is needed.
	Pending map[int]inventory.Activation
	// Fail codes mean failure, each with its text from the tool's documentation.
	Fail map[int]string
}

// The names of fields.
const (
	fieldRunning      = "running"
	fieldStored       = "stored"
	fieldBoardID      = "boardID"
	fieldModel        = "model"
	fieldPartNumber   = "partNumber"
	fieldSerialNumber = "serialNumber"
	fieldUniqueID     = "uniqueID"
	fieldNumber       = "number"
	fieldVersion      = "version"
	fieldResult       = "result"
	fieldCommitted    = "committed"
)

// Steps lists the profile's.
func (d *Driver) Steps() []driver.Step {
	var out []driver.Step
	for _, s := range d.p.Steps {
		out = append(out, s.Step)
	}
	return out
}

// RunStep runs the step's command on the device. A command that changes the device runs as a write does. Nothing is kept
// between calls: a command that was interrupted runs again. It takes no arguments.
func (d *Driver) RunStep(ctx context.Context, c driver.StepCall) (driver.StepResult, error) {
	i := slices.IndexFunc(d.p.Steps, func(s Step) bool { return s.Name == c.Name })
	if i < 0 {
		return driver.StepResult{}, fmt.Errorf("run step %s: %w", c.Name, driver.ErrNotSupported)
	}
	result, err := d.runStep(ctx, c.Identity, d.p.Steps[i])
	if err != nil {
		return driver.StepResult{}, fmt.Errorf("run step %s on %s: %w", c.Name, c.Identity.UniqueID, err)
	}
	return result, nil
}

func (d *Driver) runStep(ctx context.Context, id inventory.Identity, s Step) (driver.StepResult, error) {
	on, _, err := d.inspect(ctx, id)
	if err != nil {
		return driver.StepResult{}, err
	}
	var c command.Command
	if s.Changes {
		c = command.Command{Kind: command.Write, Lock: on.id.UniqueID}
	}
	values, outcome, err := d.run(ctx, s.Query, on, c)
	if err != nil {
		return driver.StepResult{}, err
	}
	if using(s.templates(), isNumber) != "" {
		now, err := d.renumber(ctx, on)
		switch {
		case err != nil:
			return driver.StepResult{}, fmt.Errorf("the tool reports success: read back: %w", err)
		case now.number != on.number:
			return driver.StepResult{}, fmt.Errorf("the tool ran on number %s, and the device has number %s now: find out which device it ran on",
				on.number, now.number)
		}
	}
	result := driver.StepResult{Reboot: outcome == classPending, Message: "the tool reports success"}
	if outcome == classAlready {
		result.Message = "the tool reports that nothing was left to do"
	}
	if value, ok := values[fieldResult]; ok {
		result.Message = fmt.Sprintf("the tool reports %q", value)
	}
	return result, nil
}

// ErrRetry is wrapped by the error of a tool that reports that a later retry may help.
var ErrRetry = errors.New("the tool asks to try again later")

// class is the meaning of an exit code.
type class int

const (
	classFail class = iota
	classOK
	classAlready
	classPending
	classRejected
	classRetry
)

func (e Exits) class(code int) class {
	_, pending := e.Pending[code]
	switch {
	case slices.Contains(e.OK, code):
		return classOK
	case slices.Contains(e.Already, code):
		return classAlready
	case pending:
		return classPending
	case slices.Contains(e.Rejected, code):
		return classRejected
	case slices.Contains(e.Retry, code):
		return classRetry
	}
	return classFail
}

// failure is the error of a run whose exit code does not mean success.
func (e Exits) failure(c command.Command, r command.Result) error {
	switch e.class(r.ExitCode) {
	case classRejected:
		return driver.Rejectf("%v", command.Failed(c, r, errors.New("the tool rejects the image")))
	case classRetry:
		return command.Failed(c, r, ErrRetry)
	}
	if text, ok := e.Fail[r.ExitCode]; ok {
		return command.Failed(c, r, fmt.Errorf("tool failed: %s", text))
	}
	return command.Failed(c, r, errors.New("tool failed"))
}

// needs is the activation after a success: that of the exit code, or else that of the profile.
func (e Exits) needs(code int, byDefault inventory.Activation) inventory.Activation {
	if kind, ok := e.Pending[code]; ok {
		return kind
	}
	return byDefault
}

// LoadDir reads the profiles of a local directory. A missing directory has none.
func LoadDir(dir string) ([]Profile, error) {
	profiles, err := Load(os.DirFS(dir), dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return profiles, err
}

// Load reads the files of a directory that end in .yaml or .yml, in order of their names. Any problem in any file is an
// error, which lists all problems. The directory's name is for messages.
func Load(files fs.FS, dir string) ([]Profile, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	var profiles []Profile
	var problems []error
	owner := map[string]string{}
	for _, entry := range entries {
		if ext := path.Ext(entry.Name()); ext != ".yaml" && ext != ".yml" {
			continue
		}
		file := filepath.Join(dir, entry.Name())
		p, err := loadFile(files, entry.Name(), file)
		switch {
		case err != nil:
			problems = append(problems, err)
		case owner[p.Name] != "":
			problems = append(problems, fmt.Errorf("%s: name: %q is already the name of %s", file, p.Name, owner[p.Name]))
		default:
			owner[p.Name] = file
			profiles = append(profiles, p)
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return profiles, nil
}

// writable are the permissions with which users other than the owner could decide what runs as root.
const writable = 0o022

// trusted reports whether a file belongs to root or to the user that runs this. Files that are in no file system of the
// machine have no owner.
func trusted(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return !ok || owner.Uid == 0 || int(owner.Uid) == os.Geteuid()
}

func loadFile(files fs.FS, name, file string) (Profile, error) {
	info, err := fs.Stat(files, name)
	switch {
	case err != nil:
		return Profile{}, fmt.Errorf("read profile: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return Profile{}, fmt.Errorf("%s: want a file of at most %d bytes", file, maxFile)
	case info.Mode()&writable != 0:
		return Profile{}, fmt.Errorf("%s: users other than its owner may write it: run chmod go-w on it", file)
	case !trusted(info):
		return Profile{}, fmt.Errorf("%s: it belongs to neither root nor this user, who could decide what runs as root: review it, then run chown root on it", file)
	}
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return Profile{}, fmt.Errorf("read profile: %w", err)
	}
	return Parse(file, text)
}
