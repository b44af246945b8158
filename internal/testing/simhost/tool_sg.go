package simhost

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The exit codes of sg3_utils (sg_lib.h).
const (
	sgSyntax         = 1
	sgNotReady       = 2
	sgMediumError    = 3
	sgIllegalRequest = 5
	sgUnitAttention  = 6
	sgInvalidOpcode  = 9
	sgAborted        = 11
	sgFileError      = 15
	sgContradiction  = 31
	sgNoPage         = 50 + 33 // an errno above 50: EDOM, for a page that the disk does not list
	sgNoFile         = 50 + 2  // ENOENT
)

var sgReason = map[int]string{
	sgUnitAttention: "Unit attention", sgIllegalRequest: "Illegal request", sgAborted: "Aborted command", sgNotReady: "Device not ready",
	sgMediumError: "Medium or hardware error", sgInvalidOpcode: "Illegal request, Invalid opcode",
}

var sgKey = map[int]string{
	sgUnitAttention: "Unit Attention", sgIllegalRequest: "Illegal Request", sgAborted: "Aborted Command", sgNotReady: "Not Ready",
	sgMediumError: "Medium Error", sgInvalidOpcode: "Illegal Request",
}

var sgOptions = optionTable{
	"p": "page=", "page": "page=", "H": "hex", "r": "raw", "raw": "raw", "e": "export", "maxlen": "maxlen=", "m": "mode=", "mode": "mode=", "b": "bpw=",
	"bpw": "bpw=", "I": "in=", "in": "in=", "i": "id=", "id": "id=", "o": "offset=", "offset": "offset=",
	"l": "length=", "length": "length=", "S": "specific=", "specific": "specific=", "t": "timeout=", "timeout": "timeout=",
	"opcode": "opcode=", "v": "verbose", "verbose": "verbose", "V": "version", "version": "version",
}

// sgVersion is what the tools of sg3_utils 1.46 print of themselves.
var sgVersion = map[string]string{
	"sg_inq": "Version string: 2.10 20210328", "sg_logs": "Version string: 1.81 20200110", "sg_opcodes": "Version string: 0.69 20210319", "sg_read_buffer": "version: 1.30 20191220",
	"sg_write_buffer": "version: 1.29 20181112", "sg_sat_identify": "version: 1.17 20180515",
	"sg_luns": "version: 1.45 20200708", "sg_requests": "sg_requests: version: 1.36 20210329", "sg_persist": "version: 0.67 20190913",
	"sg_sanitize": "sg_sanitize: version: 1.15 20201223",
}

// sgArguments parses the arguments as the tools do: they exit with 0 after an option that they do not know, and do nothing. The
// arguments are nil then.
func (c *call) sgArguments(table optionTable) (options, int, error) {
	o, err := table.parse(c.argv[1:])
	usage := "Usage: " + c.tool + " [--help] [--raw] [--verbose] [--version] DEVICE\n"
	switch {
	case err == nil && o.has("version"):
		code, err := c.fail(0, "%s\n", sgVersion[c.tool])
		return options{}, code, err
	case err != nil:
		code, err := c.fail(0, "%s: %v\n%s", c.tool, err, usage)
		return options{}, code, err
	case len(o.args) == 1:
		return o, 0, nil
	case c.tool == "sg_inq" || c.tool == "sg_logs" || c.tool == "sg_opcodes":
		code, err := c.fail(sgSyntax, "No DEVICE argument given\n\n%s", usage)
		return options{}, code, err
	}
	missing := map[string]string{"sg_luns": "missing device name!\n", "sg_persist": "No device name given\n"}[c.tool]
	code, err := c.fail(sgSyntax, "%s%s", cmp.Or(missing, "Missing device name!\n\n"), usage)
	return options{}, code, err
}

