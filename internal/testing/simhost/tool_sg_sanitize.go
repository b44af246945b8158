package simhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Service actions of SANITIZE (SBC-4).
const (
	sanitizeOverwrite = 0x01
	sanitizeBlock     = 0x02
	sanitizeCrypto    = 0x03
	sanitizeExit      = 0x1f
)

// scsiSanitize is the sanitize of a disk. Power cuts and reboots leave it alone; a disk keeps nothing of one that succeeded.
type scsiSanitize struct {
	// Left is how many of the steps it still takes; 0 for none that runs.
	Left, Steps int `json:",omitempty"`
	// Failed disks give no data. Exits is AUSE: the state can be left.
	Failed, Exits bool `json:",omitempty"`
}

// refuses is the exit code of a tool whose command the disk ends at once; 0 where it carries it out.
func (s scsiSanitize) refuses(tool string) int {
	switch {
	case slices.Contains([]string{"sg_inq", "sg_luns", "sg_requests", "sg_sanitize"}, tool):
		return 0
	case s.Left > 0:
		return sgNotReady
	case s.Failed:
		return sgMediumError
	}
	return 0
}

// characteristics is the Block Device Characteristics page (SBC-4, 6.6.2).
func (d SCSI) characteristics() []byte {
	body := make([]byte, 60)
	body[0], body[1], body[3] = 0x1c, 0x20, d.WriteAfterErase // 7200 a minute
	if d.Solid {
		body[0], body[1] = 0, 1
	}
	return vpdPage(0xb1, body)
}

// offers is the answer of REPORT SUPPORTED OPERATION CODES for a service action of SANITIZE.
func (d SCSI) offers(action int) []byte {
	if !slices.Contains(d.Sanitizes, action) {
		return []byte{0, 1, 0, 0}
	}
	usage := []byte{0x48, 0xa0 | byte(action), 0, 0, 0, 0, 0, 0, 0, 0}
	if action == sanitizeOverwrite {
		usage[7], usage[8] = 0xff, 0xff
	}
	return append([]byte{0, 3, 0, byte(len(usage))}, usage...)
}

// Options of the tools that ask about an erasure and begin one. "-HHH" is how the driver asks for nothing but hexadecimal digits.
var (
	sgPersistOptions = optionTable{
		"n": "no-inquiry", "no-inquiry": "no-inquiry", "i": "in", "in": "in", "k": "read-keys", "read-keys": "read-keys", "HHH": "digits", "H": "hex", "hex": "hex",
		"V": "version", "version": "version",
	}
	sgSanitizeOptions = optionTable{
		"A": "ause", "ause": "ause", "B": "block", "block": "block", "C": "crypto", "crypto": "crypto", "e": "early", "early": "early", "F": "fail", "fail": "fail",
		"O": "overwrite", "overwrite": "overwrite", "p": "pattern=", "pattern": "pattern=", "Q": "quick", "quick": "quick", "t": "timeout=", "timeout": "timeout=",
		"z": "zero", "zero": "zero", "v": "verbose", "verbose": "verbose", "V": "version", "version": "version",
	}
)

// sgTable are the options of the tool.
func (c *call) sgTable() optionTable {
	switch c.tool {
	case "sg_persist":
		return sgPersistOptions
	case "sg_sanitize":
		return sgSanitizeOptions
	}
	return sgOptions
}

// sgLuns is sg_luns of sg3_utils 1.46; it knows its binary output only.
func sgLuns(c *call) (int, error) {
	return sgQuery(c, func(d SCSI, _ string, o options) (int, error) {
		if !o.has("raw") {
			return c.fail(sgSyntax, "sg_luns: only --raw is simulated\n")
		}
		list := make([]byte, 8*(1+d.MoreUnits))
		for i := range 1 + d.MoreUnits {
			list[8*i+1] = byte(i)
		}
		return 0, c.raw(append(binary.BigEndian.AppendUint64(nil, uint64(len(list))<<32), list...), o)
	})
}

