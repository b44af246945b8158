package simhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Command-specific statuses of the Firmware Commit command (NVM Express Base Specification 2.0, figure 195).
type nvmeStatus int

const (
	nvmeSuccess             nvmeStatus = 0
	nvmeInvalidSlot         nvmeStatus = 0x106
	nvmeInvalidImage        nvmeStatus = 0x107
	nvmeNeedsConvReset      nvmeStatus = 0x10b
	nvmeNeedsReset          nvmeStatus = 0x111
	nvmeActivationForbidden nvmeStatus = 0x113
	nvmeOverlap             nvmeStatus = 0x114
)

var nvmeStatusText = map[nvmeStatus]string{
	nvmeInvalidSlot:         "Invalid Firmware Slot: The firmware slot indicated is invalid or read only",
	nvmeInvalidImage:        "Invalid Firmware Image: The firmware image specified for activation is invalid and not loaded by the controller",
	nvmeActivationForbidden: "Firmware Activation Prohibited: The image specified is being prohibited from activation by the controller for vendor specific reasons",
	nvmeOverlap:             "Overlapping Range: The downloaded firmware image has overlapping ranges",
}

var nvmeOptions = optionTable{
	"output-format": "output-format=", "o": "output-format=", "fw": "fw=", "f": "fw=", "xfer": "xfer=", "x": "xfer=",
	"offset": "offset=", "progress": "progress", "p": "progress", "slot": "slot=", "s": "slot=", "action": "action=",
	"a": "action=", "bpid": "bpid=", "b": "bpid=", "raw-binary": "raw-binary", "ignore-ovr": "ignore-ovr",
	"human-readable": "human-readable", "H": "human-readable",
}

// nvmeCLI is nvme-cli 2.3, which Debian 12 ships as 2.4+really2.3.
func nvmeCLI(c *call) (int, error) {
	if len(c.argv) < 2 {
		c.printf("nvme-2.3\nusage: nvme <command> [<device>] [<args>]\n")
		return 0, nil
	}
	command := strings.TrimLeft(c.argv[1], "-")
	run := map[string]func(*call, NVMe, options) (int, error){
		"id-ctrl": nvmeIdentify, "fw-log": nvmeFirmwareLog, "fw-download": nvmeDownload, "fw-commit": nvmeCommit,
		"fw-activate": nvmeCommit, "reset": nvmeReset,
	}[command]
	if command == "version" {
		c.printf("nvme version 2.3 (git 2.3)\nlibnvme version 1.3 (git 1.3)\n")
		return 0, nil
	}
	if run == nil {
		c.printf("ERROR: Invalid sub-command '%s'\n", command)
		return 1, nil
	}
	o, err := nvmeOptions.parse(c.argv[2:])
	if err != nil {
		return c.fail(1, "%s: %v\n", c.tool, err)
	}
	if len(o.args) == 0 {
		return c.fail(1, "%s: expected device\n", command)
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
		"id-ctrl": "query", "fw-log": "query", "fw-download": "download", "reset": "reset",
	}[command]
	if operation == "" {
		operation = "commit"
	}
	return c.run(drive.Key, operation, func() (int, error) { return run(c, drive, o) })
}

// nvmeFormat checks the output format; only JSON and the short normal form are simulated.
func (c *call) nvmeFormat(o options) (json, ok bool) {
	switch f := o.values["output-format"]; f {
	case "", "normal":
		return false, true
	case "json":
		return true, true
	}
	fmt.Fprintf(c.stderr, "Invalid output format\n")
	return false, false
}

func nvmeIdentify(c *call, n NVMe, o options) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	asJSON, ok := c.nvmeFormat(o)
	if !ok {
		return 1, nil
	}
	fields := n.identify(s.NVMe[n.Key].Running.Version)
	if asJSON {
		c.printf("%s\n", jsonC.format(fields))
		return 0, nil
	}
	c.printf("NVME Identify Controller:\n")
	for _, f := range fields {
		switch _, nested := f.value.([]any); {
		case nested:
		case strings.Contains(identifyHex, " "+f.name+" "):
			c.printf("%-9s : %#x\n", f.name, f.value)
		default:
			c.printf("%-9s : %v\n", f.name, f.value)
		}
	}
	return 0, nil
}

