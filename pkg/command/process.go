package command

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Process is one process of this boot. Process ids are reused; the pair of id and start time is not.
type Process struct {
	PID int
	// Start is when the process began, in clock ticks since the boot: field 22 of /proc/PID/stat.
	Start uint64
}

// Alive reports whether the process still runs.
func (p Process) Alive() bool {
	start, state, err := readStat(p.PID)
	return err == nil && start == p.Start && state != 'Z' && state != 'X'
}

// processOf looks up when a process began. A process that is gone by then has no start time and is never found alive.
func processOf(pid int) Process {
	start, _, err := readStat(pid)
	if err != nil {
		return Process{PID: pid}
	}
	return Process{PID: pid, Start: start}
}

func readStat(pid int) (start uint64, state byte, err error) {
	if pid <= 0 {
		return 0, 0, os.ErrNotExist
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The name of the program, field 2, is in parentheses and may contain anything; field 3 is the first one behind it.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const stateField, startField = 0, 22 - 3
	if len(fields) <= startField {
		return 0, 0, fmt.Errorf("read /proc/%d/stat: it has %d fields after the name", pid, len(fields))
	}
	start, err = strconv.ParseUint(string(fields[startField]), 10, 64)
	return start, fields[stateField][0], err
}
