package fwupd

import (
	"errors"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// exitCodes are those of fwupdtool that mean more than a failure, as errors. The error it prints says more and goes first;
// some failures, and some versions of the tool, print none.
var exitCodes = map[int]fwupdError{
	2:   {Domain: domain, Code: codeNothingToDo, Message: "there is nothing to do"},
	3:   {Domain: domain, Code: codeNotFound, Message: "fwupd does not find the device, or the archive has nothing for it"},
	101: {Domain: domain, Code: codeNotReachable, Message: "fwupd does not reach what it needs"},
}

const domain = "FwupdError"

// reported is the error of a failed run: what the tool printed, or what its exit code means; nil when neither says
// anything.
func reported(r command.Result) *fwupdError {
	if e := parseError(r.Stdout); e != nil {
		return e
	}
	if e, ok := exitCodes[r.ExitCode]; ok {
		return &e
	}
	return nil
}

// refused makes an error of a failed run: a *RejectedError when the archive is to blame. That a device is not updatable
// has the same code as an archive that is not, and passes.
func refused(c command.Command, r command.Result) error {
	e := reported(r)
	switch {
	case e == nil:
		return command.Failed(c, r, errors.New("tool failed"))
	case e.is(codeNotSupported) && strings.Contains(e.Message, "not updatable"):
		return command.Failed(c, r, e)
	case e.Domain == "gcab-error-quark" || e.is(codeVersionNewer, codeInvalidFile, codeNotSupported, codeSignatureInvalid):
		return driver.Rejectf("fwupd does not take the archive: %s", e.Message)
	}
	return command.Failed(c, r, e)
}
