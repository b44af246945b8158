package simhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// nvmeStatusText is how libnvme prints the statuses of firmware commands that are errors.
var nvmeStatusText = map[nvmectrl.Status]string{
	nvmectrl.InvalidField:         "Invalid Field in Command: A reserved coded value or an unsupported value in a defined field",
	nvmectrl.InvalidFirmwareSlot:  "Invalid Firmware Slot: The firmware slot indicated is invalid or read only",
	nvmectrl.InvalidFirmwareImage: "Invalid Firmware Image: The firmware image specified for activation is invalid and not loaded by the controller",
	nvmectrl.ActivationProhibited: "Firmware Activation Prohibited: The image specified is being prohibited from activation by the controller for vendor specific reasons",
	nvmectrl.InvalidOpcode:        "Invalid Command Opcode: A reserved coded value or an unsupported value in the command opcode field",
	nvmectrl.SanitizeFailed:       "Sanitize Failed: The most recent sanitize operation failed and no recovery actions has been successfully completed",
	nvmectrl.SanitizeInProgress:   "Sanitize In Progress: The requested function is prohibited while a sanitize operation is in progress",
	nvmectrl.NeedsControllerReset: "Firmware Activation Requires Controller Level Reset: The firmware commit was successful, but requires a controller level reset",
	nvmectrl.OverlappingRange:     "Overlapping Range: The downloaded firmware image has overlapping ranges",
}

// nvmeFailed prints the status of a command that failed.
func (c *call) nvmeFailed(s nvmectrl.Status) (int, error) {
	return c.fail(1, "NVMe status: %s(%#x)\n", nvmeStatusText[s], int(s))
}

var nvmeOptions = optionTable{
	"output-format": "output-format=", "o": "output-format=", "fw": "fw=", "f": "fw=", "xfer": "xfer=", "x": "xfer=",
	"offset": "offset=", "progress": "progress", "p": "progress", "slot": "slot=", "s": "slot=", "action": "action=",
	"a": "action=", "bpid": "bpid=", "b": "bpid=", "raw-binary": "raw-binary", "ignore-ovr": "ignore-ovr",
	"human-readable": "human-readable", "H": "human-readable", "rae": "rae", "r": "rae",
}

// nvmeSanitizeOptions are those of sanitize, some of whose letters are used otherwise by other commands.
var nvmeSanitizeOptions = optionTable{
	"sanact": "sanact=", "a": "sanact=", "ause": "ause", "u": "ause", "owpass": "owpass=", "n": "owpass=", "oipbp": "oipbp", "i": "oipbp",
	"no-dealloc": "no-dealloc", "d": "no-dealloc", "ovrpat": "ovrpat=", "p": "ovrpat=",
}

// nvmeCLI is nvme-cli 2.3, which Debian 12 ships as 2.4+really2.3.
func nvmeCLI(c *call) (int, error) {
	if len(c.argv) < 2 {
		c.printf("nvme-2.3\nusage: nvme <command> [<device>] [<args>]\n")
		return 0, nil
	}
	command := strings.TrimLeft(c.argv[1], "-")
	run := map[string]func(*call, *nvmeTarget, options) (int, error){
		"id-ctrl": nvmeIdentify, "fw-log": nvmeFirmwareLog, "smart-log": nvmeHealthLog, "fw-download": nvmeDownload, "fw-commit": nvmeCommit,
		"fw-activate": nvmeCommit, "reset": nvmeReset, "sanitize": nvmeSanitize, "sanitize-log": nvmeSanitizeLog,
	}[command]
	if command == "version" {
		c.printf("nvme version 2.3 (git 2.3)\nlibnvme version 1.3 (git 1.3)\n")
		return 0, nil
	}
	if run == nil {
		c.printf("ERROR: Invalid sub-command '%s'\n", command)
		return 1, nil
	}
	table := nvmeOptions
	if command == "sanitize" {
		table = nvmeSanitizeOptions
	}
	o, err := table.parse(c.argv[2:])
	if err != nil {
		return c.fail(1, "%s: %v\n", command, err)
	}
	if len(o.args) == 0 {
		return c.fail(1, "%s: Invalid argument\n", command)
	}
	for _, name := range []string{"slot", "action"} { // looked at before the device
		if _, err := strconv.ParseUint(defaultTo(o.values[name], "0"), 0, 8); err != nil {
			return c.fail(1, "Expected byte argument for '%s' but got '%s'!\n", name, o.values[name])
		}
	}
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	drive := s.nvme(filepath.Base(o.args[0]))
	if drive.Key == "" || !s.present(drive.Key) {
		return c.fail(1, "%s: No such file or directory\n", o.args[0])
	}
	operation := map[string]string{
		"id-ctrl": "query", "fw-log": "query", "smart-log": "query", "sanitize-log": "query", "fw-download": "download",
		"reset": "reset", "sanitize": "sanitize",
	}[command]
	if operation == "" {
		operation = "commit"
	}
	return c.run(drive.Key, operation, func() (int, error) {
		t, err := c.m.nvmeTarget(drive)
		if err != nil {
			return 0, err
		}
		return run(c, t, o)
	})
}

