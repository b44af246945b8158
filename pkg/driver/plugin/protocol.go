package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
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
)

// Writes reports whether the verb changes a device.
func (v Verb) Writes() bool { return v == VerbWrite || v == VerbActivate || v == VerbRevert }

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
	Reason string `json:",omitempty"`
}

// The prefixes of the lines the tool prints. A line of progress has a percentage from 0 to 100.
const (
	AnswerPrefix   = "answer "
	ProgressPrefix = "progress "
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
		return &driver.RejectedError{Reason: Message(string(r.Stderr))}
	}
	for _, known := range exits {
		if known.code == r.ExitCode {
			return command.Failed(c, r, known.err)
		}
	}
	return command.Failed(c, r, errFailed)
}

// parseAnswer finds the answer in the tool's output.
func parseAnswer(stdout []byte) (Answer, error) {
	lines := bytes.Split(bytes.TrimRight(stdout, "\n"), []byte("\n"))
	text, ok := bytes.CutPrefix(lines[len(lines)-1], []byte(AnswerPrefix))
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