// sgDisk parses the arguments and finds the disk; if code is not zero the tool ends.
func (c *call) sgDisk() (d SCSI, o options, code int, err error) {
	o, code, err = c.sgArguments(c.sgTable())
	if code != 0 || err != nil || o.args == nil {
		return d, o, code, err
	}
	if c.tool == "sg_sanitize" {
		if code, err := c.sgSanitizeContradicts(o); code != 0 || err != nil {
			return d, o, code, err
		}
	}
	s, err := c.m.view()
	if err != nil {
		return d, o, 0, err
	}
	for _, d := range s.Spec.SCSI {
		if name := filepath.Base(o.args[0]); s.present(d.Key) && (name == d.Generic || name == d.Key) {
			return d, o, 0, nil
		}
	}
	code, err = c.sgMissing(o.args[0])
	return d, o, code, err
}

// sgMissing is how the tools report that there is no such device. Each has its own words.
func (c *call) sgMissing(device string) (int, error) {
	const missing = "No such file or directory"
	text := map[string]string{
		"sg_inq":          fmt.Sprintf("sg_inq: error opening file: %s: %s\nsg_inq failed: %s\n", device, missing, missing),
		"sg_logs":         fmt.Sprintf("error opening file: %s: %s \nsg_logs failed: %s\n", device, missing, missing),
		"sg_opcodes":      fmt.Sprintf("sg_opcodes: error opening file (rw): %s: %s\n\n", device, missing),
		"sg_write_buffer": fmt.Sprintf("sg_write_buffer: open error: %s: %s\n", device, missing),
		"sg_luns":         fmt.Sprintf("open error: %s: %s\n", device, missing),
		"sg_persist":      fmt.Sprintf("sg_persist: error opening file %s (rw): %s\n", device, missing),
		"sg_sanitize":     fmt.Sprintf("sg_sanitize: open error: %s: %s\n", device, missing),
	}[c.tool]
	if text == "" && c.tool != "sg_requests" { // with --raw it says nothing
		text = fmt.Sprintf("%s failed: %s\n", c.tool, missing)
	}
	return c.fail(sgNoFile, "%s", text)
}

// sgAttention reports a unit attention that waits, once.
func (c *call) sgAttention(d SCSI) (waits bool, err error) {
	s, err := c.m.view()
	if err != nil || !s.SCSI[d.Key].UnitAttention {
		return false, err
	}
	return true, c.m.update(func(s *state) error {
		s.SCSI[d.Key].UnitAttention = false
		return nil
	})
}

func (c *call) sgFail(code int) (int, error) {
	return c.fail(code, "%s failed: %s\n", c.tool, sgReason[code])
}

// sgQuery runs a tool that only reads.
func sgQuery(c *call, show func(d SCSI, running string, o options) (int, error)) (int, error) {
	if refused, code, err := c.sgRefusesArguments(); refused || err != nil {
		return code, err
	}
	d, o, code, err := c.sgDisk()
	if code != 0 || err != nil || o.args == nil {
		return code, err
	}
	return c.run(d.Key, "query", func() (int, error) {
		if waits, err := c.sgAttention(d); waits || err != nil {
			if err != nil {
				return 0, err
			}
			return c.sgFail(sgUnitAttention)
		}
		s, err := c.m.view()
		if err != nil {
			return 0, err
		}
		if code := s.SCSI[d.Key].Sanitize.refuses(c.tool); code != 0 {
			return c.sgFail(code)
		}
		return show(d, s.SCSI[d.Key].Running.Version, o)
	})
}

// sgRefusesArguments reports what a tool does not take as the value of an option, which it looks at before the device.
func (c *call) sgRefusesArguments() (refused bool, code int, err error) {
	o, err := c.sgTable().parse(c.argv[1:])
	if err != nil {
		return false, 0, nil //nolint:nilerr // an option that does not exist is reported later
	}
	_, action, _ := strings.Cut(o.values["opcode"], ",")
	_, notNumber := strconv.ParseInt(cmp.Or(action, "0"), 0, 32)
	_, named := sgModes[o.values["mode"]]
	_, noMode := strconv.ParseInt(o.values["mode"], 0, 8)
	text := ""
	switch {
	case notNumber != nil:
		text = "bad SA argument to '--opcode'"
	case o.has("mode") && !named && noMode != nil && o.values["mode"] != "desc":
		text = "The modes parameter argument can be numeric (hex or decimal)\nor symbolic:"
	case sgNumber(o, "specific") > 7:
		text = "expected argument to '--specific' to be 0 to 7"
	}
	if text == "" {
		return false, 0, nil
	}
	code, err = c.fail(sgSyntax, "%s\n", text)
	return true, code, err
}

