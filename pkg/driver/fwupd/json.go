package fwupd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
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

type component struct {
	GUIDs   []string
	Version inventory.Version
}

// header matches a line that begins a device or a release: the branch of a tree, then a name and a colon. In the C
// locale box-drawing characters are printed as question marks.
var header = regexp.MustCompile(`(?:[├└]─|\?\?)\S.*:$`)

// parseDetails reads the output of get-details, a tree of devices with one release below each. fwupdtool ignores --json
// here. The text after a release's version, such as a description, is free text and not parsed.
func parseDetails(out string) ([]component, error) {
	var all []component
	var current component
	key := ""
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, " \r\n")
		if header.MatchString(line) {
			if current.Version != "" {
				all, current = append(all, current), component{}
			}
			key = ""
			continue
		}
		if current.Version != "" {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimLeft(line, " ?│"), ":")
		if ok {
			key = name
		} else {
			value = name
		}
		// A GUID is followed by its origin: "230c8b18-… ← main-system-firmware".
		value = strings.TrimSpace(value)
		switch key {
		case "GUID", "GUIDs":
			first, _, _ := strings.Cut(value, " ")
			if guid, err := parseGUID(first); err == nil {
				current.GUIDs = append(current.GUIDs, guid)
			}
		case "New version":
			current.Version = inventory.NormalizeVersion(value)
		}
	}
	if current.Version != "" {
		all = append(all, current)
	}
	if len(all) == 0 || slices.ContainsFunc(all, func(c component) bool { return len(c.GUIDs) == 0 }) {
		return nil, errors.New("parse get-details: a GUID or a version is missing: this version of fwupdtool is not supported")
	}
	return all, nil
}

// formats are those of fwupd's version formats that may be guessed from a number of the ESRT and a version.
var formats = [...]string{"triplet", "quad", "pair", "dell-bios", "dell-bios-msb", "number"}

// formatFor is the one format in which the number of the ESRT is the version that the machine reports of itself; empty when there is
// none, or more than one. fwupd does not know the format without metadata from the network, and then refuses each archive
// that declares one.
func formatFor(number *int, running inventory.Version) string {
	if number == nil || *number < 0 || *number > 0xffffffff {
		return ""
	}
	found := ""
	for _, f := range formats {
		if inventory.SpellNumber(f, uint32(*number)) != string(running) {
			continue
		}
		if found != "" {
			return ""
		}
		found = f
	}
	return found
}

func readVersion(host fs.FS) (inventory.Version, error) {
	dmi, err := sysfs.ReadDMI(host)
	if err != nil {
		return "", fmt.Errorf("read BIOS version: %w", err)
	}
	if dmi == nil || dmi.BIOSVersion == "" {
		return "", errors.New("read BIOS version: the machine's DMI tables have none")
	}
	return inventory.NormalizeVersion(dmi.BIOSVersion), nil
}

// formatOf is FormatDotted for versions that are numbers between dots and FormatPlain for all others, such as "A09" or
// "U30 v2.62 (03/08/2022)".
func formatOf(v inventory.Version) inventory.VersionFormat {
	if v.Compare("0", inventory.FormatDotted) == inventory.Incomparable {
		return inventory.FormatPlain
	}
	return inventory.FormatDotted
}

const (
	tool         = "fwupdtool"
	identifyTool = "sg_sat_identify"
)

// queryTimeout: fwupdtool probes all hardware it knows before it answers.
const queryTimeout = 3 * time.Minute

// The plugins of fwupd for system firmware and for SATA drives. A command enables one: the others would probe every device of the
// machine.
const (
	capsulePlugin = "uefi_capsule"
	drivePlugin   = "ata"
)

// getDevices lists what fwupd can update.
func getDevices(plugin string) command.Command {
	return command.Command{Argv: []string{tool, "get-devices", "--json", "--plugins", plugin}, Timeout: queryTimeout}
}

