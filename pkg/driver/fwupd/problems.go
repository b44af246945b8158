package fwupd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// problem is a reason why fwupd does not update a device (FwupdDeviceProblem of libfwupd).
type problem struct {
	// text says what is wrong and what to do.
	text string
	// lasting problems do not go away by themselves: a retry does not help.
	lasting bool
}

var problems = map[string]problem{
	"update-pending":       {"an earlier update is staged and not applied yet: reboot the node", false},
	"update-in-progress":   {"it is being updated already", false},
	"system-inhibit":       {"another program inhibits all updates of this machine: fwupdmgr inhibit shows it, and fwupdmgr uninhibit ends it", false},
	"in-use":               {"it is in use", false},
	"unreachable":          {"it cannot be reached", false},
	"require-ac-power":     {"it needs external power: connect the machine's power supply", false},
	"system-power-too-low": {"the machine's battery is too low: charge it", false},
	"power-too-low":        {"its battery is too low: charge it", false},
	"lid-is-closed":        {"the machine's lid is closed: open it", false},
	"display-required":     {"it needs a display: connect one", false},
	"missing-license":      {"the vendor's license for updates is missing: install it", true},
	"is-emulated":          {"it is emulated, not real hardware", true},
	"lower-priority":       {"fwupd updates the same hardware through another of its devices", true},
	"insecure-platform":    {"it is signed with an insecure key, so fwupd does not update it: use the vendor's own tool", true},
	"firmware-locked":      {"updates are locked in the firmware's setup: unlock them there", true},
}

// hindered returns why fwupd does not update the device, nil when it does. The error is a *RejectedError when one of
// the problems is lasting.
func (d fwupdDevice) hindered() error {
	if len(d.Problems) == 0 && slices.Contains(d.Flags, "updatable") {
		return nil
	}
	var texts []string
	lasting := false
	for _, name := range d.Problems {
		p, ok := problems[name]
		if !ok {
			p.text = "fwupd reports the problem " + name
		}
		texts = append(texts, p.text)
		lasting = lasting || p.lasting
	}
	switch {
	case len(texts) == 0 && d.UpdateError != "":
		texts = []string{d.UpdateError}
	case len(texts) == 0:
		texts = []string{"fwupd reports that it is not updatable"}
	case d.UpdateError != "":
		texts = append(texts, "fwupd: "+d.UpdateError)
	}
	reason := fmt.Sprintf("fwupd does not update %s, so nothing was written: %s", d.name(), strings.Join(texts, "; "))
	if lasting {
		return driver.Rejectf("%s", reason)
	}
	return fmt.Errorf("%s", reason)
}

func (d fwupdDevice) name() string { return cmp.Or(d.Name, "device "+d.ID) }

// Tools are those that the driver runs.
func (*Driver) Tools() []string { return []string{tool} }

// Tools are those that the driver runs.
func (*ATA) Tools() []string { return []string{identifyTool, tool} }

// unusable says why fwupdtool cannot be used, for people, by the error of the runner.
func unusable(err error) string {
	var e *command.Error
	switch {
	case errors.Is(err, command.ErrNotFound):
		return "fwupdtool is not installed where the daemon looks for tools: add it to the image, or correct --tool-path"
	case errors.As(err, &e):
		err = e.Err
	}
	return fmt.Sprintf("fwupdtool: %v", err)
}

// Usable returns an error if the tool is not installed.
func (d *Driver) Usable() error { return command.Installed(d.runner, tool) }

// exitCodes are the exit codes of fwupdtool that mean more than a failure, as errors. A printed error is more precise
// and takes precedence; some failures, and some versions of the tool, print none.
var exitCodes = map[int]fwupdError{
	2:   {Domain: domain, Code: codeNothingToDo, Message: "there is nothing to do"},
	3:   {Domain: domain, Code: codeNotFound, Message: "fwupd does not find the device, or the archive holds nothing for it"},
	101: {Domain: domain, Code: codeNotReachable, Message: "fwupd cannot reach something it needs"},
}

const domain = "FwupdError"

// reported is the error of a failed run: what the tool printed, or the meaning of its exit code; nil when there is
// neither.
func reported(r command.Result) *fwupdError {
	if e := parseError(r.Stdout); e != nil {
		return e
	}
	if e, ok := exitCodes[r.ExitCode]; ok {
		return &e
	}
	return nil
}

// notTheArchive are parts of messages that have the code of an archive that fwupd does not support, and are about the machine: the
// device takes no update now, or there is no room for it.
var notTheArchive = []string{
	"not updatable", "does not currently allow updates", "Failed to lock", "does not have sufficient space", "no ESP set",
	"version formats were different", // the machine's is what the driver made of its versions
}

// refused returns the error of a failed run: a *RejectedError when the archive is to blame.
func refused(c command.Command, r command.Result) error {
	e := reported(r)
	switch {
	case e == nil:
		return command.Failed(c, r, errors.New("tool failed"))
	case e.is(codeNotSupported) && slices.ContainsFunc(notTheArchive, func(text string) bool { return strings.Contains(e.Message, text) }):
		return command.Failed(c, r, e)
	case e.Domain == "gcab-error-quark" || e.is(codeVersionNewer, codeInvalidFile, codeNotSupported, codeSignatureInvalid):
		return driver.Rejectf("fwupd rejects the archive: %s", e.Message)
	}
	return command.Failed(c, r, e)
}