// sgInq is sg_inq of sg3_utils 1.46.
func sgInq(c *call) (int, error) {
	return sgQuery(c, func(d SCSI, running string, o options) (int, error) {
		switch {
		case o.values["page"] == "0x80" && o.has("raw"):
			return 0, c.raw(vpdPage(0x80, []byte(d.Serial)), o)
		case o.values["page"] == "0x86" && o.has("raw") && !d.NoExtended:
			return 0, c.raw(d.extended(), o)
		case o.values["page"] == "0x86" && o.has("raw"): // it looks for the page in the list of pages first
			return c.fail(sgNoPage, "")
		case o.values["page"] == "0xb1" && o.has("raw") && (d.Solid || d.WriteAfterErase != 0):
			return 0, c.raw(d.characteristics(), o)
		case o.values["page"] == "0xb1" && o.has("raw"):
			return c.fail(sgNoPage, "")
		case o.has("page"):
			return c.fail(sgIllegalRequest, "fetching VPD page failed: Illegal request\n")
		case o.has("raw"):
			return 0, c.raw(d.inquiry(running), o)
		}
		return c.fail(sgSyntax, "sg_inq: only --raw is simulated\n")
	})
}

// sgLogs is sg_logs of sg3_utils 1.46; it knows the Background Scan log page.
func sgLogs(c *call) (int, error) {
	return sgQuery(c, func(d SCSI, _ string, o options) (int, error) {
		switch {
		case o.values["page"] != "0x15" || !o.has("raw"):
			return c.fail(sgSyntax, "sg_logs: only --raw --page=0x15 is simulated\n")
		case d.PowerOnHours == 0:
			return c.fail(sgIllegalRequest, "log_sense: field in cdb illegal (page not supported)\n")
		}
		page := []byte{0x15, 0, 0, 16, 0, 0, 3, 12}
		page = binary.BigEndian.AppendUint32(page, uint32(d.PowerOnHours)*60+30)
		return 0, c.raw(append(page, make([]byte, 8)...), o)
	})
}

// raw prints the requested part of a response unchanged.
func (c *call) raw(response []byte, o options) error {
	if o.has("maxlen") {
		n, err := strconv.Atoi(o.values["maxlen"])
		if err != nil || n < 0 {
			return fmt.Errorf("parse --maxlen: %q is no length", o.values["maxlen"])
		}
		response = response[:min(n, len(response))]
	}
	_, err := c.stdout.Write(response)
	return err
}

// sgOpcodes is sg_opcodes of sg3_utils 1.46; it knows the modes of WRITE BUFFER and prints the response as it is.
func sgOpcodes(c *call) (int, error) {
	return sgQuery(c, func(d SCSI, _ string, o options) (int, error) {
		opcode, action, single := strings.Cut(o.values["opcode"], ",")
		mode, err := strconv.ParseInt(cmp.Or(action, "0"), 0, 8)
		switch {
		case d.NoOpcodes:
			return c.fail(sgInvalidOpcode, "Report supported operation codes: Illegal request, Invalid opcode\n")
		case err == nil && opcode == "0x48" && single && o.has("raw"):
			return 0, c.raw(d.offers(int(mode)), o)
		}
		if err != nil || opcode != "0x3b" || !o.has("raw") {
			return c.fail(sgSyntax, "sg_opcodes: only --raw --opcode=0x3b[,MODE] is simulated\n")
		}
		// Both reporting options are refused where they do not fit the command (SPC-5, 6.35): that for a command with
		// service actions, and that for one without.
		if single == d.NoServiceActions {
			return c.fail(sgIllegalRequest, "Report supported operation codes: Illegal request\n")
		}
		if single && !d.takes(int(mode)) {
			return 0, c.raw([]byte{0, 1, 0, 0}, o)
		}
		usage := []byte{0x3b, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0}
		if single {
			usage[1] = byte(mode)
		}
		return 0, c.raw(append([]byte{0, 3, 0, byte(len(usage))}, usage...), o)
	})
}