// identifyHex are the fields nvme-cli prints in hexadecimal.
const identifyHex = " vid ssvid cmic cntlid ver rtd3r rtd3e oaes ctratt rrls oacs frmw lpa avscc apsta hctma sanicap anacap" +
	" sqes cqes oncs fuses fna vwc icsvscc ocfs sgls "

// identify is the Identify Controller data structure as nvme-cli prints it.
func (n NVMe) identify(version string) object {
	frmw := n.Slots << 1
	if n.Slot1ReadOnly {
		frmw |= 1
	}
	vendor := int(hex16(n.VendorID))
	zero := func(names ...string) (out object) {
		for _, name := range names {
			out = append(out, member{name, 0})
		}
		return out
	}
	out := object{
		{"vid", vendor}, {"ssvid", vendor}, {"sn", fmt.Sprintf("%-20s", n.Serial)},
		{"mn", fmt.Sprintf("%-40s", n.Model)}, {"fr", fmt.Sprintf("%-8s", version)},
		{"rab", 2}, {"ieee", 9528}, {"cmic", 0}, {"mdts", 9}, {"cntlid", 6}, {"ver", 66560}, {"rtd3r", 1000000},
		{"rtd3e", 8000000}, {"oaes", 768}, {"ctratt", 0}, {"rrls", 0}, {"cntrltype", 1},
		{"fguid", "00000000-0000-0000-0000-000000000000"},
	}
	out = append(out, zero("crdt1", "crdt2", "crdt3", "nvmsr", "vwci", "mec")...)
	out = append(out, object{
		{"oacs", 0x5f}, {"acl", 127}, {"aerl", 15}, {"frmw", frmw}, {"lpa", 14}, {"elpe", 255}, {"npss", 0}, {"avscc", 1},
		{"apsta", 0}, {"wctemp", 343}, {"cctemp", 356}, {"mtfa", 130}, {"hmpre", 0}, {"hmmin", 0},
		{"tnvmcap", n.Sectors * 512}, {"unvmcap", 0}, {"rpmbs", 0}, {"edstt", 2}, {"dsto", 1}, {"fwug", 1},
	}...)
	out = append(out, zero("kas", "hctma", "mntmt", "mxtmt", "sanicap", "hmminds", "hmmaxd", "nsetidmax", "endgidmax",
		"anatt", "anacap", "anagrpmax", "nanagrpid", "pels", "domainid", "megcap")...)
	out = append(out, object{
		{"sqes", 102}, {"cqes", 68}, {"maxcmd", 256}, {"nn", 32}, {"oncs", 95}, {"fuses", 0}, {"fna", 4}, {"vwc", 6},
		{"awun", 65535}, {"awupf", 0}, {"icsvscc", 1}, {"nwpc", 0}, {"acwu", 0}, {"ocfs", 0}, {"sgls", 983041}, {"mnan", 0},
		{"maxdna", 0}, {"maxcna", 0}, {"subnqn", n.nqn()},
	}...)
	out = append(out, zero("ioccsz", "iorcsz", "icdoff", "fcatt", "msdbd", "ofcs")...)
	return append(out, member{"psds", []any{object{{"max_power", 1400}, {"flags", 0}, {"entry_lat", 70}, {"exit_lat", 70}}}})
}

