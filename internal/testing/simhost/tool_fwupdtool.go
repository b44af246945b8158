package simhost

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// The errors of libfwupd that the tool reports (fwupd-error.h), and their exit codes.
type fwupdError struct {
	code    int
	message string
}

const (
	fwupdInternal     = 0
	fwupdInvalidFile  = 7
	fwupdNotFound     = 8
	fwupdNothingToDo  = 9
	fwupdNotSupported = 10
	fwupdInvalidData  = 18
	fwupdInvalidArgs  = 23
)

// What the tool makes of the reasons of all devices against a version, of which it has one here.
const (
	allInstalled = "All updatable firmware is already installed"
	allNewer     = "All updatable devices already have newer versions"
)

func (e *fwupdError) exitCode() int {
	switch e.code {
	case fwupdNothingToDo:
		return 2
	case fwupdNotFound:
		return 3
	}
	return 1
}

var fwupdOptions = optionTable{
	"json": "json", "no-reboot-check": "no-reboot-check", "allow-older": "allow-older",
	"allow-reinstall": "allow-reinstall", "force": "force", "y": "assume-yes", "assume-yes": "assume-yes",
	"no-safety-check": "no-safety-check", "no-device-prompt": "no-device-prompt", "version": "version",
	"p": "plugins=", "plugins": "plugins=", "no-unreported-check": "no-unreported-check",
	"no-metadata-check": "no-metadata-check", "no-remote-check": "no-remote-check", "show-all": "show-all",
}

// fwupdtool is fwupdtool 2.0.20 with the plugins uefi_capsule and ata.
func fwupdtool(c *call) (int, error) {
	o, err := fwupdOptions.parse(c.argv[1:])
	if err != nil {
		c.printf("Failed to parse arguments: Unknown option %s\n", strings.Trim(strings.TrimPrefix(err.Error(), "unrecognized option "), "'"))
		return 1, nil
	}
	if o.has("version") {
		c.printf("compile   org.freedesktop.fwupd         2.0.20\nruntime   org.freedesktop.fwupd         2.0.20\n")
		return 0, nil
	}
	command := ""
	if len(o.args) > 0 {
		command = o.args[0]
	}
	run, operation := map[string]func(*call, options) (*fwupdError, error){
		"get-devices": fwupdDevices, "get-details": fwupdDetails, "get-history": fwupdHistory, "install": fwupdInstall,
		"activate": fwupdActivate,
	}[command], "query"
	if run == nil {
		return c.fwupdFail(o, &fwupdError{fwupdInvalidArgs, "Command not found"})
	}
	switch command {
	case "install":
		operation = "write"
	case "activate":
		operation = "activate"
	}
	key, err := c.fwupdKey(o)
	if err != nil {
		return 0, err
	}
	unlock, problem, err := c.fwupdLock()
	if command == "activate" && err == nil {
		if problem, err = c.fwupdPending(problem); problem != nil && unlock != nil {
			unlock()
		}
	}
	switch {
	case err != nil:
		return 0, err
	case problem != nil:
		return c.fwupdFail(o, problem)
	}
	defer unlock()
	return c.run(key, operation, func() (int, error) {
		problem, err := run(c, o)
		if problem != nil && err == nil {
			return c.fwupdFail(o, problem)
		}
		return 0, err
	})
}

func (c *call) fwupdFail(o options, e *fwupdError) (int, error) {
	if o.has("json") {
		c.printf("%s\n", indented(object{{"Error", object{
			{"Domain", "FwupdError"}, {"Code", e.code}, {"Message", e.message},
		}}}, colonGLib))
		return e.exitCode(), nil
	}
	return c.fail(e.exitCode(), "%s\n", e.message)
}

// fwupdDevice is the system firmware as fwupd describes it.
func fwupdDevice(s *state) object {
	b, fw, f := s.Spec.BIOS, s.BIOS, fwupdFormat(s)
	raw, _ := packTriplet(fw.Running.Version) // checked when the machine was made
	lowest, _ := packTriplet(b.LowestVersion)
	flags := []any{"internal"}
	_, told := fwupdESP(s)
	if told || len(b.Problems) > 0 {
		flags = append(flags, updatable(b.Problems))
	}
	d := object{
		{"Name", "System Firmware"}, {"DeviceId", b.DeviceID()},
		{"InstanceIds", []any{"UEFI\\RES_{" + b.GUID + "}"}}, {"Guid", []any{b.GUID}},
		{"Summary", "UEFI System Resource Table device (" + fwupdWay(s) + ")"}, {"Plugin", "uefi_capsule"},
		{"Protocols", []any{"org.uefi.capsule"}},
		{"Flags", append(flags, "require-ac", "needs-reboot", "usable-during-update")},
		{"Vendor", b.Vendor}, {"VendorIds", []any{"DMI:" + b.Vendor}}, {"Version", f.spell(fw.Running.Version)},
		{"VersionLowest", f.spell(b.LowestVersion)}, {"VersionFormat", f.name}, {"VersionRaw", raw}, {"VersionLowestRaw", lowest},
		{"Icons", []any{"computer"}}, {"Created", 1768435200},
	}
	if len(b.Problems) > 0 {
		d = append(d, member{"Problems", toAny(b.Problems)})
	}
	if fw.UpdateState != 0 {
		d = append(d, member{"UpdateState", fw.UpdateState})
	}
	switch {
	case fw.LastAttemptStatus != attemptSuccess:
		d = append(d, member{"UpdateError", fwupdAttemptError(fw)})
	case !told:
		d = append(d, member{"UpdateError", noESP})
	}
	return d
}