// sgReadBuffer is sg_read_buffer of sg3_utils 1.46; it knows the descriptor of buffer 0.
func sgReadBuffer(c *call) (int, error) {
	return sgQuery(c, func(d SCSI, _ string, o options) (int, error) {
		mode := o.values["mode"]
		switch {
		case mode != "desc" && mode != "3" || !o.has("raw") || defaultTo(o.values["id"], "0") != "0":
			return c.fail(sgSyntax, "sg_read_buffer: only --mode=desc --raw of buffer 0 is simulated\n")
		case d.NoDescriptor:
			return c.fail(sgInvalidOpcode, "Read buffer(10): Illegal request, Invalid opcode\nsg_read_buffer failed: Illegal request, Invalid opcode\n")
		}
		return 0, c.raw(d.descriptor(), options{})
	})
}

// The modes of WRITE BUFFER that download microcode (SPC-5).
const (
	modeSave     = 7
	modeSelect   = 0xd
	modeDefer    = 0xe
	modeActivate = 0xf
)

var sgModes = map[string]int{
	"dmc_offs_save": modeSave, "dmc_offs_ev_defer": modeSelect, "dmc_offs_defer": modeDefer, "activate_mc": modeActivate,
}

// sgWriteBuffer is sg_write_buffer of sg3_utils 1.46.
func sgWriteBuffer(c *call) (int, error) {
	if refused, code, err := c.sgRefusesArguments(); refused || err != nil {
		return code, err
	}
	d, o, code, err := c.sgDisk()
	if code != 0 || err != nil || o.args == nil {
		return code, err
	}
	mode, ok := sgModes[o.values["mode"]]
	if !ok {
		n, err := strconv.ParseInt(o.values["mode"], 0, 8)
		if err != nil || n != modeSave && n != modeSelect && n != modeDefer && n != modeActivate {
			return c.fail(sgInvalidOpcode, "Write buffer failed: Illegal request, Invalid opcode\nsg_write_buffer failed: Illegal request, Invalid opcode\n")
		}
		mode = int(n)
	}
	operation := "write"
	if mode == modeActivate {
		operation = "activate"
	}
	return c.run(d.Key, operation, func() (int, error) {
		if waits, err := c.sgAttention(d); waits || err != nil {
			if err != nil {
				return 0, err
			}
			return c.sgWriteFailed(o, sgUnitAttention, "Microcode has been changed without reset")
		}
		s, err := c.m.view()
		if err != nil {
			return 0, err
		}
		if code := s.SCSI[d.Key].Sanitize.refuses(c.tool); code != 0 {
			return c.sgWriteFailed(o, code, "")
		}
		switch {
		case !d.takes(mode), mode != modeSelect && o.has("specific"), mode == modeSelect && sgNumber(o, "specific")&^d.Events != 0:
			return c.sgWriteFailed(o, sgIllegalRequest, "Invalid field in cdb")
		case mode == modeActivate:
			return c.sgActivate(d, o)
		}
		return c.sgDownload(d, o, mode)
	})
}

// sgWriteFailed prints the sense data too when the tool is verbose.
func (c *call) sgWriteFailed(o options, code int, sense string) (int, error) {
	if o.has("verbose") {
		fmt.Fprintf(c.stderr, "Write buffer:\nFixed format, current; Sense key: %s\nAdditional sense: %s\n", sgKey[code], sense)
		return c.fail(code, "Write buffer failed: %s\n", sgReason[code])
	}
	fmt.Fprintf(c.stderr, "Write buffer failed: %s\n", sgReason[code])
	return c.sgFail(code)
}

