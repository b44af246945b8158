package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Tool is the name of the tool that speaks to plugins: Tool VERB REQUEST, where the request is a Request in JSON.
const Tool = "firmware-plugin"

// Verb is the operation of a request.
type Verb string

// The verbs of the tool.
const (
	VerbInfo     Verb = "info"
	VerbInspect  Verb = "inspect"
	VerbCheck    Verb = "check"
	VerbWrite    Verb = "write"
	VerbActivate Verb = "activate"
	VerbArchive  Verb = "archive"
	VerbRevert   Verb = "revert"
	VerbCancel   Verb = "cancel"

	VerbParameters         Verb = "parameters"
	VerbCheckConfiguration Verb = "check-configuration"
	VerbConfigure          Verb = "configure"
)

// Writes reports whether the verb changes a device.
func (v Verb) Writes() bool {
	return v == VerbWrite || v == VerbActivate || v == VerbRevert || v == VerbConfigure
}

// Request is a request of the tool to a plugin. Fields that a verb does not need are zero.
type Request struct {
	// Socket is the absolute path of the plugin's socket.
	Socket string
	// Task is the id of the task; Version the expected version of the plugin.
	Task    string             `json:",omitempty"`
	Version string             `json:",omitempty"`
	ID      inventory.Identity `json:",omitzero"`
	Image   driver.Image       `json:",omitzero"`
	// Kind of activation.
	Kind inventory.Activation `json:",omitempty"`
	// Path of the archive.
	Path string `json:",omitempty"`
	// To is the version to revert to.
	To inventory.Version `json:",omitempty"`
	// Settings are those that the device is told, and Names those that are read; none for all.
	Settings []inventory.Setting `json:",omitempty"`
	Names    []string            `json:",omitempty"`
	// GraceSeconds and Force are for a cancellation.
	GraceSeconds int32 `json:",omitempty"`
	Force        bool  `json:",omitempty"`
}

// Answer is what the tool prints on success, as its last line, in JSON after AnswerPrefix.
type Answer struct {
	Info     Info
	ID       inventory.Identity   `json:",omitzero"`
	Firmware inventory.Firmware   `json:",omitzero"`
	Needs    inventory.Activation `json:",omitempty"`
	// Reason says why Needs is more than what was asked for; empty where the plugin gives none.
	Reason     string                `json:",omitempty"`
	Parameters []inventory.Parameter `json:",omitempty"`
}

// The prefixes of the lines the tool prints. A line of progress has a percentage from 0 to 100. That of a rejection is the last one and says
// what is rejected; there is none for an image.
const (
	AnswerPrefix   = "answer "
	ProgressPrefix = "progress "
	RejectedPrefix = "rejected "
)

// ErrUnavailable says that a plugin does not answer. Nothing was begun.
var ErrUnavailable = errors.New("the plugin does not answer")

// ErrInvalid says that a plugin's answer is invalid.
var ErrInvalid = errors.New("the plugin's answer is invalid")

// rejected is the exit code for a *driver.RejectedError, whose reason is on standard error.
const rejected = 3

// exits are the exit codes of the tool and their meanings. 0 is success, 1 any other failure.
var exits = []struct {
	code int
	err  error
}{
	{4, driver.ErrNotSupported},
	{5, command.ErrBusy},
	{6, command.ErrStillRunning},
	{7, command.ErrLost},
	{8, ErrNotFound},
	{9, ErrVersionChanged},
	{10, ErrCancelled},
	{11, ErrWriting},
	{12, fs.ErrExist},
	{13, ErrStopping},
	{14, ErrUnavailable},
	{15, ErrInvalid},
	{16, command.ErrImage},
}

// ExitCode is the tool's exit code for an error.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if errors.As(err, new(*driver.RejectedError)) {
		return rejected
	}
	for _, known := range exits {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return 1
}

var errFailed = errors.New("the plugin failed")

// failure is the error of an exit code. The command is for the message.
func failure(c command.Command, r command.Result) error {
	if r.ExitCode == rejected {
		of, ok := bytes.CutPrefix(lastLine(r.Stdout), []byte(RejectedPrefix))
		if !ok {
			of = nil // the last line is of progress, if anything
		}
		return Rejected(string(of), string(r.Stderr))
	}
	for _, known := range exits {
		if known.code == r.ExitCode {
			return command.Failed(c, r, known.err)
		}
	}
	return command.Failed(c, r, errFailed)
}

// maxRejected bounds the name of what a plugin rejects, in bytes.
const maxRejected = 64

// Rejected returns a *driver.RejectedError of a plugin, with texts that are bounded and on one line. Of is what is rejected; empty for an image.
func Rejected(of, reason string) error {
	return &driver.RejectedError{Of: text.Clip(Message(of), maxRejected), Reason: Message(reason)}
}

func lastLine(out []byte) []byte {
	out = bytes.TrimRight(out, "\n")
	return out[bytes.LastIndexByte(out, '\n')+1:]
}

