package profile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

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