func nvmeFirmwareLog(c *call, n NVMe, o options) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	asJSON, ok := c.nvmeFormat(o)
	if !ok {
		return 1, nil
	}
	d := s.NVMe[n.Key]
	afi := d.Active | d.Next<<4
	log := object{{"Active Firmware Slot (afi)", afi}}
	if !asJSON {
		c.printf("Firmware Log for device:%s\nafi  : %#x\n", n.Key, afi)
	}
	for i, slot := range d.Slots {
		if slot.Version == "" || slot.Torn {
			continue
		}
		raw := fmt.Appendf(nil, "%-8.8s", slot.Version)
		value, text := binary.LittleEndian.Uint64(raw), strings.ReplaceAll(string(raw), " ", ".")
		log = append(log, member{fmt.Sprintf("Firmware Rev Slot %d", i+1), fmt.Sprintf("%d (%s)", value, text)})
		if !asJSON {
			c.printf("frs%d : %#016x (%s)\n", i+1, value, text)
		}
	}
	if asJSON {
		c.printf("%s\n", jsonC.format(object{{n.Key, log}}))
	}
	return 0, nil
}

// nvmeBuffer is where a drive keeps what was downloaded and not committed.
func (m *Machine) nvmeBuffer(n NVMe) string { return m.path("devices", n.Key+".download") }

