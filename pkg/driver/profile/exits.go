package profile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// ErrRetry is in the error of a tool that says trying again later may help.
var ErrRetry = errors.New("the tool says to try again later")

// class is what an exit code means.
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

// failure is the error of a run whose exit code is none of a success.
func (e Exits) failure(c command.Command, r command.Result) error {
	switch e.class(r.ExitCode) {
	case classRejected:
		return driver.Rejectf("%v", command.Failed(c, r, errors.New("the tool does not take the image")))
	case classRetry:
		return command.Failed(c, r, ErrRetry)
	}
	if text, ok := e.Fail[r.ExitCode]; ok {
		return command.Failed(c, r, fmt.Errorf("tool failed: %s", text))
	}
	return command.Failed(c, r, errors.New("tool failed"))
}

// needs is what a success needs to take effect: what the code says, or else what the profile does.
func (e Exits) needs(code int, byDefault inventory.Activation) inventory.Activation {
	if kind, ok := e.Pending[code]; ok {
		return kind
	}
	return byDefault
}