func nvmeIdentify(c *call, t *nvmeTarget, _ options) (int, error) {
	c.printf("%s\n", indented(t.identify(), colonC))
	return 0, nil
}

// identify is the Identify Controller data structure as nvme-cli prints it.
func (t *nvmeTarget) identify() object {
	n, c := t.NVMe, &t.controller
	cmic := 0
	if n.TwoPorts {
		cmic = 3
	}
	zero := func(names ...string) (out object) {
		for _, name := range names {
			out = append(out, member{name, 0})
		}
		return out
	}
	out := object{
		{"vid", c.VendorID}, {"ssvid", c.VendorID}, {"sn", fmt.Sprintf("%-20s", n.Serial)},
		{"mn", fmt.Sprintf("%-40s", n.Model)}, {"fr", fmt.Sprintf("%-8s", c.Running.Revision)},
		{"rab", 2}, {"ieee", 9528}, {"cmic", cmic}, {"mdts", c.MDTS}, {"cntlid", 6}, {"ver", 66560}, {"rtd3r", 1000000},
		{"rtd3e", 8000000}, {"oaes", 768}, {"ctratt", 0}, {"rrls", 0}, {"cntrltype", 1},
		{"fguid", "00000000-0000-0000-0000-000000000000"},
	}
	out = append(out, zero("crdt1", "crdt2", "crdt3", "nvmsr", "vwci", "mec")...)
	out = append(out, object{
		{"oacs", 0x5f}, {"acl", 127}, {"aerl", 15}, {"frmw", c.FRMW()}, {"lpa", 14}, {"elpe", 255}, {"npss", 0}, {"avscc", 1},
		{"apsta", 0}, {"wctemp", 343}, {"cctemp", 356}, {"mtfa", int(c.MTFA / nvmectrl.MTFAUnit)}, {"hmpre", 0}, {"hmmin", 0},
		{"tnvmcap", n.Sectors * 512}, {"unvmcap", 0}, {"rpmbs", 0}, {"edstt", 2}, {"dsto", 1}, {"fwug", c.FWUG},
	}...)
	out = append(out, zero("kas", "hctma", "mntmt", "mxtmt")...)
	out = append(out, member{"sanicap", c.Sanitizes})
	out = append(out, zero("hmminds", "hmmaxd", "nsetidmax", "endgidmax", "anatt", "anacap", "anagrpmax", "nanagrpid", "pels", "domainid", "megcap")...)
	out = append(out, object{
		{"sqes", 102}, {"cqes", 68}, {"maxcmd", 256}, {"nn", 32}, {"oncs", 95}, {"fuses", 0}, {"fna", 4}, {"vwc", 6},
		{"awun", 65535}, {"awupf", 0}, {"icsvscc", 1}, {"nwpc", 0}, {"acwu", 0}, {"ocfs", 0}, {"sgls", 983041}, {"mnan", 0},
		{"maxdna", 0}, {"maxcna", 0}, {"subnqn", n.nqn()},
	}...)
	out = append(out, zero("ioccsz", "iorcsz", "icdoff", "fcatt", "msdbd", "ofcs")...)
	return append(out, member{"psds", []any{object{{"max_power", 1400}, {"flags", 0}, {"entry_lat", 70}, {"exit_lat", 70}}}})
}

