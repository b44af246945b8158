package toolcontract

import (
	"fmt"
	"slices"
)

const (
	absentSG = "/dev/sg4095"
	// noSuchFile is the exit code of sg3_utils for ENOENT: 50 and the number of the error.
	noSuchFile = 52
)

// SG are the tools of sg3_utils, which read and write SAS drives and read SATA drives. They exit with 0 where they do not know an
// option, and have done nothing then.
func SG() []Tool {
	const missing = ": No such file or directory"
	tool := func(name, absent, argument string, cases ...Case) Tool {
		for i := range cases {
			if cases[i].Want == (Want{}) {
				cases[i].Want = Want{NoDevice, noSuchFile, absent}
			}
		}
		cases = append(cases, Case{
			Name: "an option that does not exist", Args: []string{"--nope", absentSG},
			Want: Want{Usage, 0, fmt.Sprintf("%s: unrecognized option '--nope'", name)},
		})
		if argument != "" {
			cases = append(cases, Case{Name: "no device", Want: Want{Usage, 1, argument}})
		}
		return known(Tool{
			Name: name,
			Marks: []Mark{
				{"unrecognized option", Usage}, {"No DEVICE argument given", Usage}, {"Missing device name!", Usage}, {"missing device name!", Usage},
				{"No device name given", Usage}, {"one and only one of", Usage}, {"requires '--pattern=PF'", Usage},
				{"The modes parameter argument can be", Usage}, {"expected argument to", Usage}, {"bad SA argument", Usage},
				{missing, NoDevice},
			},
			Cases: cases,
		})
	}
	download := func(name, mode string, more ...string) Case {
		args := append([]string{"-v", "--mode=" + mode}, more...)
		return Case{Name: name, Args: append(args, "--bpw=4096", "--length=4096", "--timeout=1200", "--in={blank}", absentSG)}
	}
	badMode := func(args ...string) Case {
		return Case{Name: "a mode that does not exist", Args: args, Want: Want{Usage, 1, "The modes parameter argument can be numeric"}}
	}
	sanitize := func(name string, method ...string) Case {
		return Case{Name: name, Args: slices.Concat([]string{"-v", "--quick", "--early", "--timeout=1200"}, method, []string{absentSG})}
	}
	noPattern := sanitize("an overwrite without a pattern", "--overwrite")
	noPattern.Want = Want{Usage, 31, "'--overwrite' requires '--pattern=PF' or '--zero' option"}
	noMethod := sanitize("no method")
	noMethod.Want = Want{Usage, 31, "one and only one of '--block', '--crypto', '--fail' or '--overwrite' please"}
	wrongEvents := download("events that do not exist", "dmc_offs_ev_defer", "--specific=9")
	wrongEvents.Want = Want{Usage, 1, "expected argument to '--specific' to be 0 to 7"}
	return []Tool{
		tool("sg_inq", "sg_inq: error opening file: "+absentSG+missing, "No DEVICE argument given",
			Case{Name: "standard INQUIRY", Args: []string{"--raw", "--maxlen=36", absentSG}},
			Case{Name: "serial number", Args: []string{"--raw", "--page=0x80", absentSG}},
			Case{Name: "extended INQUIRY data", Args: []string{"--raw", "--page=0x86", absentSG}},
			Case{Name: "block device characteristics", Args: []string{"--raw", "--page=0xb1", absentSG}},
		),
		tool("sg_logs", "error opening file: "+absentSG+missing, "", // without a device it exits with 1 or, later, 15
			Case{Name: "power-on time", Args: []string{"--raw", "--page=0x15", absentSG}},
		),
		tool("sg_opcodes", "sg_opcodes: error opening file (rw): "+absentSG+missing, "No DEVICE argument given",
			Case{Name: "WRITE BUFFER at all", Args: []string{"--raw", "--opcode=0x3b", absentSG}},
			Case{Name: "save", Args: []string{"--raw", "--opcode=0x3b,0x07", absentSG}},
			Case{Name: "select events", Args: []string{"--raw", "--opcode=0x3b,0x0d", absentSG}},
			Case{Name: "defer", Args: []string{"--raw", "--opcode=0x3b,0x0e", absentSG}},
			Case{Name: "activate", Args: []string{"--raw", "--opcode=0x3b,0x0f", absentSG}},
			Case{Name: "sanitize by overwriting", Args: []string{"--raw", "--opcode=0x48,0x01", absentSG}},
			Case{Name: "sanitize by block erase", Args: []string{"--raw", "--opcode=0x48,0x02", absentSG}},
			Case{Name: "sanitize by crypto erase", Args: []string{"--raw", "--opcode=0x48,0x03", absentSG}},
			Case{Name: "exit of a failed sanitize", Args: []string{"--raw", "--opcode=0x48,0x1f", absentSG}},
			Case{
				Name: "a service action that is no number", Args: []string{"--raw", "--opcode=0x3b,zz", absentSG},
				Want: Want{Usage, 1, "bad SA argument to '--opcode'"},
			},
		),
		tool("sg_read_buffer", "sg_read_buffer failed"+missing, "Missing device name!",
			Case{Name: "buffer descriptor", Args: []string{"--mode=desc", "--length=4", "--raw", absentSG}},
			badMode("--mode=nope", "--length=4", "--raw", absentSG),
		),
		tool("sg_write_buffer", "sg_write_buffer: open error: "+absentSG+missing, "Missing device name!",
			download("save", "dmc_offs_save"),
			download("select events", "dmc_offs_ev_defer", "--specific=6"),
			download("defer", "dmc_offs_defer"),
			Case{Name: "activate", Args: []string{"-v", "--mode=activate_mc", "--timeout=1200", absentSG}},
			Case{
				Name: "an image that is not there",
				Args: []string{"-v", "--mode=dmc_offs_defer", "--bpw=4096", "--length=4096", "--timeout=1200", "--in={missing}", absentSG},
			},
			badMode("-v", "--mode=nope", "--timeout=1200", absentSG),
			wrongEvents,
		),
		tool("sg_luns", "open error: "+absentSG+missing, "missing device name!",
			Case{Name: "logical units", Args: []string{"--raw", absentSG}},
		),
		tool("sg_persist", "sg_persist: error opening file "+absentSG+" (rw)"+missing, "No device name given",
			Case{Name: "reservation keys", Args: []string{"--no-inquiry", "--in", "--read-keys", "-HHH", absentSG}},
		),
		tool("sg_requests", "", "Missing device name!", // with --raw it does not say why it cannot open a device
			Case{Name: "sense data", Args: []string{"--raw", absentSG}, Want: Want{Unclear, noSuchFile, ""}},
		),
		tool("sg_sanitize", "sg_sanitize: open error: "+absentSG+missing, "Missing device name!",
			sanitize("crypto erase", "--crypto", "--ause"),
			sanitize("crypto erase that is not left", "--crypto"),
			sanitize("block erase", "--block", "--ause"),
			sanitize("overwrite", "--overwrite", "--zero", "--ause"),
			noPattern,
			noMethod,
		),
		tool("sg_sat_identify", "sg_sat_identify failed"+missing, "Missing device name!",
			Case{Name: "identify a SATA drive", Args: []string{"--raw", absentSG}},
		),
	}
}