// getHistory lists what fwupd staged, with the outcome. It runs at every scan.
func getHistory() command.Command {
	return command.Command{Argv: []string{tool, "get-history", "--json", "--plugins", capsulePlugin}, Timeout: queryTimeout}
}

// getDetails reads an archive. With --json it prints the same text without progress in between.
func getDetails(path, plugin string) command.Command {
	return command.Command{Argv: []string{tool, "get-details", path, "--json", "--plugins", plugin}, Timeout: queryTimeout}
}

// install stages an archive for a device.
func install(path, deviceID, plugin, lock string) command.Command {
	return command.Command{
		Argv: []string{tool, "install", path, deviceID, "--json", "--no-reboot-check", "--plugins", plugin},
		Kind: command.Write,
		Lock: lock,
	}
}

// installOlder is install for an archive that fwupd may consider older than the running version; see takesForOlder. The
// firmware itself still refuses versions below the lowest it accepts.
func installOlder(path, deviceID, plugin, lock string) command.Command {
	c := install(path, deviceID, plugin, lock)
	c.Argv = append(c.Argv, "--allow-older")
	return c
}

// installATA downloads the firmware of an archive to a drive. Versions of drives are text that cannot be ordered:
// whether this one is a downgrade was decided before. A version that the drive already runs is written again, because a
// drive does not report what waits for activation.
func installATA(path, deviceID, lock string) command.Command {
	c := installOlder(path, deviceID, drivePlugin, lock)
	c.Argv = append(c.Argv, "--allow-reinstall")
	return c
}

func activateATA(deviceID, lock string) command.Command {
	return command.Command{Argv: []string{tool, "activate", deviceID, "--json", "--plugins", drivePlugin}, Kind: command.Write, Lock: lock}
}

// identifyDrive sends IDENTIFY DEVICE to a drive. The bytes are read as they are: sysfs and the page 0x89 only show
// what was read when the drive was found.
func identifyDrive(id inventory.Identity) command.Command {
	return command.Command{Argv: []string{identifyTool, "--raw", node(id)}}
}

func node(id inventory.Identity) string { return "/dev/" + id.Node }

// Keep makes the driver tell fwupdtool how this machine spells versions, by a file in a directory of the daemon. It returns the
// driver. If dir is "", fwupdtool uses its own defaults.
func (d *Driver) Keep(dir string) *Driver {
	d.dir = dir
	return d
}

// told is a command with what fwupdtool cannot find out in a container: where the EFI system partition is mounted, empty where the
// command needs none, and the format of the machine's versions. fwupd 2.0 takes the directory of the format's file alone; 2.1 takes only
// its whole local state, of which the rest stays where it is.
func (d *Driver) told(c command.Command, esp string, bios resource, running inventory.Version) (command.Command, error) {
	if esp != "" {
		c.Env = append(c.Env, "FWUPD_UEFI_ESP_PATH="+esp)
	}
	spelled := formatFor(bios.Version, running)
	if spelled == "" || d.dir == "" {
		return c, nil
	}
	dir := filepath.Join(d.dir, "fwupd")
	quirks := filepath.Join(dir, "lib", "fwupd", "quirks.d") // where 2.1 looks for quirks below its local state
	c.Env = append(c.Env, "FWUPD_LOCALSTATEDIR_QUIRKS="+quirks, "FWUPD_LOCALSTATEDIR="+dir, "STATE_DIRECTORY=/var/lib/fwupd")
	return c, quirk(quirks, bios.GUID, spelled)
}

// quirk writes the file, unless it is there.
func quirk(dir, guid, spelled string) error {
	file, text := filepath.Join(dir, "version.quirk"), fmt.Appendf(nil, "[%s]\nVersionFormat = %s\n", guid, spelled)
	if now, err := os.ReadFile(file); err == nil && bytes.Equal(now, text) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("tell fwupdtool the format of versions: %w", err)
	}
	// A tool that reads meanwhile has the old file or the new one.
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return fmt.Errorf("tell fwupdtool the format of versions: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("tell fwupdtool the format of versions: %w", err)
	}
	return nil
}