// parseAnswer finds the answer in the tool's output.
func parseAnswer(stdout []byte) (Answer, error) {
	text, ok := bytes.CutPrefix(lastLine(stdout), []byte(AnswerPrefix))
	if !ok {
		return Answer{}, fmt.Errorf("%w: the tool printed no answer", ErrInvalid)
	}
	var a Answer
	if err := json.Unmarshal(text, &a); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := a.Info.Check(); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if a.Needs < inventory.ActivateNone || a.Needs > inventory.ActivatePowerCycle {
		return Answer{}, fmt.Errorf("%w: activation %d", ErrInvalid, a.Needs)
	}
	return a, nil
}

// Errors of plugins that package driver does not define.
var (
	ErrNotFound       = errors.New("no such task")
	ErrVersionChanged = errors.New("the plugin now has another version")
	ErrCancelled      = errors.New("cancelled")
	ErrWriting        = errors.New("a running write is never interrupted")
	ErrStopping       = errors.New("the plugin is stopping")
)

// Match says which devices a plugin supports, and how well.
type Match = driver.Match

// maxMatches bounds the matches of a plugin.
const maxMatches = 64

// Info is a plugin's description of itself.
type Info struct {
	Name, Version string
	Matches       []Match
	// Settings says that the plugin reads and changes settings.
	Settings bool `json:",omitempty"`
}

// Support is the best level of the matches that fit the device.
func (i Info) Support(id inventory.Identity) driver.Support {
	best := driver.SupportNone
	for _, m := range i.Matches {
		if m.Fits(id) {
			best = max(best, m.Support)
		}
	}
	return best
}

// Check returns all problems of a plugin's info.
func (i Info) Check() error {
	errs := []error{CheckName(i.Name)}
	if !versionForm.MatchString(i.Version) {
		errs = append(errs, fmt.Errorf("plugin version %q: want printable characters without blanks, at most 64", i.Version))
	}
	if len(i.Matches) == 0 || len(i.Matches) > maxMatches {
		errs = append(errs, fmt.Errorf("the plugin has %d matches, want 1 to %d", len(i.Matches), maxMatches))
	}
	for n, m := range i.Matches {
		var wrong []error
		for field, list := range map[string][]string{
			"vendors": m.Vendors, "vendor_ids": m.VendorIDs, "device_ids": m.DeviceIDs, "models": m.Models, "transports": m.Transports,
			"kernel_drivers": m.Kernel,
		} {
			wrong = append(wrong, checkList(field, list))
		}
		if len(m.SubsystemVendorIDs) > 0 {
			wrong = append(wrong, errors.New("the protocol has no vendors of subsystems: match by models"))
		}
		if !slices.Contains(inventory.Classes(), m.Class) {
			wrong = append(wrong, fmt.Errorf("unknown class %q", m.Class))
		}
		if m.Support < driver.SupportGeneric || m.Support > driver.SupportVendor {
			wrong = append(wrong, fmt.Errorf("unknown level of support %d", m.Support))
		}
		if err := errors.Join(wrong...); err != nil {
			errs = append(errs, fmt.Errorf("match %d: %w", n+1, err))
		}
	}
	return errors.Join(errs...)
}

// maxMessage bounds a text for people, in bytes.
const maxMessage = 4096

// Message returns a plugin's text for people, bounded and on one line.
func Message(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.TrimSpace(text.Clip(s, maxMessage))
}

var (
	nameForm    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)
	versionForm = regexp.MustCompile(`^[!-~]{1,64}$`)
	taskForm    = regexp.MustCompile(`^[!-~]{1,128}$`)
)

// CheckName returns an error if the name is not valid for a plugin.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("plugin name %q: want lower-case letters, digits and dashes, at most 40", name)
	}
	return nil
}

// CheckTask returns an error if the id is not valid for a task.
func CheckTask(id string) error {
	if !taskForm.MatchString(id) {
		return fmt.Errorf("task id %q: want printable characters without blanks, at most 128", id)
	}
	return nil
}

// Text returns an error when the text is not one line of at most limit bytes.
func Text(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return fmt.Errorf("%s has %d bytes, the limit is %d", field, len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s is not UTF-8: %q", field, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s has control characters: %q", field, s)
	case s != strings.TrimSpace(s):
		return fmt.Errorf("%s begins or ends with a blank: %q", field, s)
	}
	return nil
}

// maxValues and maxText bound a list, and its values in bytes.
const (
	maxValues = 256
	maxText   = 256
)

func checkList(field string, list []string) error {
	if len(list) > maxValues {
		return fmt.Errorf("%s has %d values, the limit is %d", field, len(list), maxValues)
	}
	var errs []error
	for _, s := range list {
		if s == "" {
			errs = append(errs, fmt.Errorf("%s has an empty value", field))
		}
		errs = append(errs, Text(field, s, maxText))
	}
	return errors.Join(errs...)
}