func nvmeDownload(c *call, n NVMe, o options) (int, error) {
	path := o.values["fw"]
	data, err := os.ReadFile(path)
	if err != nil {
		return c.fail(1, "Failed to open firmware file %s: %s\n", path, osReason(err))
	}
	if len(data) == 0 || len(data)%4 != 0 {
		return c.fail(1, "Invalid size:%d for f/w image\n", len(data))
	}
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	img, _ := ParseImage(data) // a drive takes any bytes; it looks at them at the commit
	buffer := c.m.nvmeBuffer(n)
	lie := c.fault != nil && c.fault.Kind == Lie
	var writeErr error
	err = c.do(job{
		op: Operation{
			Device: n.Key, Action: "Download", Version: img.Version, Digest: digest(data), Bytes: len(data),
		},
		takes: s.Spec.WriteTime,
		progress: func(percent int) {
			sent := len(data) * percent / 100
			if o.has("progress") {
				c.printf("Firmware download: transferring 0x%08x/0x%08x bytes: %03d%%\r", sent, len(data), percent)
			}
			if !lie {
				writeErr = errors.Join(writeErr, c.m.replace(buffer, data[:sent], 0o600))
			}
		},
	})
	if errors.Is(err, errBusy) {
		return c.fail(1, "fw-download: error on offset 0x%08x/0x%08x\nNVMe status: %s(%#x)\n", 0, len(data),
			nvmeStatusText[nvmeOverlap], int(nvmeOverlap))
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

func nvmeCommit(c *call, n NVMe, o options) (int, error) {
	slot, err1 := strconv.Atoi(defaultTo(o.values["slot"], "0"))
	action, err2 := strconv.Atoi(defaultTo(o.values["action"], "0"))
	switch {
	case err1 != nil || err2 != nil:
		return c.fail(1, "Expected byte argument for '--slot' or '--action'\n")
	case slot < 0 || slot > 7:
		return c.fail(1, "invalid slot:%d\n", slot)
	case action < 0 || action > 7 || action == 4 || action == 5:
		return c.fail(1, "invalid action:%d\n", action)
	}
	status, err := c.nvmeFirmwareCommit(n, slot, action)
	if errors.Is(err, errBusy) {
		status, err = nvmeOverlap, nil
	}
	if err != nil {
		return 0, err
	}
	code := 1
	switch status {
	case nvmeSuccess:
		c.printf("Success committing firmware action:%d slot:%d\n", action, slot)
		code = 0
	case nvmeNeedsConvReset, nvmeNeedsReset:
		kind := "conventional"
		if status == nvmeNeedsReset {
			kind = "any controller"
		}
		c.printf("Success activating firmware action:%d slot:%d, but firmware requires %s reset\n", action, slot, kind)
	default:
		fmt.Fprintf(c.stderr, "NVMe status: %s(%#x)\n", nvmeStatusText[status], int(status))
	}
	c.printf("Multiple Update Detected (MUD) Value: 0\n")
	return code, nil
}

// nvmeFirmwareCommit is the Firmware Commit command. Actions: 0 stores, 1 stores and activates at the next reset, 2
// activates a stored image at the next reset, 3 activates a stored image, or the downloaded one, at once.
func (c *call) nvmeFirmwareCommit(n NVMe, slot, action int) (nvmeStatus, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	d := s.NVMe[n.Key]
	if slot == 0 {
		slot = n.chooseSlot(d)
	}
	op := Operation{Device: n.Key, Action: "Commit", Detail: fmt.Sprintf("slot %d action %d", slot, action)}
	stores := action == 0 || action == 1
	var img flash
	buffer, err := os.ReadFile(c.m.nvmeBuffer(n))
	if err != nil && !os.IsNotExist(err) {
		return 0, err
	}
	if action == 3 && len(buffer) > 0 {
		stores = true
	}
	if action > 3 || slot > n.Slots || stores && slot == 1 && n.Slot1ReadOnly {
		return nvmeInvalidSlot, c.refused(n.Key, "Commit", Image{}, "invalid slot")
	}
	if stores {
		parsed, err := ParseImage(buffer)
		if err != nil || parsed.Kind != NVMeImage || parsed.Model != n.Model {
			return nvmeInvalidImage, c.refused(n.Key, "Commit", Image{Digest: digest(buffer)}, "invalid image")
		}
		img = flash{Version: parsed.Version, Digest: parsed.Digest}
		op.Bytes = len(buffer)
	} else if img = d.Slots[slot-1]; img.Version == "" || img.Torn {
		return nvmeInvalidImage, c.refused(n.Key, "Commit", Image{}, "empty slot")
	}
	op.Version, op.Digest = img.Version, img.Digest
	status := n.activationStatus(action)
	err = c.do(job{
		op: op,
		begin: func(s *state) {
			if stores {
				torn := img
				torn.Torn = true
				s.NVMe[n.Key].Slots[slot-1] = torn
			}
		},
		finish: func(s *state) {
			d := s.NVMe[n.Key]
			d.Slots[slot-1] = img
			if action != 0 {
				d.Next = slot
			}
			if action == 3 && status == nvmeSuccess {
				d.activate()
			}
		},
	})
	if err == nil && stores && (c.fault == nil || c.fault.Kind != Lie) {
		err = os.Remove(c.m.nvmeBuffer(n))
	}
	return status, err
}

// activationStatus is what a drive says of an activation: what it needs beyond the action.
func (n NVMe) activationStatus(action int) nvmeStatus {
	switch {
	case action == 0:
		return nvmeSuccess
	case n.Activation != DeviceReset:
		return nvmeNeedsConvReset
	case action == 3:
		return nvmeNeedsReset
	}
	return nvmeSuccess
}

// chooseSlot is the controller's choice for slot 0: the first writable slot that is not active.
func (n NVMe) chooseSlot(d *nvmeState) int {
	for slot := 1; slot <= n.Slots; slot++ {
		if slot != d.Active && (slot > 1 || !n.Slot1ReadOnly) {
			return slot
		}
	}
	return d.Active
}

// nvmeReset is a controller reset. The kernel does not read the firmware revision again: sysfs keeps the old one.
func nvmeReset(c *call, n NVMe, _ options) (int, error) {
	gone, err := c.m.strike(c.tool, n.Key, "reset", NoReturn)
	if err != nil {
		return 0, err
	}
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	err = c.do(job{
		op:    Operation{Device: n.Key, Action: "Reset"},
		takes: s.Spec.ResetTime,
		finish: func(s *state) {
			if n.Activation == DeviceReset {
				s.NVMe[n.Key].activate()
			}
			if gone != nil {
				s.Lost[n.Key] = Reboot
			}
		},
	})
	if errors.Is(err, errBusy) {
		return c.fail(1, "Reset: Device or resource busy\n")
	}
	return 0, err
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