// sgNumber is a number as the tools take it: with a multiplier such as "4k". It is 0 where it is not given.
func sgNumber(o options, name string) int {
	text, kilo := strings.CutSuffix(o.values[name], "k")
	n, err := strconv.ParseInt(cmp.Or(text, "0"), 0, 32)
	if err != nil {
		return 0
	}
	if kilo {
		n <<= 10
	}
	return int(n)
}

// sgData reads the data to send: up to 8 MiB, or the requested length, padded with 0xff.
func sgData(o options) ([]byte, error) {
	data, err := os.ReadFile(o.values["in"])
	if err != nil {
		return nil, err
	}
	length := min(len(data), 8<<20)
	if o.has("length") {
		if length, err = strconv.Atoi(o.values["length"]); err != nil || length < 0 {
			return nil, fmt.Errorf("parse --length: %q is no length", o.values["length"])
		}
	}
	data = data[:min(length, len(data))]
	return append(data, bytes.Repeat([]byte{0xff}, length-len(data))...), nil
}

func (c *call) sgDownload(d SCSI, o options, mode int) (int, error) {
	data, err := sgData(o)
	if err != nil {
		return c.fail(sgFileError, "sg_write_buffer: could not open %s for reading: %s\n", o.values["in"], osReason(err))
	}
	const single = 64 << 10 // the limit of one command
	if !o.has("bpw") && len(data) > single {
		return c.fail(sgFileError, "ioctl(SG_IO v3) failed: Invalid argument (errno=22)\nWrite buffer failed: OS error: Invalid argument\n")
	}
	if piece := min(cmp.Or(sgNumber(o, "bpw"), len(data)), len(data)); piece > d.capacity() ||
		piece < len(data) && (d.boundary() == 0 || piece%d.boundary() != 0) {
		return c.sgWriteFailed(o, sgIllegalRequest, "Invalid field in cdb")
	}
	img, err := ParseImage(data)
	if err != nil || img.Kind != SCSIImage || img.Model != d.Model {
		if err := c.refused(d.Key, "Write", Image{Digest: digest(data)}, "invalid image"); err != nil {
			return 0, err
		}
		return c.sgWriteFailed(o, sgIllegalRequest, "Invalid field in parameter list")
	}
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	whole := flash{Version: img.Version, Digest: img.Digest}
	torn := whole
	torn.Torn = true
	err = c.do(job{
		op:    Operation{Device: d.Key, Action: "Write", Version: img.Version, Digest: img.Digest, Bytes: len(data)},
		takes: s.Spec.WriteTime,
		begin: func(s *state) { s.SCSI[d.Key].Deferred = torn },
		finish: func(s *state) {
			disk := s.SCSI[d.Key]
			disk.Deferred, disk.Selected, disk.Events = whole, mode == modeSelect, sgNumber(o, "specific")
			if mode == modeSave && d.Activation == DeviceReset {
				disk.UnitAttention = disk.activate()
			}
		},
	})
	if errors.Is(err, errBusy) {
		return c.sgWriteFailed(o, sgAborted, "Overlapped commands attempted")
	}
	return 0, err
}

func (c *call) sgActivate(d SCSI, o options) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	waiting := s.SCSI[d.Key].Deferred
	if waiting.Version == "" || waiting.Torn {
		if err := c.refused(d.Key, "Activate", Image{}, "no deferred microcode that could be activated"); err != nil {
			return 0, err
		}
		return c.sgWriteFailed(o, sgIllegalRequest, "Command sequence error")
	}
	err = c.do(job{
		op:    Operation{Device: d.Key, Action: "Activate", Version: waiting.Version, Digest: waiting.Digest},
		takes: s.Spec.ResetTime,
		finish: func(s *state) {
			disk := s.SCSI[d.Key]
			disk.UnitAttention = disk.activate()
		},
	})
	if errors.Is(err, errBusy) {
		return c.sgWriteFailed(o, sgAborted, "Overlapped commands attempted")
	}
	return 0, err
}
