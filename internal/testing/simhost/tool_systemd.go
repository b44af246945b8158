package simhost

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	systemdService = "org.freedesktop.systemd1"
	systemdObject  = "/org/freedesktop/systemd1"
	systemdManager = "org.freedesktop.systemd1.Manager"
)

// busctl understands two calls of systemd's manager: StartTransientUnit, for scopes, and GetUnitByPID.
func busctl(c *call) (int, error) {
	args := c.argv[1:]
	if len(args) < 5 || !slices.Equal(args[:4], []string{"call", systemdService, systemdObject, systemdManager}) {
		return c.fail(1, "Call failed: The name is not activatable\n")
	}
	method, args := args[4], args[5:]
	switch method {
	case "StartTransientUnit":
		return c.run("", "scope", func() (int, error) { return c.startScope(args) })
	case "GetUnitByPID":
		return c.run("", "scope", func() (int, error) { return c.unitByPID(args) })
	}
	return c.fail(1, "Call failed: Unknown method %s or interface %s.\n", method, systemdManager)
}

// scopeProperties are the types of the properties that a scope can be made with.
var scopeProperties = map[string]string{
	"Description": "s", "PIDs": "au", "KillSignal": "i", "SendSIGKILL": "b", "TimeoutStopUSec": "t", "CollectMode": "s",
}

func (c *call) startScope(args []string) (int, error) {
	if len(args) < 4 || args[0] != "ssa(sv)a(sa(sv))" {
		return c.fail(1, "Call failed: Invalid arguments 'ssa(sv)a(sa(sv))' to call %s:StartTransientUnit()\n", systemdManager)
	}
	unit, mode := args[1], args[2]
	properties, complaint := parseProperties(args[3:])
	switch {
	case complaint != "":
		return c.fail(1, "%s\n", complaint)
	case mode != "fail" && mode != "replace":
		return c.fail(1, "Call failed: Job mode %s invalid\n", mode)
	case !strings.HasSuffix(unit, ".scope") || strings.Contains(unit, "/"):
		return c.fail(1, "Call failed: Unit name %s is neither a valid invocation ID nor unit name.\n", unit)
	case len(properties["PIDs"]) == 0:
		return c.fail(1, "Call failed: Scope has no PIDs. Refusing.\n")
	}
	pid, err := strconv.Atoi(properties["PIDs"][0])
	if err != nil {
		return c.fail(1, "Failed to parse \"%s\" specified for basic type \"u\": Invalid argument\n", properties["PIDs"][0])
	}
	p, err := readProcess(pid)
	if err != nil || p.zombie {
		return c.fail(1, "Call failed: Process with ID %d does not exist.\n", pid)
	}
	if _, err := os.Stat(c.m.path("scopes", unit)); !errors.Is(err, fs.ErrNotExist) {
		return c.fail(1, "Call failed: Unit %s was already loaded or has a fragment file.\n", unit)
	}
	if c.fault == nil || c.fault.Kind != Lie {
		if err := c.m.addScope(unit, pid, p.start); err != nil {
			return 0, err
		}
	}
	c.printf("o \"%s/job/%d\"\n", systemdObject, pid)
	return 0, nil
}

// parseProperties reads what busctl takes for a(sv)a(sa(sv)): a count, names with types and values, and no auxiliary
// units. The complaint is the error message to print.
func parseProperties(args []string) (properties map[string][]string, complaint string) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, "Failed to parse number of array entries: " + args[0]
	}
	properties = map[string][]string{}
	args = args[1:]
	for range n {
		if len(args) < 3 {
			return nil, "Too few parameters for signature."
		}
		name, kind, values := args[0], args[1], args[2:3]
		args = args[3:]
		if scopeProperties[name] != kind {
			return nil, fmt.Sprintf("Call failed: Cannot set property %s, or unknown property.", name)
		}
		if kind == "au" {
			count, err := strconv.Atoi(values[0])
			if err != nil || count < 1 || len(args) < count {
				return nil, "Too few parameters for signature."
			}
			values, args = args[:count], args[count:]
		}
		properties[name] = values
	}
	if len(args) != 1 || args[0] != "0" {
		return nil, "Too many parameters for signature."
	}
	return properties, ""
}