// sgPersist is sg_persist of sg3_utils 1.46; it knows how to read the keys, as hexadecimal digits.
func sgPersist(c *call) (int, error) {
	return sgQuery(c, func(d SCSI, _ string, o options) (int, error) {
		if !o.has("in") || !o.has("read-keys") || !o.has("no-inquiry") || !o.has("digits") {
			return c.fail(sgSyntax, "sg_persist: only --no-inquiry --in --read-keys -HHH is simulated\n")
		}
		answer := binary.BigEndian.AppendUint64(nil, 7<<32|uint64(8*d.Keys))
		for i := range d.Keys {
			answer = binary.BigEndian.AppendUint64(answer, 0xabc000+uint64(i))
		}
		for row := range slices.Chunk(answer, 16) {
			c.printf("% x\n", row)
		}
		return 0, nil
	})
}

// sgRequests is sg_requests of sg3_utils 1.46; it knows its binary output only. Each reading is a step of a sanitize. The faults of the operation "erase"
// are those of its last step: Fail makes it fail, Lie makes it end and leave all data, and Hang keeps it from ending.
func sgRequests(c *call) (int, error) {
	d, o, code, err := c.sgDisk()
	if code != 0 || err != nil || o.args == nil {
		return code, err
	}
	if !o.has("raw") {
		return c.fail(sgSyntax, "sg_requests: only --raw is simulated\n")
	}
	return c.run(d.Key, "query", func() (int, error) {
		if waits, err := c.sgAttention(d); waits || err != nil { // which hides all else
			return 0, errors.Join(err, c.raw(senseData(6, 0x2900, -1), o))
		}
		var now scsiSanitize
		err := c.m.update(func(s *state) (err error) {
			now = s.SCSI[d.Key].Sanitize
			s.SCSI[d.Key].Sanitize, err = c.sanitizes(d, now)
			return err
		})
		switch {
		case err != nil:
			return 0, err
		case now.Left > 0:
			return 0, c.raw(senseData(2, 0x041b, (now.Steps-now.Left)<<16/now.Steps), o)
		case now.Failed:
			return 0, c.raw(senseData(3, 0x3103, -1), o)
		}
		return 0, c.raw(senseData(0, 0, -1), o)
	})
}

// sanitizes is the next step of a sanitize.
func (c *call) sanitizes(d SCSI, now scsiSanitize) (scsiSanitize, error) {
	switch {
	case now.Left == 0:
		return now, nil
	case now.Left > 1:
		now.Left--
		return now, nil
	}
	f, err := c.m.strike(c.tool, d.Key, "erase", Fail, Lie, Hang)
	switch {
	case err != nil || f != nil && f.Kind == Hang:
		return now, err
	case f == nil:
		return scsiSanitize{}, c.m.eraseDisk(d.Key, d.Sectors)
	}
	return scsiSanitize{Failed: f.Kind == Fail, Exits: now.Exits}, nil
}

// senseData is sense data in fixed format, with a progress indication unless that is negative.
func senseData(key byte, additional uint16, progress int) []byte {
	out := make([]byte, 18)
	out[0], out[2], out[7] = 0x70, key, 10
	binary.BigEndian.PutUint16(out[12:], additional)
	if progress >= 0 {
		out[15] = 0x80
		binary.BigEndian.PutUint16(out[16:], uint16(progress))
	}
	return out
}

// sgSanitizeContradicts refuses what the tool does not take together, which it looks at before the device.
func (c *call) sgSanitizeContradicts(o options) (int, error) {
	n := 0
	for _, name := range []string{"block", "crypto", "fail", "overwrite"} {
		if o.has(name) {
			n++
		}
	}
	switch {
	case n != 1:
		return c.fail(sgContradiction, "one and only one of '--block', '--crypto', '--fail' or '--overwrite' please\n")
	case o.has("overwrite") && o.has("zero") && o.has("pattern"):
		return c.fail(sgContradiction, "confused: both '--pattern=PF' and '--zero' options\n")
	case o.has("overwrite") && !o.has("zero") && !o.has("pattern"):
		return c.fail(sgContradiction, "'--overwrite' requires '--pattern=PF' or '--zero' option\n")
	}
	return 0, nil
}

