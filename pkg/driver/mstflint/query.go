package mstflint

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// query is the result of mstflint's query of a card or an image.
type query struct {
	// Type of the image: FS2 to FS4.
	Type string
	// Stored is empty for a card whose flash the tool could not read.
	Stored inventory.Version
	// Running is empty when it was not printed; for a card it is then the same as Stored.
	Running inventory.Version
	// PSID is empty when the tool finds none in the firmware.
	PSID string
	// PartNumber is printed only by some versions of the tool.
	PartNumber string
	// MAC and GUID are the base addresses, in lower-case hexadecimal digits; empty when blank.
	MAC, GUID string
	// Secure firmware does not allow its image to be read.
	Secure bool
}

// legacy reports whether the tool writes the card's flash itself, not through the card's firmware.
func (q query) legacy() bool { return q.Type == "FS2" }

func (q query) running() inventory.Version { return cmp.Or(q.Running, q.Stored) }

// uniqueID is the base MAC in the kernel's notation, or the base GUID of a card without one; empty when it has neither.
func (q query) uniqueID() string {
	if q.MAC == "" {
		return q.GUID
	}
	pairs := make([]string, 0, 6)
	for i := 0; i+2 <= len(q.MAC); i += 2 {
		pairs = append(pairs, q.MAC[i:i+2])
	}
	return strings.Join(pairs, ":")
}

func parseQuery(out string) (query, error) {
	var q query
	for line := range strings.Lines(out) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch key {
		case "Image type":
			q.Type = value
		case "FW Version":
			q.Stored = inventory.NormalizeVersion(value)
		case "FW Version(Running)":
			q.Running = inventory.NormalizeVersion(value)
		case "PSID":
			q.PSID = known(value)
		case "Part Number":
			q.PartNumber = known(value)
		case "Security Attributes":
			q.Secure = strings.HasPrefix(value, "secure-fw")
		case "Base MAC", "MAC1", "Base MAC1", "MACs":
			q.MAC = address(q.MAC, value, 12)
		case "Base GUID", "GUID1", "Base GUID1", "GUIDs":
			q.GUID = address(q.GUID, value, 16)
		}
	}
	switch {
	case q.Type == "":
		return query{}, errors.New("parse mstflint query: no image type: this version of the tool is not supported")
	case q.Stored == "" && q.Running == "":
		return query{}, errors.New("parse mstflint query: no firmware version")
	}
	for _, v := range []inventory.Version{q.Stored, q.Running} {
		if v != "" && v.Compare("0", inventory.FormatDotted) == inventory.Incomparable {
			return query{}, fmt.Errorf("parse mstflint query: firmware version %q is not decimal numbers between dots", v)
		}
	}
	return q, nil
}

func known(value string) string {
	if value == "N/A" {
		return ""
	}
	return value
}

// address returns the first address of a line if none was seen before and it is valid: a blank card has all zeros or
// all ones.
func address(seen, value string, digits int) string {
	fields := strings.Fields(strings.ToLower(value))
	if seen != "" || len(fields) == 0 || len(fields[0]) != digits {
		return seen
	}
	a := fields[0]
	if strings.Trim(a, "0123456789abcdef") != "" || strings.Trim(a, "0") == "" || strings.Trim(a, "f") == "" {
		return ""
	}
	return a
}

// The only tools that are run. No function of this file takes a flag from its caller, so the flags that can brick a
// card or change its identity (such as allow_psid_change, nofs, no_flash_verify, clear_semaphore and blank_guids)
// cannot be sent.
const (
	flintTool  = "mstflint"
	resetTool  = "mstfwreset"
	configTool = "mstconfig"
)

// A query takes seconds, or longer through a slow management interface or while the card is busy. A reset waits for the
// card's firmware and restarts the kernel's driver.
const (
	queryTimeout = 2 * time.Minute
	resetTimeout = 10 * time.Minute
	// readTimeout bounds reading the whole flash, tens of MiB that are transferred in small pieces.
	readTimeout = 20 * time.Minute
)

// queryDevice reads a card. The quick query (-qq) skips the integrity check of the whole flash.
func queryDevice(card inventory.PCIAddress) command.Command {
	return command.Command{Argv: []string{flintTool, "-d", card.String(), "-qq", "q"}, Timeout: queryTimeout}
}

// queryImage reads the description in an image file.
func queryImage(path string) command.Command {
	return command.Command{Argv: []string{flintTool, "-i", path, "q"}, Timeout: queryTimeout}
}

// verifyImage checks the integrity of an image file.
func verifyImage(path string) command.Command {
	return command.Command{Argv: []string{flintTool, "-i", path, "v"}, Timeout: queryTimeout}
}

// readImage reads the image on the flash of a card into a file, replacing it. It prints nothing on success.
func readImage(card inventory.PCIAddress, path string) command.Command {
	return command.Command{Argv: []string{flintTool, "-d", card.String(), "ri", path}, Timeout: readTimeout}
}

// burn writes an image file to a card. mstflint itself refuses an image of another PSID.
func burn(card inventory.PCIAddress, path, lock string, progress driver.Progress) command.Command {
	return command.Command{
		Argv:     []string{flintTool, "-d", card.String(), "-i", path, "-y", "b"},
		Kind:     command.Write,
		Lock:     lock,
		Progress: progress.Lines(driver.Percentage),
	}
}

// queryReset asks which levels of reset would load the stored image.
func queryReset(card inventory.PCIAddress) command.Command {
	return command.Command{Argv: []string{resetTool, "-d", card.String(), "q"}, Timeout: queryTimeout}
}

// reset makes the card load its stored image by the level: 0 patches the firmware while it runs, 3 restarts the card
// and its kernel driver. The type of the reset and its synchronisation are left to the tool, which chooses what the
// card supports.
func reset(card inventory.PCIAddress, level, lock string) command.Command {
	return command.Command{
		Argv:    []string{resetTool, "-d", card.String(), "-l", level, "-y", "r"},
		Kind:    command.Write,
		Timeout: resetTimeout,
		Lock:    lock,
	}
}

// reactivate makes the running image the stored one again, in place of one that was burned and never ran. The help text of
// the tool names the command image_reactivate, which its parser does not know.
func reactivate(card inventory.PCIAddress, lock string) command.Command {
	return command.Command{
		Argv: []string{flintTool, "-d", card.String(), "image_reactivation"},
		Kind: command.Write,
		Lock: lock,
	}
}

// exitAborted is mstflint's exit code when it decided not to burn, for example because the card already holds the
// image.
const exitAborted = 7
