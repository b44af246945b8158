package fwupd

import (
	"errors"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

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
