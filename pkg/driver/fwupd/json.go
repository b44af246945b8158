package fwupd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// fwupdDevice is the part of fwupd's device that this package uses.
type fwupdDevice struct {
	ID            string   `json:"DeviceId"`
	Name          string   `json:"Name"`
	Summary       string   `json:"Summary"`
	Plugin        string   `json:"Plugin"`
	Serial        string   `json:"Serial"`
	GUIDs         []string `json:"Guid"`
	Flags         []string `json:"Flags"`
	Problems      []string `json:"Problems"`
	Version       string   `json:"Version"`
	VersionFormat string   `json:"VersionFormat"`
	VersionLowest string   `json:"VersionLowest"`
	UpdateState   int      `json:"UpdateState"`
	UpdateError   string   `json:"UpdateError"`
	Releases      []struct {
		Version string `json:"Version"`
	} `json:"Releases"`
}

// Values of UpdateState.
const (
	statePending     = 1
	stateNeedsReboot = 4
)

// staged is the version that waits for a reboot; empty when there is none.
func (d fwupdDevice) staged() string {
	if (d.UpdateState == statePending || d.UpdateState == stateNeedsReboot) && len(d.Releases) > 0 {
		return d.Releases[0].Version
	}
	return ""
}

// takesOtherWay reports whether fwupd would start its own program at the next boot instead of leaving a capsule for the firmware, as
// it does where it knows that a machine's capsules on disk do not work. The summary alone says so, and only that of fwupd 2.
func (d fwupdDevice) takesOtherWay() bool {
	summary := strings.ToLower(d.Summary)
	return strings.Contains(summary, "via nvram") || strings.Contains(summary, "via grub")
}

// fwupdError is the failure report of fwupdtool --json.
type fwupdError struct {
	Domain  string `json:"Domain"`
	Code    int    `json:"Code"`
	Message string `json:"Message"`
}

func (e *fwupdError) Error() string { return e.Message }

// Codes of the domain FwupdError (libfwupd/fwupd-error).
const (
	codeVersionNewer     = 1
	codeVersionSame      = 2
	codeAlreadyPending   = 3
	codeInvalidFile      = 7
	codeNotFound         = 8
	codeNothingToDo      = 9
	codeNotSupported     = 10
	codeSignatureInvalid = 11
	codeInvalidData      = 18
	codeNotReachable     = 21
)

func (e *fwupdError) is(codes ...int) bool {
	return e.Domain == "FwupdError" && slices.Contains(codes, e.Code)
}

// parseDevices reads the output of get-devices and get-history. It returns a *fwupdError when the tool printed one.
func parseDevices(out []byte) ([]fwupdDevice, error) {
	if bytes.Contains(out, []byte("No hardware detected with firmware update capability")) {
		return nil, nil
	}
	var reply struct {
		Devices *[]fwupdDevice `json:"Devices"`
		Error   *fwupdError    `json:"Error"`
	}
	if err := decode(out, &reply); err != nil {
		return nil, err
	}
	switch {
	case reply.Error != nil:
		return nil, reply.Error
	case reply.Devices == nil:
		return nil, errors.New("parse fwupdtool output: neither Devices nor Error: this version of the tool is not supported")
	}
	for _, d := range *reply.Devices {
		if d.ID == "" {
			return nil, errors.New("parse fwupdtool output: a device without DeviceId")
		}
	}
	return *reply.Devices, nil
}

// parseError returns the error that fwupdtool --json printed; nil when it printed none.
func parseError(out []byte) *fwupdError {
	var reply struct {
		Error *fwupdError `json:"Error"`
	}
	if err := decode(out, &reply); err == nil {
		return reply.Error
	}
	return nil
}

// decode skips what plugins print before the JSON object.
func decode(out []byte, v any) error {
	start := 0
	if !bytes.HasPrefix(out, []byte("{")) {
		start = bytes.Index(out, []byte("\n{")) + 1
	}
	if err := json.Unmarshal(out[start:], v); err != nil {
		return fmt.Errorf("parse fwupdtool output: %w", err)
	}
	return nil
}

func forGUID(devices []fwupdDevice, guid string) (fwupdDevice, bool) {
	for _, d := range devices {
		for _, g := range d.GUIDs {
			if strings.EqualFold(g, guid) {
				return d, true
			}
		}
	}
	return fwupdDevice{}, false
}