// sgSanitize is sg_sanitize of sg3_utils 1.46; it does not know the pause in which a person may think again, nor how to wait for the end.
func sgSanitize(c *call) (int, error) {
	d, o, code, err := c.sgDisk()
	if code != 0 || err != nil || o.args == nil {
		return code, err
	}
	if !o.has("fail") && (!o.has("quick") || !o.has("early")) {
		return c.fail(sgSyntax, "sg_sanitize: only --quick --early is simulated\n")
	}
	return c.run(d.Key, "sanitize", func() (int, error) {
		c.printf("    %-8.8s  %-16.16s  peripheral_type: disk [0x0]\n      Unit serial number: %s\n", d.Vendor, d.Model, d.Serial)
		if waits, err := c.sgAttention(d); waits || err != nil {
			return c.sgSanitizeFailed(d, o, sgUnitAttention, "Power on, reset, or bus device reset occurred", err)
		}
		s, err := c.m.view()
		if err != nil {
			return 0, err
		}
		now := s.SCSI[d.Key].Sanitize
		action := o.action()
		switch {
		case now.Left > 0:
			return c.sgSanitizeFailed(d, o, sgNotReady, "Logical unit not ready, sanitize in progress", nil)
		case len(d.Sanitizes) == 0:
			return c.sgSanitizeFailed(d, o, sgInvalidOpcode, "Invalid command operation code", nil)
		case !slices.Contains(d.Sanitizes, action), o.has("ause") && !slices.Contains(d.Sanitizes, sanitizeExit),
			action == sanitizeExit && now.Failed && !now.Exits:
			return c.sgSanitizeFailed(d, o, sgIllegalRequest, "Invalid field in cdb", nil)
		}
		return c.sgBegin(d, o, action)
	})
}

// action is the service action that is asked for.
func (o options) action() int {
	for name, action := range map[string]int{"block": sanitizeBlock, "crypto": sanitizeCrypto, "overwrite": sanitizeOverwrite} {
		if o.has(name) {
			return action
		}
	}
	return sanitizeExit
}

func (c *call) sgBegin(d SCSI, o options, action int) (int, error) {
	var failed error
	err := c.do(job{
		op: Operation{Device: d.Key, Action: "Sanitize", Detail: fmt.Sprintf("action %d", action)},
		begin: func(s *state) {
			disk := s.SCSI[d.Key]
			if disk.Sanitize = (scsiSanitize{}); action == sanitizeExit {
				return
			}
			disk.Sanitize = scsiSanitize{Left: d.SanitizeSteps, Steps: d.SanitizeSteps, Exits: o.has("ause")}
			if d.SanitizeSteps == 0 {
				disk.Sanitize.Left = 1
				disk.Sanitize, failed = c.sanitizes(d, disk.Sanitize)
			}
		},
	})
	if errors.Is(err, errBusy) {
		return c.sgSanitizeFailed(d, o, sgAborted, "Overlapped commands attempted", nil)
	}
	if o.has("verbose") && err == nil {
		fmt.Fprintln(c.stderr, "Sanitize command launched without error")
	}
	return 0, errors.Join(err, failed)
}

// sgSanitizeFailed prints the sense data too when the tool is verbose.
func (c *call) sgSanitizeFailed(d SCSI, o options, code int, sense string, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if err := c.refused(d.Key, "Sanitize", Image{}, sense); err != nil {
		return 0, err
	}
	if o.has("verbose") {
		fmt.Fprintf(c.stderr, "Sanitize:\nFixed format, current; Sense key: %s\nAdditional sense: %s\n", sgKey[code], sense)
		return c.fail(code, "Sanitize failed: %s\n", sgReason[code])
	}
	fmt.Fprintf(c.stderr, "Sanitize failed: %s\n", sgReason[code])
	return c.sgFail(code)
}