// nvmeHealthLog is the log of a healthy drive.
func nvmeHealthLog(c *call, t *nvmeTarget, _ options) (int, error) {
	c.printf("%s\n", indented(object{
		{"critical_warning", 0}, {"temperature", 310}, {"avail_spare", 100}, {"spare_thresh", 10}, {"percent_used", 1},
		{"endurance_grp_critical_warning_summary", 0}, {"data_units_read", 3812345}, {"data_units_written", 2498211},
		{"host_read_commands", 61234567}, {"host_write_commands", 51234567}, {"controller_busy_time", 321},
		{"power_cycles", t.controller.PowerCycles}, {"power_on_hours", t.NVMe.PowerOnHours}, {"unsafe_shutdowns", 0}, {"media_errors", 0},
		{"num_err_log_entries", 0}, {"warning_temp_time", 0}, {"critical_comp_time", 0}, {"thm_temp1_trans_count", 0},
		{"thm_temp2_trans_count", 0}, {"thm_temp1_total_time", 0}, {"thm_temp2_total_time", 0},
	}, colonC))
	return 0, nil
}

func nvmeFirmwareLog(c *call, t *nvmeTarget, _ options) (int, error) {
	if status := t.controller.Sanitize.Blocks(); status != nvmectrl.Success {
		return c.nvmeFailed(status)
	}
	afi := t.controller.AFI()
	log := object{{"Active Firmware Slot (afi)", afi}}
	for slot := 1; slot <= t.Slots; slot++ {
		revision := t.controller.Revision(slot)
		if revision == "" {
			continue
		}
		raw := fmt.Appendf(nil, "%-8.8s", revision)
		value, text := binary.LittleEndian.Uint64(raw), strings.ReplaceAll(string(raw), " ", ".")
		log = append(log, member{fmt.Sprintf("Firmware Rev Slot %d", slot), fmt.Sprintf("%d (%s)", value, text)})
	}
	c.printf("%s\n", indented(object{{t.Key, log}}, colonC))
	return 0, nil
}

func nvmeDownload(c *call, t *nvmeTarget, o options) (int, error) {
	path := o.values["fw"]
	data, err := os.ReadFile(path)
	if err != nil {
		return c.fail(1, "Failed to open firmware file %s: %s\n", path, osReason(err))
	}
	if len(data) == 0 || len(data)%4 != 0 {
		return c.fail(1, "Invalid size:%d for f/w image\n", len(data))
	}
	offset, err1 := strconv.Atoi(defaultTo(o.values["offset"], "0"))
	xfer, err2 := strconv.Atoi(defaultTo(o.values["xfer"], "0"))
	if err1 != nil || err2 != nil {
		return c.fail(1, "Expected word argument for '--offset' or '--xfer'\n")
	}
	if xfer <= 0 || xfer%4096 != 0 {
		xfer = 4096
	}
	img, _ := ParseImage(data) // a drive takes any bytes; it looks at them at the commit
	refuses := func(at int, status nvmectrl.Status) (int, error) {
		fmt.Fprintf(c.stderr, "fw-download: error on offset 0x%08x/0x%08x\n", at, len(data))
		return c.nvmeFailed(status)
	}
	// What the drive answers does not depend on how long it takes: nobody else sends to it meanwhile. held is what the drive
	// holds after each piece.
	held := []nvmectrl.Buffer{t.controller.Buffer}
	for at := 0; at < len(data); at += xfer {
		status := t.controller.Download(uint64(4*offset+at), data[at:min(at+xfer, len(data))])
		if status != nvmectrl.Success {
			code, _ := refuses(at, status)
			return code, c.refused(t.Key, "Download", img, status.String())
		}
		held = append(held, t.controller.Clone().Buffer)
	}
	lie := c.fault != nil && c.fault.Kind == Lie
	var writeErr error
	err = c.do(job{
		op: Operation{
			Device: t.Key, Action: "Download", Version: img.Version, Digest: digest(data), Bytes: len(data),
		},
		takes: t.spec.WriteTime,
		progress: func(percent int) {
			sent := len(data) * percent / 100
			if o.has("progress") {
				c.printf("Firmware download: transferring 0x%08x/0x%08x bytes: %03d%%\r", sent, len(data), percent)
			}
			if !lie {
				writeErr = errors.Join(writeErr, c.m.keepNVMeBuffer(t.Key, held[(len(held)-1)*percent/100]))
			}
		},
	})
	if errors.Is(err, errBusy) {
		return refuses(0, nvmectrl.OverlappingRange)
	}
	if err := errors.Join(err, writeErr); err != nil {
		return 0, err
	}
	if o.has("progress") {
		c.printf("\n")
	}
	c.printf("Firmware download success\n")
	return 0, nil
}

