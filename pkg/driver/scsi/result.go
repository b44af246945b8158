package scsi

import (
	"bytes"
	"errors"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// Exit codes of sg3_utils (sg3_utils(8)).
const (
	exitNotReady        = 2
	exitIllegalRequest  = 5
	exitUnitAttention   = 6
	exitInvalidOpcode   = 9
	exitAborted         = 11
	exitIllegalWithInfo = 17
	exitReservation     = 24
	exitBusy            = 26
	exitTimeout         = 33
	// exitNoPage is 50 plus EDOM: sg_inq's exit code when the drive does not list the page.
	exitNoPage = 83
)

// Additional sense as sg3_utils spells it.
const (
	senseInvalidCDB      = "Invalid field in cdb"
	senseCommandSequence = "Command sequence error"
)

// says reports whether the tool printed the additional sense.
func says(r command.Result, sense string) bool {
	return bytes.Contains(bytes.ToLower(r.Stderr), bytes.ToLower([]byte("Additional sense: "+sense)))
}

func illegal(r command.Result) bool {
	return r.ExitCode == exitIllegalRequest || r.ExitCode == exitIllegalWithInfo
}

// classifyDownload turns the result of a download by sg_write_buffer into an error. The drive has reported that it
// supports the mode, so an illegal request is about the image, unless it is about a field of the command.
func classifyDownload(c command.Command, r command.Result) error {
	switch {
	case r.ExitCode == 0:
		return nil
	case illegal(r) && !says(r, senseInvalidCDB):
		return driver.Rejectf("the drive does not accept the image: it is damaged, for another model, or prohibited")
	}
	return classify(c, r)
}

func classify(c command.Command, r command.Result) error {
	reason := "the drive failed the command"
	switch r.ExitCode {
	case exitNotReady:
		reason = "the drive is not ready: try again when it is"
	case exitIllegalRequest, exitIllegalWithInfo:
		reason = "the drive rejects a field of the command"
	case exitUnitAttention:
		reason = "the drive reports one unit attention after another: find out who resets it and try again"
	case exitInvalidOpcode:
		reason = "the drive does not know the command"
	case exitAborted:
		reason = "the drive aborted the command: end other programs that update it and try again"
	case exitReservation:
		reason = "another host holds a reservation of the drive: release it and try again"
	case exitBusy:
		reason = "the drive is busy: try again"
	case exitTimeout:
		reason = "the drive did not answer in time: read it before doing anything else"
	}
	return command.Failed(c, r, errors.New(reason))
}
