package simhost

import (
	"bytes"
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
	sgIllegalRequest = 5
	sgUnitAttention  = 6
	sgInvalidOpcode  = 9
	sgAborted        = 11
	sgFileError      = 15
	sgNoDevice       = 50 + 19 // an errno above 50: ENODEV
)

var sgReason = map[int]string{
	sgUnitAttention: "Unit attention", sgIllegalRequest: "Illegal request", sgAborted: "Aborted command",
}

var sgKey = map[int]string{
	sgUnitAttention: "Unit Attention", sgIllegalRequest: "Illegal Request", sgAborted: "Aborted Command",
}

var sgOptions = optionTable{
	"p": "page=", "page": "page=", "H": "hex", "r": "raw", "raw": "raw", "e": "export", "maxlen": "maxlen=", "m": "mode=", "mode": "mode=", "b": "bpw=",
	"bpw": "bpw=", "I": "in=", "in": "in=", "i": "id=", "id": "id=", "o": "offset=", "offset": "offset=",
	"l": "length=", "length": "length=", "S": "specific=", "specific": "specific=", "t": "timeout=", "timeout": "timeout=",
	"opcode": "opcode=", "v": "verbose", "verbose": "verbose", "V": "version", "version": "version",
}

// sgDisk parses the arguments and finds the disk; if code is not zero the tool ends.
func (c *call) sgDisk() (d SCSI, o options, code int, err error) {
	o, err = sgOptions.parse(c.argv[1:])
	if err != nil {
		code, err = c.fail(sgSyntax, "%s: %v\n", c.tool, err)
		return d, o, code, err
	}
	if len(o.args) != 1 {
		code, err = c.fail(sgSyntax, "Missing device name!\n\n")
		return d, o, code, err
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
	code, err = c.fail(sgNoDevice, "%s: error opening file: %s: No such device\n", c.tool, o.args[0])
	return d, o, code, err
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
	d, o, code, err := c.sgDisk()
	if code != 0 || err != nil {
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
		return show(d, s.SCSI[d.Key].Running.Version, o)
	})
}

// sgInq is sg_inq of sg3_utils 1.46.
func sgInq(c *call) (int, error) {
	return sgQuery(c, func(d SCSI, running string, o options) (int, error) {
		switch {
		case o.values["page"] == "0x80" && o.has("raw"):
			return 0, c.raw(vpdPage(0x80, []byte(d.Serial)), o)
		case o.has("page"):
			return c.fail(sgIllegalRequest, "fetching VPD page failed: Illegal request\n")
		case o.has("raw"):
			return 0, c.raw(d.inquiry(running), o)
		}
		c.printf("standard INQUIRY:\n" +
			"  PQual=0  PDT=0  RMB=0  LU_CONG=0  hot_pluggable=0  version=0x06  [SPC-4]\n" +
			"  [AERC=0]  [TrmTsk=0]  NormACA=0  HiSUP=1  Resp_data_format=2\n" +
			"  SCCS=0  ACC=0  TPGS=0  3PC=0  Protect=1  [BQue=0]\n" +
			"  EncServ=0  MultiP=1 (VS=0)  [MChngr=0]  [ACKREQQ=0]  Addr16=0\n" +
			"  [RelAdr=0]  WBus16=0  Sync=0  [Linked=0]  [TranDis=0]  CmdQue=1\n" +
			"  [SPI: Clocking=0x0  QAS=0  IUS=0]\n" +
			"    length=144 (0x90)   Peripheral device type: disk\n")
		c.printf(" Vendor identification: %-8.8s\n Product identification: %-16.16s\n Product revision level: %-4.4s\n",
			d.Vendor, d.Model, running)
		c.printf(" Unit serial number: %s\n", d.Serial)
		return 0, nil
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
		opcode, action, _ := strings.Cut(o.values["opcode"], ",")
		mode, err := strconv.ParseInt(action, 0, 8)
		if err != nil || opcode != "0x3b" || !o.has("raw") {
			return c.fail(sgSyntax, "sg_opcodes: only --raw --opcode=0x3b,MODE is simulated\n")
		}
		if !d.takes(int(mode)) {
			return 0, c.raw([]byte{0, 1, 0, 0}, o)
		}
		usage := []byte{0x3b, byte(mode), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0}
		return 0, c.raw(append([]byte{0, 3, 0, byte(len(usage))}, usage...), o)
	})
}

// sgVPD is sg_vpd of sg3_utils 1.46; it knows the pages 0x80 and 0x83.
func sgVPD(c *call) (int, error) {
	return sgQuery(c, func(d SCSI, _ string, o options) (int, error) {
		switch strings.ToLower(o.values["page"]) {
		case "0x80", "80h", "128", "sn":
			c.printf("VPD INQUIRY: Unit serial number page\n  Unit serial number: %s\n", d.Serial)
		case "0x83", "83h", "131", "di":
			c.printf("VPD INQUIRY: Device Identification page\n  Addressed logical unit:\n"+
				"    designator type: NAA,  code set: Binary\n      0x%s\n", d.WWN)
		default:
			return c.fail(sgIllegalRequest, "fetching VPD page failed: Illegal request\n")
		}
		return 0, nil
	})
}

// The modes of WRITE BUFFER that download microcode (SPC-5).
const (
	modeSave     = 7
	modeDefer    = 0xe
	modeActivate = 0xf
)

var sgModes = map[string]int{"dmc_offs_save": modeSave, "dmc_offs_defer": modeDefer, "activate_mc": modeActivate}

// sgWriteBuffer is sg_write_buffer of sg3_utils 1.46.
func sgWriteBuffer(c *call) (int, error) {
	d, o, code, err := c.sgDisk()
	if code != 0 || err != nil {
		return code, err
	}
	mode, ok := sgModes[o.values["mode"]]
	if !ok {
		n, err := strconv.ParseInt(o.values["mode"], 0, 8)
		if err != nil || n != modeSave && n != modeDefer && n != modeActivate {
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
		switch {
		case !d.takes(mode):
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
			disk.Deferred = whole
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
	gone, err := c.m.strike(c.tool, d.Key, "reset", NoReturn)
	if err != nil {
		return 0, err
	}
	err = c.do(job{
		op:    Operation{Device: d.Key, Action: "Activate", Version: waiting.Version, Digest: waiting.Digest},
		takes: s.Spec.ResetTime,
		finish: func(s *state) {
			disk := s.SCSI[d.Key]
			disk.UnitAttention = disk.activate()
			if gone != nil {
				s.Lost[d.Key] = Reboot
			}
		},
	})
	if errors.Is(err, errBusy) {
		return c.sgWriteFailed(o, sgAborted, "Overlapped commands attempted")
	}
	return 0, err
}