// updatable is the flag of a device, which fwupd hides while there are problems.
func updatable(problems []string) string {
	if len(problems) > 0 {
		return "updatable-hidden"
	}
	return "updatable"
}

func toAny(list []string) []any {
	var out []any
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// fwupdAttemptError spells a status of the ESRT.
func fwupdAttemptError(fw *biosState) string {
	text := map[int]string{
		1: "error-unsuccessful", 2: "error-insufficient-resources", 3: "error-incorrect-version", 4: "error-invalid-format",
		5: "error-auth-error", 6: "error-pwr-evt-ac", 7: "error-pwr-evt-batt",
	}[fw.LastAttemptStatus]
	return fmt.Sprintf("failed to update to %s: %s", packed(fw.LastAttemptVersion), text)
}

func fwupdDevices(c *call, o options) (*fwupdError, error) {
	s, err := c.m.view()
	if err != nil {
		return nil, err
	}
	devices := []any{}
	if o.enables(capsulePlugin) && fwupdFirmware() {
		devices = append(devices, fwupdDevice(s))
	}
	if o.enables(ataPlugin) {
		devices = append(devices, fwupdDrives(s)...)
	}
	if len(devices) == 0 {
		return &fwupdError{fwupdNothingToDo, "No detected devices"}, nil
	}
	c.printf("%s\n", indented(object{{"Devices", devices}}, colonGLib))
	return nil, nil
}

// fwupdLines prints properties in fwupd's columns.
func (c *call) fwupdLines(indent string, lines [][2]string) {
	for _, l := range lines {
		c.printf("%s%-20s%s\n", indent, l[0]+":", l[1])
	}
}

func fwupdHistory(c *call, _ options) (*fwupdError, error) {
	s, err := c.m.view()
	if err != nil {
		return nil, err
	}
	if s.BIOS.UpdateState == 0 {
		return &fwupdError{fwupdNothingToDo, "No history"}, nil
	}
	target := s.BIOS.UpdateTarget
	d := append(fwupdDevice(s), member{"Releases", []any{object{
		{"AppstreamId", "com.example.simulated.firmware"}, {"Version", target.Version},
		{"Checksum", []any{strings.TrimPrefix(target.Digest, "sha256:")}}, {"Protocol", "org.uefi.capsule"},
	}}})
	c.printf("%s\n", indented(object{{"Devices", []any{d}}}, colonGLib))
	return nil, nil
}

// fwupdOpen reads a cabinet.
func fwupdOpen(path string) (Image, int, *fwupdError) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Image{}, 0, &fwupdError{fwupdNotFound, fmt.Sprintf("Error opening file %s: %s", path, osReason(err))}
	}
	switch {
	case len(data) < cabHeader:
		return Image{}, 0, &fwupdError{fwupdInvalidData, fmt.Sprintf("failed to load file: FuStructCabHeader requested 0x%x and got 0x%x", cabHeader, len(data))}
	case !strings.HasPrefix(string(data), cabMagic):
		return Image{}, 0, &fwupdError{fwupdInvalidData,
			"failed to load file: constant FuStructCabHeader.signature was not valid, expected 'MSCF' and got '(null)'"}
	}
	img, err := ParseImage(data)
	if err != nil {
		return Image{}, 0, &fwupdError{fwupdInvalidFile, "failed to parse archive: " + err.Error()}
	}
	return img, len(data), nil
}