func (c *call) unitByPID(args []string) (int, error) {
	if len(args) != 2 || args[0] != "u" {
		return c.fail(1, "Too few parameters for signature.\n")
	}
	pid, err := strconv.Atoi(args[1])
	if err != nil {
		return c.fail(1, "Failed to parse \"%s\" specified for basic type \"u\": Invalid argument\n", args[1])
	}
	if p, err := readProcess(pid); err != nil || p.zombie {
		return c.fail(1, "Call failed: PID %d does not belong to any loaded unit.\n", pid)
	}
	unit, err := c.m.scopeOf(pid)
	if err != nil {
		return 0, err
	}
	if unit == "" {
		unit = "kubepods-besteffort.slice"
	}
	c.printf("o \"%s/unit/%s\"\n", systemdObject, busLabel(unit))
	return 0, nil
}

// busLabel writes a unit's name as D-Bus does in the path of an object.
func busLabel(unit string) string {
	var b strings.Builder
	for _, c := range []byte(unit) {
		if strings.IndexByte("-.@_", c) >= 0 {
			fmt.Fprintf(&b, "_%x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Inhibitor is a lock that keeps the machine from shutting down or sleeping.
type Inhibitor struct {
	PID                  int
	What, Who, Why, Mode string
}

// Inhibitors lists the locks that are held.
func (m *Machine) Inhibitors() ([]Inhibitor, error) {
	files, err := filepath.Glob(m.path("inhibitors", "*"))
	if err != nil {
		return nil, fmt.Errorf("list inhibitors: %w", err)
	}
	var held []Inhibitor
	for _, file := range files {
		// The holder has a lock on its file, so that a killed process is never taken for a holder.
		unlock, err := lockFile(file, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			unlock()
			continue
		}
		var i Inhibitor
		data, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(data, &i) == nil {
			held = append(held, i)
		}
	}
	return held, nil
}

// shutdownInhibited reports whether a shutdown is refused.
func (m *Machine) shutdownInhibited() (bool, error) {
	held, err := m.Inhibitors()
	return slices.ContainsFunc(held, func(i Inhibitor) bool {
		return i.Mode == "block" && slices.Contains(strings.Split(i.What, ":"), "shutdown")
	}), err
}

var inhibitOptions = optionTable{"what": "what=", "who": "who=", "why": "why=", "mode": "mode="}

// systemdInhibit holds a lock while "cat" runs, which is the only command it can run: it copies its input to its output.
func systemdInhibit(c *call) (int, error) {
	o, err := inhibitOptions.parse(c.argv[1:])
	if err != nil {
		return c.fail(1, "systemd-inhibit: %v\n", err)
	}
	if !slices.Equal(o.args, []string{"cat"}) {
		return c.fail(1, "Failed to execute %s: No such file or directory\n", strings.Join(o.args, " "))
	}
	i := Inhibitor{PID: os.Getpid(), What: o.values["what"], Who: o.values["who"], Why: o.values["why"], Mode: o.values["mode"]}
	if i.Mode != "block" && i.Mode != "delay" || i.What == "" {
		return c.fail(1, "Failed to inhibit: Invalid mode specification %s\n", i.Mode)
	}
	return c.run("", "inhibit", func() (int, error) {
		if c.fault != nil && c.fault.Kind == Lie {
			return 0, nil
		}
		release, err := c.m.hold(i)
		if err != nil {
			return 0, err
		}
		defer release()
		_, _ = io.Copy(c.stdout, os.Stdin)
		return 0, nil
	})
}

func (m *Machine) hold(i Inhibitor) (release func(), err error) {
	if err := os.MkdirAll(m.path("inhibitors"), 0o755); err != nil {
		return nil, err
	}
	data, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	path := m.path("inhibitors", strconv.Itoa(i.PID))
	if err := m.replace(path, data, 0o644); err != nil {
		return nil, err
	}
	unlock, err := lockFile(path, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return func() { os.Remove(path); unlock() }, nil
}