func nvmeCommit(c *call, t *nvmeTarget, o options) (int, error) {
	slot, err1 := strconv.ParseInt(defaultTo(o.values["slot"], "0"), 0, 16)
	action, err2 := strconv.ParseInt(defaultTo(o.values["action"], "0"), 0, 16)
	switch {
	case err1 != nil || err2 != nil:
		return 0, errors.Join(err1, err2)
	case slot < 0 || slot > 7:
		return c.fail(1, "invalid slot:%d\n", slot)
	case action < 0 || action > 7 || action == 4 || action == 5:
		return c.fail(1, "invalid action:%d\n", action)
	}
	status, err := c.nvmeFirmwareCommit(t, int(slot), nvmectrl.Action(action))
	if errors.Is(err, errBusy) {
		status, err = nvmectrl.OverlappingRange, nil
	}
	if err != nil {
		return 0, err
	}
	code := 1
	switch status {
	case nvmectrl.Success:
		c.printf("Success committing firmware action:%d slot:%d\n", action, slot)
		code = 0
	case nvmectrl.NeedsConventionalReset, nvmectrl.NeedsControllerReset:
		kind := "conventional"
		if status == nvmectrl.NeedsControllerReset {
			kind = "any controller"
		}
		c.printf("Success activating firmware action:%d slot:%d, but firmware requires %s reset\n", action, slot, kind)
	default:
		_, _ = c.nvmeFailed(status)
	}
	c.printf("Multiple Update Detected (MUD) Value: 0\n")
	return code, nil
}

// nvmeFirmwareCommit is the Firmware Commit command.
func (c *call) nvmeFirmwareCommit(t *nvmeTarget, slot int, action nvmectrl.Action) (nvmectrl.Status, error) {
	commit := t.controller.Judge(slot, action)
	if !commit.Status.Committed() {
		return commit.Status, errors.Join(c.m.keepNVMeBuffer(t.Key, t.controller.Buffer),
			c.refused(t.Key, "Commit", Image{Digest: commit.Image.Digest}, commit.Status.String()))
	}
	err := c.do(job{
		op: Operation{
			Device: t.Key, Action: "Commit", Detail: fmt.Sprintf("slot %d action %d", commit.Slot, action),
			Version: commit.Image.Revision, Digest: commit.Image.Digest, Bytes: commit.Size,
		},
		begin:  t.change(func(c *nvmectrl.Controller) { c.BeginStore(commit) }),
		finish: t.change(func(c *nvmectrl.Controller) { c.CarryOut(commit) }),
	})
	return commit.Status, errors.Join(err, t.err)
}

// nvmeReset is a controller reset. The kernel does not read the firmware revision again: sysfs keeps the old one.
func nvmeReset(c *call, t *nvmeTarget, _ options) (int, error) {
	err := c.do(job{
		op:     Operation{Device: t.Key, Action: "Reset"},
		takes:  t.spec.ResetTime,
		finish: t.change(func(c *nvmectrl.Controller) { c.Reset(nvmectrl.ControllerReset) }),
	})
	if errors.Is(err, errBusy) {
		return c.fail(1, "Reset: Device or resource busy\n")
	}
	return 0, errors.Join(err, t.err)
}

func defaultTo(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// osReason is the text of the system error inside, as strerror spells it.
func osReason(err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return "No such file or directory"
	}
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}