// fwupdDetails ignores --json, as 2.0.20 does.
func fwupdDetails(c *call, o options) (*fwupdError, error) {
	if len(o.args) != 2 {
		return &fwupdError{fwupdInvalidArgs, "Invalid arguments"}, nil
	}
	img, size, problem := fwupdOpen(o.args[1])
	if problem != nil {
		return problem, nil
	}
	s, err := c.m.view()
	if err != nil {
		return nil, err
	}
	c.printf("%s %s\n│\n", s.Spec.System.Vendor, s.Spec.System.Product)
	if f := fwupdFormat(s); img.GUID == s.Spec.BIOS.GUID {
		c.printf("└─System Firmware:\n")
		c.fwupdLines("  │   ", [][2]string{
			{"Device ID", s.Spec.BIOS.DeviceID()}, {"Current version", f.spell(s.BIOS.Running.Version)},
			{"Minimum Version", f.spell(s.Spec.BIOS.LowestVersion)}, {"Vendor", s.Spec.BIOS.Vendor}, {"GUID", img.GUID},
		})
	} else {
		c.printf("└─Unknown Device:\n")
		c.fwupdLines("  │   ", [][2]string{{"GUID", img.GUID}})
	}
	c.printf("  │ \n  └─System Firmware:\n")
	c.fwupdLines("        ", [][2]string{
		{"New version", img.Version}, {"Summary", "Firmware of a simulated machine"},
		{"Size", fmt.Sprintf("%.1f kB", float64(size)/1000)}, {"Urgency", "High"},
	})
	return nil, nil
}

func fwupdInstall(c *call, o options) (*fwupdError, error) {
	if len(o.args) < 2 || len(o.args) > 3 {
		return &fwupdError{fwupdInvalidArgs, "Invalid arguments"}, nil
	}
	s, err := c.m.view()
	if err != nil {
		return nil, err
	}
	b := s.Spec.BIOS
	if d, ok := fwupdDrive(s, o); ok {
		return fwupdInstallDrive(c, s, d, o)
	}
	if !o.enables(capsulePlugin) || !fwupdFirmware() || len(o.args) == 3 && o.args[2] != b.DeviceID() && o.args[2] != b.GUID {
		return &fwupdError{fwupdNotFound, fmt.Sprintf("device ID %s was not found", o.args[len(o.args)-1])}, nil
	}
	img, size, problem := fwupdOpen(o.args[1])
	if problem == nil {
		problem = fwupdRequirements(s, img, o)
	}
	esp, _ := fwupdESP(s)
	if problem == nil {
		problem = fwupdWritable(s, esp, size)
	}
	if problem != nil {
		return problem, c.refused(BIOSKey, "Write", img, problem.message)
	}
	whole := flash{Version: img.Version, Digest: img.Digest}
	torn := whole
	torn.Torn = true
	err = c.do(job{
		op:    Operation{Device: BIOSKey, Action: "Write", Version: img.Version, Digest: img.Digest, Bytes: size},
		takes: s.Spec.WriteTime,
		begin: func(s *state) { s.BIOS.Capsule, s.BIOS.CapsuleOn = torn, esp.Path },
		finish: func(s *state) {
			s.BIOS.Capsule, s.BIOS.UpdateTarget, s.BIOS.UpdateState = whole, whole, updateNeedsReboot
		},
	})
	if errors.Is(err, errBusy) {
		return &fwupdError{fwupdInternal, "another program writes to the device"}, nil
	}
	return nil, err
}

// fwupdRequirements are the checks of an engine before an install, in its order.
func fwupdRequirements(s *state, img Image, o options) *fwupdError {
	running, lowest, f := s.BIOS.Running.Version, s.Spec.BIOS.LowestVersion, fwupdFormat(s)
	order := compareDotted(running, img.Version)
	_, told := fwupdESP(s)
	refusal := fmt.Sprintf("Device %s [System Firmware] does not currently allow updates", s.Spec.BIOS.DeviceID())
	switch {
	case img.GUID != s.Spec.BIOS.GUID:
		return &fwupdError{fwupdNotFound, "No supported devices found"}
	case len(s.Spec.BIOS.Problems) > 0:
		return &fwupdError{fwupdNotSupported, refusal}
	case !told:
		return &fwupdError{fwupdNotSupported, refusal + ": " + noESP}
	case f.name != "triplet": // what the archives of simulated machines declare
		return &fwupdError{fwupdNotSupported, fmt.Sprintf("Firmware version formats were different, device was '%s' and release is 'triplet'", f.name)}
	case compareDotted(lowest, img.Version) > 0 && !o.has("force"):
		return &fwupdError{fwupdNotSupported, fmt.Sprintf("Specified firmware is older than the minimum required version '%s < %s'", img.Version, lowest)}
	case order == 0 && !o.has("allow-reinstall"):
		return &fwupdError{fwupdNothingToDo, allInstalled}
	case order > 0 && !o.has("allow-older"):
		return &fwupdError{fwupdNothingToDo, allNewer}
	}
	return nil
}
