package simhost

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// toolFunc is a tool: it returns the exit code, or errDied when the process must end without output.
type toolFunc func(*call) (int, error)

func toolFuncs() map[string]toolFunc {
	return map[string]toolFunc{
		"mstflint": mstflint, "mstfwreset": mstfwreset, "mstconfig": mstconfig, "lspci": lspci, "setpci": setpci, "nvme": nvmeCLI,
		"sg_luns": sgLuns, "sg_persist": sgPersist, "sg_requests": sgRequests, "sg_sanitize": sgSanitize,
		"sg_inq": sgInq, "sg_logs": sgLogs, "sg_opcodes": sgOpcodes, "sg_read_buffer": sgReadBuffer, "sg_write_buffer": sgWriteBuffer,
		"sg_sat_identify": sgSATIdentify, "fwupdtool": fwupdtool, "systemctl": systemctl, "nsenter": nsenter,
		"busctl": busctl, "systemd-inhibit": systemdInhibit,
	}
}

// Tools lists the names of the tools.
func Tools() []string { return slices.Sorted(maps.Keys(toolFuncs())) }

// IsTool reports whether a program of this name or path is one of the tools.
func IsTool(name string) bool { return toolFuncs()[filepath.Base(name)] != nil }

// exitKilled is the exit code of a process that died with its machine.
const exitKilled = 137

// errDied is what a tool returns when its machine lost its power.
var errDied = errors.New("the machine has no power")

// RunTool runs the tool that argv[0] names by its path (<machine>/usr/bin/<tool>) or by a name in PATH, and returns its
// exit code. The path determines the machine.
func RunTool(argv []string, stdout, stderr io.Writer) int {
	code, err := runTool(argv, stdout, stderr)
	switch {
	case errors.Is(err, errDied):
		return exitKilled
	case err != nil:
		fmt.Fprintf(stderr, "simhost: %v\n", err)
		return exitSimhost
	}
	return code
}

// exitSimhost is the exit code when the simulation itself is broken; no tool has it.
const exitSimhost = 125

func runTool(argv []string, stdout, stderr io.Writer) (int, error) {
	if len(argv) == 0 || !IsTool(argv[0]) {
		return 0, fmt.Errorf("find tool: %q is none of %v", argv, Tools())
	}
	path := argv[0]
	if filepath.Base(path) == path {
		found, err := exec.LookPath(path)
		if err != nil {
			return 0, fmt.Errorf("find tool: %w", err)
		}
		path = found
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return 0, fmt.Errorf("find tool: %w", err)
	}
	m, err := Open(filepath.Dir(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0, err
	}
	done, err := m.registerTool()
	if err != nil {
		return 0, err
	}
	defer done()
	c := &call{m: m, tool: filepath.Base(path), argv: argv, stdout: stdout, stderr: stderr}
	if s, err := m.view(); err != nil {
		return 0, err
	} else if s.Off {
		return 0, errDied
	}
	return toolFuncs()[c.tool](c)
}

// call is one run of a tool.
type call struct {
	m              *Machine
	tool           string
	argv           []string
	stdout, stderr io.Writer
	// fault is the fault of this call; see run.
	fault *Fault
}

func (c *call) printf(format string, args ...any) { fmt.Fprintf(c.stdout, format, args...) }

// fail prints to standard error and returns the exit code.
func (c *call) fail(code int, format string, args ...any) (int, error) {
	fmt.Fprintf(c.stderr, format, args...)
	return code, nil
}

// run runs an operation on a device with the fault that is set for it. The body prints the tool's output.
func (c *call) run(device, operation string, body func() (int, error)) (int, error) {
	f, err := c.m.strike(c.tool, device, operation, Fail, Hang, Lie, FailAfterSuccess, Garbage)
	if err != nil {
		return 0, err
	}
	c.fault = f
	writes := !slices.Contains([]string{"query", "verify", "read", "scope", "inhibit"}, operation)
	switch {
	case f == nil:
		return body()
	case f.Kind == Fail:
		if writes {
			op := Operation{Device: device, Action: actionOf(operation), Result: Failed, Detail: "fault " + f.ID}
			if err := c.m.update(func(s *state) error { _, err := c.record(s, op); return err }); err != nil {
				return 0, err
			}
		}
		return c.faulty()
	case f.Kind == Garbage:
		c.printf("%s", f.Stdout)
		return f.ExitCode, nil
	case f.Kind == Hang && !writes:
		if err := c.hang(); err != nil {
			return 0, err
		}
	}
	code, err := body()
	if f.Kind == FailAfterSuccess && err == nil {
		return c.faulty()
	}
	return code, err
}

func (c *call) faulty() (int, error) {
	code := c.fault.ExitCode
	if code == 0 {
		code = 1
	}
	return c.fail(code, "%s", c.fault.Stderr)
}

// hang waits until the fault is cleared.
func (c *call) hang() error {
	for {
		faults, err := c.m.Faults()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(faults, func(f Fault) bool { return f.ID == c.fault.ID && f.Kind == Hang }) {
			return nil
		}
		if s, err := c.m.view(); err != nil || s.Off {
			return errDied
		}
		time.Sleep(powerPoll) //nolint:forbidigo // a tool that hangs until its fault is cleared by another process
	}
}

// errBusy says that another process writes to the device.
var errBusy = errors.New("another process writes to the device")

// job is one change of a device that takes time.
type job struct {
	op Operation
	// takes is how long it takes; progress is called from 0 to 100.
	takes    time.Duration
	progress func(percent int)
	// begin and finish change the state before the first and after the last byte. Between them the device is in the
	// state begin left, also when the process is killed.
	begin, finish func(*state)
}

// progressSteps is how many times a job reports progress.
const progressSteps = 10

// do runs a job, exclusively on its device.
func (c *call) do(j job) error {
	unlock, err := lockFile(c.m.path("devices", j.op.Device+".lock"), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errBusy
	} else if err != nil {
		return err
	}
	defer unlock()
	lie := c.fault != nil && c.fault.Kind == Lie
	j.op.Result = Started
	err = c.m.update(func(s *state) error {
		if s.Off {
			return errDied
		}
		op, err := c.record(s, j.op)
		if err == nil && j.begin != nil && !lie {
			j.begin(s)
		}
		j.op = op
		return err
	})
	if err != nil {
		return err
	}
	for i := range progressSteps + 1 {
		if j.progress != nil {
			j.progress(100 * i / progressSteps)
		}
		if i == progressSteps/2 && c.fault != nil && c.fault.Kind == Hang {
			if err := c.hang(); err != nil {
				return err
			}
		}
		if i < progressSteps {
			time.Sleep(j.takes / progressSteps) //nolint:forbidigo // the time the simulated device takes
		}
	}
	return c.m.update(func(s *state) error {
		if s.Off {
			return errDied
		}
		j.op.Result = Done
		if lie {
			j.op.Result, j.op.Detail = Lied, "fault "+c.fault.ID
		} else if j.finish != nil {
			j.finish(s)
		}
		return c.m.appendHistory(j.op)
	})
}

func (c *call) record(s *state, op Operation) (Operation, error) {
	op.Tool, op.Argv = c.tool, c.argv
	return c.m.record(s, op)
}

// refused records a change that the device did not accept.
func (c *call) refused(device, action string, img Image, why string) error {
	return c.m.update(func(s *state) error {
		_, err := c.record(s, Operation{
			Device: device, Action: action, Version: img.Version, Digest: img.Digest, Result: Failed, Detail: why,
		})
		return err
	})
}

func actionOf(operation string) string { return string(operation[0]-'a'+'A') + operation[1:] }
